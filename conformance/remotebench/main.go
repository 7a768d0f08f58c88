//go:build unix

// Command remotebench measures reading and writing an array on a real S3 server
// behind a proxy that delays every request: this library, plain parallel
// requests for the same objects with the AWS SDK, zarr-python with obstore, and
// tensorstore, in turns in one run, each turn begun by another; the first turn
// does not count. It prints the times, the ratios to the plain requests, the CPU
// time of the measured process, which other work on the machine disturbs less,
// and its peak memory.
//
// The server keeps its objects in memory where the system has room for them. On a disk,
// writing measures the disk as much as the programs.
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

// settings of a run, handed to the measuring processes too.
type settings struct {
	MiB     int64         // of the array
	Latency time.Duration // of each request
	Runs    int
	Flying  int // requests at once of the plain measurement

	Endpoint, Bucket, Region string
	Turn                     int // of a write: each makes an array of its own, reads are of the first

	root string // of the bucket's files
}

// result is what a measuring process prints.
type result struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`  // seconds of the process, user's and system's, from its start of the work on
	Peak    int64   `json:"peak"` // bytes
	Sum     string  `json:"sum"`  // of what was read
}

func main() {
	var s settings
	flag.Int64Var(&s.MiB, "mib", 512, "size of the array in MiB; its chunks have 4 MiB")
	flag.DurationVar(&s.Latency, "latency", 50*time.Millisecond, "delay of every request")
	flag.IntVar(&s.Runs, "runs", 3, "turns that count; there is one more before them")
	flag.IntVar(&s.Flying, "flying", 32, "plain requests at once")
	peers := flag.String("peers", os.Getenv("NCZARR_PEERS_DIR"), "directory of the peers; empty leaves them out")
	child := flag.String("child", "", "internal: one measurement, as OP:WHO:JSON")
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

// run starts the server and the proxy, and lets everybody take turns.
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
	fmt.Fprintln(w, "op\twho\tseconds\tMiB/s\tplain / it\tCPU s\tpeak MiB\t")
	for _, op := range []string{"write", "read"} {
		if err := s.compare(ctx, w, op, who, peers); err != nil {
			return err
		}
	}
	return w.Flush()
}

// delayed starts a proxy that waits before it sends a request on.
func delayed(target string, latency time.Duration) (*httptest.Server, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	rp := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = u.Scheme, u.Host
			r.Out.Host = r.In.Host // which is signed
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(latency)
		rp.ServeHTTP(w, r)
	})), nil
}

// compare lets all of them do the same in turns, and prints their medians.
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
				return fmt.Errorf("%s reads other values than those before it", name)
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

// clean removes what a turn has written, but for the array that all read.
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

func median(of []result, value func(result) float64) float64 {
	var v []float64
	for _, r := range of {
		v = append(v, value(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// measure runs one measurement in a process of its own. Everybody writes an
// array of its own and reads the one that nczarr wrote.
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
