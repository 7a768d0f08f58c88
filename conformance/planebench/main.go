// Command planebench measures the cost of the process boundary for decoding, for
// reading from the page cache, and for the whole read path of an array. In memory, the
// rows of neighboring chunks alternate, or each chunk is contiguous. It compares
// execution out of process with execution in process, in pairs of short samples, so
// that a busy machine affects both. It prints a Markdown table with the medians of the
// ratios.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// settings holds the flags of a run.
type settings struct {
	rounds int
	sample time.Duration
	only   string
	planes string
	dir    string
}

func main() {
	self := plugin.Main(plugin.Builtin{Openers: builtin.New(), Providers: []driver.Provider{filters.Provider()}})
	var s settings
	flag.IntVar(&s.rounds, "rounds", 7, "number of pairs of samples per line")
	flag.DurationVar(&s.sample, "sample", 200*time.Millisecond, "length of a sample")
	flag.StringVar(&s.only, "only", "", "run only lines that contain this string, such as \"whole 1024\"")
	flag.StringVar(&s.planes, "plane", "", "run only planes whose name contains this string, such as \"level 1\"")
	flag.Parse()
	if err := s.run(context.Background(), self); err != nil {
		fmt.Fprintln(os.Stderr, "planebench:", err)
		os.Exit(1)
	}
}

// work is one measured operation. op processes a batch of chunks for a caller and
// returns their number.
type work struct {
	name  string
	op    func(ctx context.Context, caller int) (chunks int, err error)
	cpu   func() time.Duration // CPU time of all processes of the plane
	close func()
}

// result is one sample.
type result struct{ wall, cpu float64 } // seconds per chunk

// measure runs w with the given number of callers for the duration of a sample.
func (s *settings) measure(ctx context.Context, w *work, callers int) (result, error) {
	var chunks atomic.Int64
	var once sync.Once
	var failed error
	cpu, began := w.cpu(), time.Now()
	end := began.Add(s.sample)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for time.Now().Before(end) {
				n, err := w.op(ctx, c)
				if err != nil {
					once.Do(func() { failed = err })
					return
				}
				chunks.Add(int64(n))
			}
		})
	}
	wg.Wait()
	n := float64(chunks.Load())
	return result{time.Since(began).Seconds() / n, (w.cpu() - cpu).Seconds() / n}, failed
}

func (s *settings) run(ctx context.Context, self plugin.Self) error {
	dir, err := os.MkdirTemp("", "nczarr-planebench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the directory is temporary
	s.dir = dir
	fmt.Printf("%d pairs of %v samples per line; load average at the start: %s\n\n", s.rounds, s.sample, load())
	fmt.Println("| work | chunk | callers | plane | in process, µs a chunk | ratio of speed | CPU, µs a chunk | ratio of CPU |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, kind := range []string{"decode", "get", "whole", "one run"} {
		for _, kib := range []int{64, 1024, 4096, 16384} {
			for _, callers := range []int{1, 8} {
				if !strings.Contains(fmt.Sprintf("%s %d %d", kind, kib, callers), s.only) {
					continue
				}
				if err := s.lines(ctx, self, kind, kib<<10, callers); err != nil {
					return err
				}
			}
		}
	}
	fmt.Printf("\nload average at the end: %s\n", load())
	return nil
}

// load returns the load average of the machine.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// lines measures one kind of work on every plane.
func (s *settings) lines(ctx context.Context, self plugin.Self, kind string, chunk, callers int) error {
	all, err := s.works(ctx, self, kind, chunk, callers)
	defer func() {
		for _, w := range all {
			w.close()
		}
	}()
	if err != nil {
		return err
	}
	base := all[0]
	ratios := make([][]result, len(all))
	var bases []result
	for round := range s.rounds + 1 {
		for i, w := range all[1:] {
			b, err := s.measure(ctx, base, callers)
			if err != nil {
				return err
			}
			r, err := s.measure(ctx, w, callers)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if round == 0 {
				continue // warm-up
			}
			bases = append(bases, b)
			ratios[i+1] = append(ratios[i+1], result{b.wall / r.wall, r.cpu / b.cpu})
		}
	}
	for i, w := range all[1:] {
		fmt.Printf("| %s | %s | %d | %s | %.0f | %.2f | %.0f | %.2f |\n", kind, size(chunk), callers, w.name,
			1e6*median(bases, func(r result) float64 { return r.wall }),
			median(ratios[i+1], func(r result) float64 { return r.wall }),
			1e6*median(bases, func(r result) float64 { return r.cpu }),
			median(ratios[i+1], func(r result) float64 { return r.cpu }))
	}
	return nil
}

func size(n int) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func median(rs []result, f func(result) float64) float64 {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = f(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}
