// Command bench measures reading and writing of a float32 array, in process and out of
// process, and compares the results with zarr-python and tensorstore. It prints a table
// with ratios, sizes and peak memory. After that it compares the levels of zstd with
// those of numcodecs.
//
// Each measurement runs in its own process, which makes its peak memory meaningful. The
// measurements of nczarr and the peers alternate, so that a busy machine affects both.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// settings holds the flags of a run.
type settings struct {
	rows, cols, chunk int64
	runs              int
	dir, peers        string
	only              string
	child             string
	codec, data       string
}

func main() {
	self := plugin.Main(plugin.Builtin{Openers: builtin.New(), Providers: []driver.Provider{filters.Provider()}})
	var s settings
	flag.Int64Var(&s.rows, "rows", 8192, "rows of the array")
	flag.Int64Var(&s.cols, "cols", 16384, "columns of the array")
	flag.Int64Var(&s.chunk, "chunk", 1024, "rows and columns of a chunk")
	flag.IntVar(&s.runs, "runs", 3, "number of repetitions of each measurement")
	flag.StringVar(&s.dir, "dir", "", "directory for the stores (default a temporary directory)")
	flag.StringVar(&s.peers, "peers", os.Getenv("NCZARR_PEERS_DIR"), "directory of the peers; empty skips them")
	flag.StringVar(&s.only, "only", "", "run only stores whose storage and codec (\"zip raw\") contain this string")
	flag.StringVar(&s.child, "child", "", "internal: perform the measurement given as JSON")
	flag.StringVar(&s.codec, "codec", "", "only compare the levels of a codec, zstd or blosc-zstd, with the peer's")
	flag.StringVar(&s.data, "data", "/usr/share/ferret-vis/data", "directory of the netCDF files of ferret-datasets, for comparing levels")
	flag.Parse()
	var err error
	switch {
	case s.child != "":
		err = runChild(context.Background(), self, s.child)
	case s.codec != "":
		err = s.codecs(context.Background(), s.codec)
	default:
		err = s.all(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// job describes one measurement for a child process.
type job struct {
	Op        string // read, write or baseline
	URL       string // URL of the dataset
	Isolation string
	Codecs    string // JSON list
	Rows      int64
	Cols      int64
	Chunk     int64
}

// result is the outcome of one measurement.
type result struct {
	Seconds float64 `json:"seconds"` // for reads, the time to read into untouched memory
	Touch   float64 `json:"touch"`   // for reads, the time to touch as much new memory as the array takes
	Peak    int64   `json:"peak"`    // peak memory of the measuring process in bytes
	Size    int64   `json:"size"`    // size of the store in bytes
	Sum     string  `json:"sum"`     // SHA-256 of the array that was read
}

// codecSet is a chain of codecs for the array.
type codecSet struct{ name, json string }

func codecSets() []codecSet {
	return []codecSet{
		{"raw", `[]`},
		{"blosc-lz4", `[{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}]`},
		{"shuffle+zstd", `[{"id": "shuffle", "elementsize": 4}, {"id": "zstd", "level": 1}]`},
		{"shuffle+zlib", `[{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}]`},
	}
}

// all performs all measurements.
func (s *settings) all(ctx context.Context) error {
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "nczarr-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // the directory is temporary
		s.dir = dir
	}
	if err := s.run(); err != nil || s.only != "" || s.peers == "" {
		return err
	}
	return s.codecs(ctx, "zstd")
}

// run compares the stores and prints the table.
func (s *settings) run() error {
	fmt.Printf("float32 %d x %d (%d MiB), chunks %d x %d (%d KiB), best of %d\n\n", s.rows, s.cols, s.rows*s.cols*4>>20,
		s.chunk, s.chunk, s.chunk*s.chunk*4>>10, s.runs)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "store\tcodec\top\tin process\tnew memory\tout of process\tratio\tbaseline\tzarr-python\tratio\ttensorstore\tratio\tsize MiB\tpeer MiB\tpeak MiB\tpeer peak\t")
	for _, storage := range []string{"file", "zip"} {
		for _, c := range codecSets() {
			if !strings.Contains(storage+" "+c.name, s.only) {
				continue
			}
			for _, op := range []string{"write", "read"} {
				if err := s.measure(w, storage, c, op); err != nil {
					return err
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			if err := os.RemoveAll(s.store(storage, c)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *settings) store(storage string, c codecSet) string {
	name := strings.NewReplacer("+", "-").Replace(c.name)
	if storage == "zip" {
		return filepath.Join(s.dir, name+".zip")
	}
	return filepath.Join(s.dir, name+".zarr")
}

// row collects the repetitions of one line of the table.
type row struct{ in, out, base, zarr, tensorstore []result }

func (s *settings) measure(w *tabwriter.Writer, storage string, c codecSet, op string) error {
	var r row
	url := s.store(storage, c) + "#mode=zarr," + storage
	for range s.runs {
		for _, m := range []struct {
			isolation string
			to        *[]result
		}{{"inproc", &r.in}, {"process", &r.out}} {
			got, err := s.spawn(job{op, url, m.isolation, c.json, s.rows, s.cols, s.chunk})
			if err != nil {
				return err
			}
			*m.to = append(*m.to, got)
		}
		if op == "read" && storage == "file" {
			got, err := s.spawn(job{"baseline", url, "inproc", c.json, s.rows, s.cols, s.chunk})
			if err != nil {
				return err
			}
			r.base = append(r.base, got)
		}
		if err := s.peersOf(&r, storage, c, op); err != nil {
			return err
		}
	}
	return r.print(w, storage, c, op)
}

// spawn performs one measurement of nczarr in its own process.
func (s *settings) spawn(j job) (result, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return result{}, err
	}
	exe, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.Command(exe, "-child", string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	var r result
	err = json.Unmarshal(out, &r)
	return r, err
}

// print writes the line with the fastest repetition of each measurement.
func (r *row) print(w *tabwriter.Writer, storage string, c codecSet, op string) error {
	in, out := best(r.in), best(r.out)
	for _, other := range [][]result{r.out, r.zarr, r.tensorstore} {
		for _, o := range other {
			if op == "read" && o.Sum != "" && o.Sum != in.Sum {
				return fmt.Errorf("%s %s: the values differ: %s and %s", storage, c.name, in.Sum, o.Sum)
			}
		}
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%.3f s\t%.3f s\t%.3f s\t%.2f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", storage, c.name, op,
		in.Seconds, in.Touch, out.Seconds, in.Seconds/out.Seconds, seconds(r.base), seconds(r.zarr), ratio(r.zarr, in), seconds(r.tensorstore), ratio(r.tensorstore, in),
		mib(in.Size), sizeOf(r.zarr), in.Peak>>20, peakOf(r.zarr))
	return nil
}

func best(rs []result) result {
	return slices.MinFunc(rs, func(a, b result) int {
		switch {
		case a.Seconds < b.Seconds:
			return -1
		case a.Seconds > b.Seconds:
			return 1
		}
		return 0
	})
}

func seconds(rs []result) string {
	if len(rs) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f s", best(rs).Seconds)
}

// ratio returns how many times longer the peer took.
func ratio(peer []result, own result) string {
	if len(peer) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", best(peer).Seconds/own.Seconds)
}

func mib(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

func sizeOf(rs []result) string {
	if len(rs) == 0 || rs[0].Size == 0 {
		return "-"
	}
	return mib(rs[0].Size)
}

func peakOf(rs []result) string {
	if len(rs) == 0 {
		return "-"
	}
	return fmt.Sprint(best(rs).Peak >> 20)
}
