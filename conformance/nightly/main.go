// Command nightly runs the campaigns that take too long for every change: all planted
// defects, kills at random points and while datasets are replaced, soaks, fuzzing,
// races, the full matrices and the benchmarks.
//
//	go run ./conformance/nightly                      # two hours
//	go run ./conformance/nightly -minutes 30 -only fuzz,kills -seed 7
//
// A campaign is a list of steps, each of which is a command. The program starts the
// steps of a campaign until its share of the time is used up, two at a time if a step
// leaves a processor idle, and reports the number of steps that it did not start. The
// same command on the same sources resumes an interrupted run: it does not repeat
// finished steps unless -fresh is set. The report is printed and stored as report.txt
// and report.json next to the output of the steps.
//
// The exit status is 0 if no step failed, 1 if a step failed, 2 if the campaigns could
// not be run, and 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	failed, err := run(ctx, os.Args[1:])
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}

// run parses the arguments and runs the campaigns. It reports whether a step failed.
func run(ctx context.Context, args []string) (failed bool, err error) {
	flags := flag.NewFlagSet("nightly", flag.ExitOnError)
	minutes := flags.Float64("minutes", 120, "time for all campaigns in minutes")
	only := flags.String("only", "", "names of campaigns, separated by commas (default all)")
	seed := flags.Uint64("seed", 0, "seed of random choices (default from the clock)")
	dir := flags.String("dir", "", "directory for output and reports (default a folder in the user's cache, named after the sources)")
	fresh := flags.Bool("fresh", false, "discard the results of an interrupted run")
	list := flags.Bool("list", false, "only list the campaigns and their steps")
	_ = flags.Parse(args) // Parse exits on an error
	sources, err := sourcesID(ctx)
	if err != nil {
		return false, err
	}
	if *dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return false, err
		}
		*dir = filepath.Join(cache, "nczarr", "nightly", sources)
	}
	s, err := openState(*dir, sources, *seed, *fresh)
	if err != nil {
		return false, err
	}
	all, err := campaigns(ctx, s.Seed, *minutes)
	if err != nil {
		return false, err
	}
	if *only != "" {
		names := strings.Split(*only, ",")
		for _, name := range names {
			if !slices.ContainsFunc(all, func(c campaign) bool { return c.name == name }) {
				return false, fmt.Errorf("unknown campaign %q (must be one of %s)", name, strings.Join(campaignNames(all), ", "))
			}
		}
		all = slices.DeleteFunc(all, func(c campaign) bool { return !slices.Contains(names, c.name) })
	}
	if *list {
		for _, c := range all {
			for _, st := range c.steps {
				fmt.Fprintf(os.Stdout, "%s\t%s\t%s\n", c.name, st.name, st.command())
			}
		}
		return false, nil
	}
	fmt.Fprintf(os.Stdout, "nightly: seed %d, output in %s\n", s.Seed, *dir)
	for _, c := range all {
		if err := s.campaign(ctx, c); err != nil {
			return false, err
		}
	}
	if err := s.report(os.Stdout, all); err != nil {
		return false, err
	}
	return s.failed(), ctx.Err()
}

func campaignNames(all []campaign) []string {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// campaign runs the steps of one campaign that have no result yet.
func (s *state) campaign(ctx context.Context, c campaign) error {
	var group errgroup.Group
	group.SetLimit(max(1, c.atOnce))
	for _, st := range c.steps {
		group.Go(func() error {
			id := c.name + "/" + st.name
			s.mu.Lock()
			skip := ctx.Err() != nil || s.Results[id] != nil || s.timeUsed(c) >= c.budget
			s.mu.Unlock()
			if skip {
				return nil
			}
			fmt.Fprintf(os.Stdout, "%s %s started\n", time.Now().Format(time.TimeOnly), id)
			r, err := s.step(ctx, id, st, c)
			if errors.Is(err, context.Canceled) {
				fmt.Fprintf(os.Stdout, "%s %s interrupted\n", time.Now().Format(time.TimeOnly), id)
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stdout, "%s %s %s in %.0f s\n", time.Now().Format(time.TimeOnly), id, r.Outcome, r.Seconds)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Results[id] = r
			return s.save()
		})
	}
	return group.Wait()
}

// timeUsed returns the time that the finished steps of a campaign took, divided by the
// number of steps that run concurrently. The caller must hold the lock unless no
// campaign is running.
func (s *state) timeUsed(c campaign) time.Duration {
	var sum float64
	for _, st := range c.steps {
		if r := s.Results[c.name+"/"+st.name]; r != nil {
			sum += r.Seconds
		}
	}
	return time.Duration(sum / float64(max(1, c.atOnce)) * float64(time.Second))
}
