package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/conformance/sample"
	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// compared maps the names of the codecs in the comparison to their parameters. The level,
// from 1 to 9, replaces %d.
var compared = map[string]struct {
	params   string
	shuffles bool // the codec shuffles the data itself
}{
	"zstd":       {`{"id": "zstd", "level": %d}`, false},
	"blosc-zstd": {`{"id": "blosc", "cname": "zstd", "clevel": %d, "shuffle": 1, "blocksize": 0}`, true},
}

const levels = 9

// arrayBytes returns the maximum size of an array in bytes, which is the size of a float32
// chunk.
func (s *settings) arrayBytes() int { return int(s.chunk * s.chunk * 4) }

// dataSet is a set of arrays and its results. It has one row in each table.
type dataSet struct {
	name    string
	arrays  []sample.Array
	byLevel [levels]comparison
}

// comparison holds the results of nczarr (own) and of the peer for one level, summed
// over the arrays of a set.
type comparison struct{ own, peer codecResult }

// codecResult is a size in bytes and processor times in seconds.
type codecResult struct {
	Size   int64   `json:"size"`
	Encode float64 `json:"encode"`
	Decode float64 `json:"decode"`
}

func (r *codecResult) add(o codecResult) {
	r.Size, r.Encode, r.Decode = r.Size+o.Size, r.Encode+o.Encode, r.Decode+o.Decode
}

// keepFastest replaces the times of r with those of o that are smaller.
func (r *codecResult) keepFastest(o codecResult) {
	if r.Size == 0 {
		*r = o
	}
	r.Encode, r.Decode = min(r.Encode, o.Encode), min(r.Decode, o.Decode)
}

// codecs compares the levels of a codec with the same codec of numcodecs and prints
// tables of sizes and speeds. It alternates between nczarr and the peer for every array
// and level.
func (s *settings) codecs(ctx context.Context, id string) error {
	c, ok := compared[id]
	switch {
	case !ok:
		return fmt.Errorf("codec %q cannot be compared: must be zstd or blosc-zstd", id)
	case s.peers == "":
		return fmt.Errorf("compare %s: the peers are not installed (-peers)", id)
	}
	dir, err := os.MkdirTemp(s.dir, "nczarr-codecs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the directory is temporary
	p, err := startPeer(ctx, s.peers)
	if err != nil {
		return err
	}
	defer p.stop()
	sets, err := s.dataSets(ctx, p, dir, c.shuffles)
	if err != nil {
		return err
	}
	var v struct{ Numcodecs, Zstd, Blosc string }
	if err := p.ask(map[string]any{"versions": true}, &v); err != nil {
		return err
	}
	for i := range sets {
		for j, a := range sets[i].arrays {
			file := filepath.Join(dir, fmt.Sprintf("%d-%d", i, j))
			if err := os.WriteFile(file, a.Data, 0o600); err != nil {
				return err
			}
			for level := range levels {
				if err := s.alternate(ctx, p, &sets[i].byLevel[level], a, file, fmt.Sprintf(c.params, level+1)); err != nil {
					return fmt.Errorf("%s of %s, level %d: %w", id, a.Name, level+1, err)
				}
			}
		}
	}
	fmt.Fprintf(os.Stdout, "%s compared with numcodecs %s (zstd %s, blosc %s), best of %d\n", id, v.Numcodecs, v.Zstd, v.Blosc, s.runs)
	printCodecs(os.Stdout, sets)
	return nil
}

// dataSets returns the data to compare. For codecs that do not shuffle, it adds a
// shuffled copy of every array with elements longer than a byte.
func (s *settings) dataSets(ctx context.Context, p *peer, dir string, shuffles bool) ([]dataSet, error) {
	arrays, err := s.unpacked(p, dir)
	if err != nil {
		return nil, err
	}
	arrays = append(arrays, sample.Arrays(s.arrayBytes())...)
	prose, err := documents(s.arrayBytes())
	if err != nil {
		return nil, err
	}
	arrays = append(arrays, sample.Array{Kind: "text", Name: "documents", DType: "|u1", Size: 1, Data: prose})
	var sets []dataSet
	add := func(name string, a sample.Array) {
		i := slices.IndexFunc(sets, func(d dataSet) bool { return d.name == name })
		if i < 0 {
			i, sets = len(sets), append(sets, dataSet{name: name})
		}
		sets[i].arrays = append(sets[i].arrays, a)
	}
	for _, a := range arrays {
		add(a.Kind, a)
		if a.Size == 1 || shuffles {
			continue
		}
		out, err := openCodec(ctx, a, fmt.Sprintf(`{"id": "shuffle", "elementsize": %d}`, a.Size))
		if err != nil {
			return nil, err
		}
		data := make([]byte, len(a.Data))
		if _, err := out.Encode(ctx, data, a.Data); err != nil {
			return nil, err
		}
		add(a.Kind+", shuffled", sample.Array{Kind: a.Kind, Name: a.Name, DType: "|u1", Size: 1, Data: data})
	}
	return sets, nil
}

// unpacked returns the numeric variables of the netCDF files in -data, or no arrays if
// the folder does not exist.
func (s *settings) unpacked(p *peer, dir string) ([]sample.Array, error) {
	if _, err := os.Stat(s.data); err != nil {
		fmt.Fprintf(os.Stderr, "bench: skipping the data of ferret-datasets: %v\n", err)
		return nil, nil
	}
	var got struct {
		Files []struct{ Path, DType string }
	}
	if err := p.ask(map[string]any{"unpack": s.data, "to": dir, "bytes": s.arrayBytes()}, &got); err != nil {
		return nil, err
	}
	var arrays []sample.Array
	for _, f := range got.Files {
		data, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, err
		}
		t, err := dtype.Parse(f.DType)
		if err != nil {
			return nil, err
		}
		arrays = append(arrays, sample.Array{Kind: "ferret", Name: filepath.Base(f.Path), DType: f.DType, Size: t.Size, Data: data})
	}
	return arrays, nil
}

// documents returns the concatenated documentation of this project, truncated to size.
func documents(size int) ([]byte, error) {
	var all []byte
	err := filepath.WalkDir("docs", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, text...)
		return err
	})
	return all[:min(len(all), size)], err
}

// openCodec opens a codec for an array that is a single chunk.
func openCodec(ctx context.Context, a sample.Array, params string) (*codec.Pipeline, error) {
	t, err := dtype.Parse(a.DType)
	if err != nil {
		return nil, err
	}
	var head struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(params), &head); err != nil {
		return nil, err
	}
	all := filters.Provider()
	return codec.Open(ctx, []driver.Step{{ID: head.ID, Params: json.RawMessage(params)}}, driver.Spec{DType: t, Shape: []int{len(a.Data) / a.Size}},
		func(string) (driver.Provider, error) { return all, nil })
}

// alternate encodes and decodes an array s.runs times with nczarr and with the peer,
// alternating which one goes first.
func (s *settings) alternate(ctx context.Context, p *peer, to *comparison, a sample.Array, file, params string) error {
	pipe, err := openCodec(ctx, a, params)
	if err != nil {
		return err
	}
	enc, dec := make([]byte, pipe.MaxEncoded()), make([]byte, len(a.Data))
	var best comparison
	own := func() error {
		r, err := once(ctx, pipe, enc, dec, a.Data)
		best.own.keepFastest(r)
		return err
	}
	peers := func() error {
		var r codecResult
		err := p.ask(map[string]any{"file": file, "itemsize": a.Size, "codec": json.RawMessage(params), "runs": 1}, &r)
		best.peer.keepFastest(r)
		return err
	}
	runtime.GC() // the collector must not run during a measurement
	// The first run initializes the tables of the encoder.
	order := []func() error{own, own, peers}
	for range s.runs {
		for _, f := range order {
			if err := f(); err != nil {
				return err
			}
		}
		order = []func() error{peers, own}
		slices.Reverse(order)
	}
	to.own.add(best.own)
	to.peer.add(best.peer)
	return pipe.Close()
}

func once(ctx context.Context, pipe *codec.Pipeline, enc, dec, data []byte) (codecResult, error) {
	began := cpuTime()
	n, err := pipe.Encode(ctx, enc, data)
	if err != nil {
		return codecResult{}, err
	}
	middle := cpuTime()
	if _, err := pipe.Decode(ctx, dec, enc[:n]); err != nil {
		return codecResult{}, err
	}
	r := codecResult{int64(n), middle - began, cpuTime() - middle}
	if !bytes.Equal(dec, data) {
		return r, fmt.Errorf("decoding does not restore the encoded data")
	}
	return r, nil
}

// cpuTime returns the processor time of this process in seconds. Both nczarr and the
// peer use a single thread, and other work on the machine affects processor time less
// than elapsed time.
func cpuTime() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // every system has this clock
	}
	return float64(t.Nano()) / 1e9
}

// printCodecs writes Markdown tables of sizes and speeds relative to the peer.
func printCodecs(w io.Writer, sets []dataSet) {
	mean := func(f func(c *comparison) float64, level int) float64 {
		sum := 0.0
		for i := range sets {
			sum += math.Log(f(&sets[i].byLevel[level]))
		}
		return math.Exp(sum / float64(len(sets)))
	}
	table := func(title, verb string, value func(c *comparison) float64, show func(float64) float64) {
		fmt.Fprintf(w, "\n%s\n\n| data | MiB | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |\n|---%s|\n", title, strings.Repeat("|---", levels+1))
		for i := range sets {
			fmt.Fprintf(w, "| %s | %s ", sets[i].name, mib(sets[i].bytes()))
			for level := range levels {
				fmt.Fprintf(w, "| "+verb+" ", show(value(&sets[i].byLevel[level])))
			}
			fmt.Fprintln(w, "|")
		}
		fmt.Fprint(w, "| mean |  ")
		for level := range levels {
			fmt.Fprintf(w, "| "+verb+" ", show(mean(value, level)))
		}
		fmt.Fprintln(w, "|")
	}
	same := func(v float64) float64 { return v }
	table("Size, percent above the peer's", "%+.1f", func(c *comparison) float64 { return float64(c.own.Size) / float64(c.peer.Size) }, func(v float64) float64 { return 100 * (v - 1) })
	table("Speed of encoding, the peer's being 1", "%.2f", func(c *comparison) float64 { return c.peer.Encode / c.own.Encode }, same)
	table("Speed of decoding, the peer's being 1", "%.2f", func(c *comparison) float64 { return c.peer.Decode / c.own.Decode }, same)
	fmt.Fprintf(w, "\nOurs: size in percent of the data, MB/s of encoding and of decoding\n\n| data | MiB | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 |\n|---%s|\n", strings.Repeat("|---", levels+1))
	for i := range sets {
		n := float64(sets[i].bytes())
		fmt.Fprintf(w, "| %s | %s ", sets[i].name, mib(sets[i].bytes()))
		for _, c := range sets[i].byLevel {
			fmt.Fprintf(w, "| %.1f, %.0f, %.0f ", 100*float64(c.own.Size)/n, n/c.own.Encode/1e6, n/c.own.Decode/1e6)
		}
		fmt.Fprintln(w, "|")
	}
}

func (d *dataSet) bytes() (n int64) {
	for _, a := range d.arrays {
		n += int64(len(a.Data))
	}
	return n
}

// peer is a running conformance/interop/peers/codecs.py process.
type peer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startPeer(ctx context.Context, peers string) (*peer, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(peers, "venv", "bin", "python"), "-B", "conformance/interop/peers/codecs.py")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the peer: %w", err)
	}
	return &peer{cmd, in, bufio.NewReader(out)}, nil
}

// ask sends a request and reads the response.
func (p *peer) ask(request, answer any) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("send a request to the peer: %w", err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the response of the peer: %w", err)
	}
	return json.Unmarshal(line, answer)
}

// stop closes the input of the process, which ends it, and waits for it.
func (p *peer) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}
