//go:build unix

// Command shardbench measures reading and writing of Zarr v3 arrays with and without
// shards, in process, and compares the results with zarrs, tensorstore and zarr-python.
// It prints a table with the times, processor times and peak memory of all programs.
//
// The arrays A, B and C are those of the benchmark that zarrs publishes: unsigned 16-bit
// integers, raw in A, with zstd at level 3 in B and C, and in shards in C. D and E hold
// 16,384 chunks of 4 KiB, in shards in E. zarr-python writes them.
//
// Each measurement runs in its own process. The programs take turns, and each turn starts
// with a different one. Of several turns the fastest counts.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
)

// settings holds the flags of a run.
type settings struct {
	edge, chunk, inner int64
	runs, flight       int
	dir, peers, zarrs  string
	only               string
}

// job describes one measurement for a child process or for peers.py.
type job struct {
	Op     string  `json:"op"`     // write, whole, chunks, inner or roundtrip
	Store  string  `json:"store"`  // directory of the array
	Out    string  `json:"out"`    // directory of the copy that roundtrip writes
	Shape  []int64 `json:"shape"`  // of the array
	Chunk  []int64 `json:"chunk"`  // shape of a chunk, or of a shard
	Inner  []int64 `json:"inner"`  // shape of a chunk in a shard; nil without shards
	Zstd   bool    `json:"zstd"`   // chunks are compressed with zstd at level 3
	Flight int     `json:"flight"` // number of chunks read at the same time, except by whole
}

// result is the outcome of one measurement.
type result struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`  // user and system time in seconds
	Peak    int64   `json:"peak"` // peak memory in bytes; of the whole process if the program does not print it
}

func main() {
	var s settings
	flag.Int64Var(&s.edge, "edge", 1024, "length of each dimension of the arrays A, B and C")
	flag.Int64Var(&s.chunk, "chunk", 256, "length of each dimension of a chunk, or of a shard")
	flag.Int64Var(&s.inner, "inner", 64, "length of each dimension of a chunk in a shard")
	flag.IntVar(&s.runs, "runs", 3, "number of turns")
	flag.IntVar(&s.flight, "flight", 1, "number of chunks that are read at the same time, if the array is not read whole")
	flag.StringVar(&s.dir, "dir", "", "directory for the stores (default a temporary directory); stores that it contains are used again")
	flag.StringVar(&s.peers, "peers", os.Getenv("NCZARR_PEERS_DIR"), "directory of the peers, which also write the arrays")
	flag.StringVar(&s.zarrs, "zarrs", os.Getenv("NCZARR_ZARRS_DIR"), "directory of the programs of zarrs; empty skips them")
	flag.StringVar(&s.only, "only", "", "run only rows that contain this string, such as \"C inner\"")
	child := flag.String("child", "", "internal: perform the measurement given as JSON")
	flag.Parse()
	var err error
	if *child != "" {
		err = runChild(context.Background(), *child)
	} else {
		err = s.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shardbench:", err)
		os.Exit(1)
	}
}

// array is one of the arrays, and the operations that are measured with it.
type array struct {
	name string
	job  job
	ops  []string
}

func (s *settings) arrays() []array {
	cube := func(n int64) []int64 { return []int64{n, n, n} }
	small := job{Shape: []int64{4096, 8192}, Chunk: []int64{32, 64}, Zstd: true}
	sharded := small
	sharded.Chunk, sharded.Inner = []int64{1024, 1024}, small.Chunk
	return []array{
		{"A", job{Shape: cube(s.edge), Chunk: cube(s.chunk)}, []string{"whole", "chunks", "roundtrip"}},
		{"B", job{Shape: cube(s.edge), Chunk: cube(s.chunk), Zstd: true}, []string{"whole", "chunks", "roundtrip"}},
		{"C", job{Shape: cube(s.edge), Chunk: cube(s.chunk), Inner: cube(s.inner), Zstd: true}, []string{"whole", "chunks", "inner", "roundtrip"}},
		{"D", small, []string{"whole", "chunks", "roundtrip"}},
		{"E", sharded, []string{"whole", "chunks", "inner", "roundtrip"}},
	}
}

// run writes the arrays and performs all measurements.
func (s *settings) run(ctx context.Context) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "nczarr-shards-"); err != nil {
			return err
		}
		defer os.RemoveAll(s.dir) //nolint:errcheck // the directory is temporary
	}
	who := []string{"nczarr", "zarrs", "tensorstore", "zarr-python"}
	if s.zarrs == "" {
		who = slices.Delete(who, 1, 2)
	}
	fmt.Printf("uint16, %d^3 in chunks of %d^3 (%d^3 in shards), %d in flight, best of %d\n\n", s.edge, s.chunk, s.inner, s.flight, s.runs)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "array\toperation\t")
	for _, name := range who {
		fmt.Fprintf(w, "%s\tCPU\tMiB\t", name)
	}
	fmt.Fprintln(w)
	for _, a := range s.arrays() {
		a.job.Store, a.job.Flight = filepath.Join(s.dir, a.name), s.flight
		for _, op := range a.ops {
			if !strings.Contains(a.name+" "+op, s.only) {
				continue
			}
			if err := s.compare(ctx, w, who, a, op); err != nil {
				return fmt.Errorf("%s %s: %w", a.name, op, err)
			}
		}
	}
	return w.Flush()
}

// slow limits the turns of slow peers: a peer that takes more than slow times as long as
// nczarr in the first turn is not measured again.
const slow = 10

// compare measures one operation with every program and prints the fastest turn of each.
func (s *settings) compare(ctx context.Context, w *tabwriter.Writer, who []string, a array, op string) error {
	j := a.job
	if _, err := os.Stat(j.Store); err != nil {
		j.Op = "write"
		if _, err := s.measure(ctx, "zarr-python", j); err != nil {
			return err
		}
	}
	j.Op = op
	all := make(map[string][]result)
	for turn := range s.runs {
		first := turn % len(who)
		for _, name := range slices.Concat(who[first:], who[:first]) {
			if own, r := all["nczarr"], all[name]; turn > 0 && r[0].Seconds > slow*own[0].Seconds {
				continue
			}
			r, err := s.measure(ctx, name, j)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(os.Stderr, "%s %s: %s: %.3f s, CPU %.3f s, %d MiB\n", a.name, op, name, r.Seconds, r.CPU, r.Peak>>20)
			all[name] = append(all[name], r)
		}
	}
	own := fastest(all["nczarr"])
	fmt.Fprintf(w, "%s\t%s\t", a.name, op)
	for _, name := range who {
		r := fastest(all[name])
		fmt.Fprintf(w, "%.3f s", r.Seconds)
		if name != "nczarr" {
			fmt.Fprintf(w, ", %.2f", own.Seconds/r.Seconds)
		}
		fmt.Fprintf(w, "\t%.3f s", r.CPU)
		if name != "nczarr" {
			fmt.Fprintf(w, ", %.2f", own.CPU/r.CPU)
		}
		fmt.Fprintf(w, "\t%d\t", r.Peak>>20)
	}
	fmt.Fprintln(w)
	return nil
}

// fastest returns the least time, processor time and memory of the turns.
func fastest(turns []result) result {
	out := turns[0]
	for _, r := range turns[1:] {
		out.Seconds, out.CPU, out.Peak = min(out.Seconds, r.Seconds), min(out.CPU, r.CPU), min(out.Peak, r.Peak)
	}
	return out
}

// measure performs one measurement in its own process.
func (s *settings) measure(ctx context.Context, name string, j job) (result, error) {
	if j.Op == "roundtrip" {
		j.Out = filepath.Join(s.dir, "out")
		defer os.RemoveAll(j.Out) //nolint:errcheck // the next measurement fails if the directory exists
	}
	text, err := json.Marshal(j)
	if err != nil {
		return result{}, err
	}
	var cmd *exec.Cmd
	switch name {
	case "nczarr":
		exe, err := os.Executable()
		if err != nil {
			return result{}, err
		}
		cmd = exec.CommandContext(ctx, exe, "-child", string(text))
	case "zarrs":
		cmd = s.zarrsCommand(ctx, j)
	default:
		python := filepath.Join(s.peers, "venv", "bin", "python")
		cmd = exec.CommandContext(ctx, python, "-B", "conformance/shardbench/peers.py", name, string(text))
	}
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(msg.String()))
	}
	var r result
	if name == "zarrs" {
		r.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
		r.Seconds, err = zarrsSeconds(out)
	} else {
		err = json.Unmarshal(out, &r)
	}
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok && r.Peak == 0 {
		r.Peak = usage.Maxrss << 10
	}
	return r, err
}

// zarrsCommand returns the command of zarrs for a measurement.
func (s *settings) zarrsCommand(ctx context.Context, j job) *exec.Cmd {
	name, args := "zarrs_benchmark_read_sync", []string{j.Store}
	flight := []string{"--concurrent-chunks", strconv.Itoa(j.Flight)}
	switch j.Op {
	case "whole":
		args = append(args, "--read-all")
	case "chunks":
		args = append(args, flight...)
	case "inner":
		args = append(append(args, "--inner-chunks"), flight...)
	case "roundtrip":
		name, args = "zarrs_reencode", append(append(flight, j.Store), j.Out)
	}
	return exec.CommandContext(ctx, filepath.Join(s.zarrs, "bin", name), args...)
}

var milliseconds = regexp.MustCompile(`(?:Decoded .* in|total:) ([0-9.]+)ms`)

// zarrsSeconds returns the time that a program of zarrs printed.
func zarrsSeconds(out []byte) (float64, error) {
	m := milliseconds.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no time in %q", out)
	}
	ms, err := strconv.ParseFloat(string(m[1]), 64)
	return ms / 1000, err
}
