//go:build unix

// Command remotebench measures reading and writing an array on a real S3 server behind
// a proxy that delays every request. It compares nczarr, plain parallel requests for
// the same objects with the AWS SDK, zarr-python with obstore, and tensorstore. The
// programs take turns, and each turn starts with a different one; the first turn is
// only a warm-up. It prints the times, the speed relative to plain requests, and the CPU
// time and peak memory of the measured process. Other work on the machine affects the
// CPU time less than the elapsed time.
//
// The server keeps its objects in memory if the system has enough of it. With a disk,
// writing would measure the disk as much as the programs.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
)

// settings holds the flags of a run. The measuring processes receive them too.
type settings struct {
	MiB     int64         // size of the array
	Latency time.Duration // delay of each request
	Runs    int
	Flying  int // concurrent requests of the plain measurement

	Endpoint, Bucket, Region string
	Turn                     int // number of the turn; every write creates a separate array, and all reads use the first one

	root string // directory of the bucket
}

// result is the output of a measuring process.
type result struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`  // user and system CPU time of the work in seconds
	Peak    int64   `json:"peak"` // peak memory in bytes
	Sum     string  `json:"sum"`  // SHA-256 of the values read
}

func main() {
	var s settings
	flag.Int64Var(&s.MiB, "mib", 512, "size of the array in MiB; a chunk has 4 MiB")
	flag.DurationVar(&s.Latency, "latency", 50*time.Millisecond, "delay of every request")
	flag.IntVar(&s.Runs, "runs", 3, "number of measured turns, after one to warm up")
	flag.IntVar(&s.Flying, "flying", 32, "number of concurrent plain requests")
	peers := flag.String("peers", os.Getenv("NCZARR_PEERS_DIR"), "directory of the peers; empty skips them")
	child := flag.String("child", "", "internal: perform one measurement, given as OP:WHO:JSON")
	flag.Parse()
	err := error(nil)
	if *child != "" {
		err = runChild(context.Background(), *child)
	} else {
		err = s.run(context.Background(), *peers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "remotebench:", err)
		os.Exit(1)
	}
}

// run starts the server and the proxy and runs all measurements.
func (s settings) run(ctx context.Context, peers string) (err error) {
	binary, err := s3server.Binary(ctx)
	if err != nil {
		return err
	}
	srv, stop, err := s3server.Run(ctx, binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	proxy, err := delayed(srv.Endpoint, s.Latency)
	if err != nil {
		return err
	}
	defer proxy.Close()
	s.Endpoint, s.Bucket, s.Region = proxy.URL, srv.Bucket, srv.Region
	for k, v := range map[string]string{
		"AWS_ACCESS_KEY_ID": srv.AccessKey, "AWS_SECRET_ACCESS_KEY": srv.SecretKey, "AWS_REGION": srv.Region,
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(k, v); err != nil {
			return err
		}
	}
	who := []string{"nczarr", "plain"}
	if peers != "" {
		who = append(who, "zarr", "tensorstore")
	}
	fmt.Printf("%d MiB of float32 in chunks of 4 MiB, %v per request, medians of %d\n\n", s.MiB, s.Latency, s.Runs)
	s.root = filepath.Join(srv.Root, srv.Bucket)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "op\twho\tseconds\tMiB/s\trelative speed\tCPU s\tpeak MiB\t")
	for _, op := range []string{"write", "read"} {
		if err := s.compare(ctx, w, op, who, peers); err != nil {
			return err
		}
	}
	return w.Flush()
}

// delayed starts a proxy that delays every request.
func delayed(target string, latency time.Duration) (*httptest.Server, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	rp := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = u.Scheme, u.Host
			r.Out.Host = r.In.Host // the Host header is signed
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		rp.ServeHTTP(w, r)
	})), nil
}

// compare runs one operation with every program in turn, and prints the medians.
func (s settings) compare(ctx context.Context, w *tabwriter.Writer, op string, who []string, peers string) error {
	all, sum := map[string][]result{}, ""
	for turn := range s.Runs + 1 {
		if op == "write" {
			s.Turn = turn
		}
		first := turn % len(who)
		for _, name := range append(slices.Clone(who[first:]), who[:first]...) {
			r, err := s.measure(ctx, op, name, peers)
			if err != nil {
				return fmt.Errorf("%s %s: %w", name, op, err)
			}
			if op == "read" && sum != "" && r.Sum != sum {
				return fmt.Errorf("%s reads different values than the programs before it", name)
			}
			fmt.Fprintf(os.Stderr, "turn %d: %s %s: %.2f s, CPU %.2f s\n", turn, op, name, r.Seconds, r.CPU)
			if sum = r.Sum; turn > 0 {
				all[name] = append(all[name], r)
			}
		}
		if err := s.clean(op); err != nil {
			return err
		}
	}
	plain := median(all["plain"], func(r result) float64 { return r.Seconds })
	for _, name := range who {
		t := median(all[name], func(r result) float64 { return r.Seconds })
		cpu := median(all[name], func(r result) float64 { return r.CPU })
		peak := slices.MaxFunc(all[name], func(a, b result) int { return cmp.Compare(a.Peak, b.Peak) }).Peak
		fmt.Fprintf(w, "%s\t%s\t%.2f\t%.0f\t%.2f\t%.2f\t%d\t\n", op, name, t, float64(s.MiB)/t, plain/t, cpu, peak>>20)
	}
	return nil
}

// clean removes what a turn has written, except for the array that all programs read.
func (s settings) clean(op string) error {
	if op != "write" {
		return nil
	}
	entries, err := os.ReadDir(s.root)
	s.Turn = 0
	for _, e := range entries {
		if e.Name() != s.name() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.root, e.Name())))
		}
	}
	return err
}

func median(results []result, value func(result) float64) float64 {
	var v []float64
	for _, r := range results {
		v = append(v, value(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// measure runs one measurement in its own process. Every program writes its own array,
// and reads the one that nczarr wrote.
func (s settings) measure(ctx context.Context, op, name, peers string) (result, error) {
	conf, err := json.Marshal(s)
	if err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], "-child", op+":"+name+":"+string(conf))
	if name == "zarr" || name == "tensorstore" {
		cmd = exec.CommandContext(ctx, filepath.Join(peers, "venv", "bin", "python"), "-B", "conformance/remotebench/peers.py", op, name, string(conf))
	}
	var msg bytes.Buffer
	cmd.Stderr = &msg
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(msg.String()))
	}
	var r result
	return r, json.Unmarshal(bytes.TrimSpace(out), &r)
}
