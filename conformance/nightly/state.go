package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// state holds the results of a run so far. It is stored as report.json.
type state struct {
	Sources string             `json:"sources"` // commit, and a checksum of uncommitted changes
	Seed    uint64             `json:"seed"`
	Started time.Time          `json:"started"`
	Results map[string]*result `json:"results"` // results by CAMPAIGN/STEP

	mu  sync.Mutex // guards Results
	dir string
}

// result is the result of a step.
type result struct {
	Outcome string  `json:"outcome"` // passed or failed
	Seconds float64 `json:"seconds"`
	Command string  `json:"command"` // command to repeat the step in the root of the module
	Output  string  `json:"output"`  // file name
}

const (
	passed = "passed"
	failed = "failed"
)

// openState continues the run in a directory. It starts a new run if no run exists, if
// fresh is set, or if the sources or the seed differ. If seed is 0, a continued run
// keeps its seed, and a new run derives its seed from the clock.
func openState(dir, sources string, seed uint64, fresh bool) (*state, error) {
	s := &state{}
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("continue the run in %s: %w (-fresh starts a new run)", dir, err)
	case err != nil || fresh || s.Sources != sources || seed != 0 && s.Seed != seed:
		if seed == 0 {
			seed = uint64(time.Now().Unix()) // the time is after 1970
		}
		s = &state{Sources: sources, Seed: seed, Started: time.Now().UTC().Truncate(time.Second), Results: map[string]*result{}}
	}
	s.dir = dir
	return s, os.MkdirAll(dir, 0o777)
}

// save writes report.json atomically.
func (s *state) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir, "report.json")
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// step runs a command. It kills a command that takes longer than four times the budget
// of the campaign plus an hour; such a step is recorded as failed.
func (s *state) step(ctx context.Context, id string, st step, c campaign) (*result, error) {
	limit, cancel := context.WithTimeout(ctx, 4*c.budget+time.Hour)
	defer cancel()
	r := &result{Outcome: passed, Command: st.command(), Output: filepath.Join(s.dir, strings.ReplaceAll(id, "/", "_")+".txt")}
	out, err := os.Create(r.Output)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.CommandContext(limit, st.args[0], st.args[1:]...)
	cmd.Env = append(os.Environ(), st.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Minute
	ownGroup(cmd)
	began := time.Now()
	err = cmd.Run()
	r.Seconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if limit.Err() != nil {
		err = fmt.Errorf("killed after %v: %w", 4*c.budget+time.Hour, err)
	}
	if err != nil && c.name == "fuzz" && limit.Err() == nil {
		if text, rerr := os.ReadFile(r.Output); rerr == nil && onlyOutOfTime(string(text)) {
			err = nil
		}
	}
	if err != nil {
		r.Outcome = failed
		fmt.Fprintln(out, "nightly:", err)
	}
	return r, nil
}

// onlyOutOfTime reports whether a fuzz target failed only because its time was up: go
// test sometimes reports the end of -fuzztime as a failure of the current input. A real
// failure writes its input to a file.
func onlyOutOfTime(output string) bool {
	return strings.Contains(output, "\n    context deadline exceeded\nFAIL\n") && !strings.Contains(output, "Failing input") && !strings.Contains(output, "panic")
}

// failed reports whether a step failed.
func (s *state) failed() bool {
	for _, r := range s.Results {
		if r.Outcome == failed {
			return true
		}
	}
	return false
}

// report prints the report and stores it as report.txt.
func (s *state) report(w io.Writer, all []campaign) error {
	file, err := os.Create(filepath.Join(s.dir, "report.txt"))
	if err != nil {
		return err
	}
	w = io.MultiWriter(w, file)
	fmt.Fprintf(w, "\nnightly of %s, seed %d, started %s\n\n", s.Sources, s.Seed, s.Started.Format(time.RFC3339))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "campaign\tpassed\tfailed\tnot run\tminutes\tof")
	for _, c := range all {
		count := map[string]int{}
		for _, st := range c.steps {
			if r := s.Results[c.name+"/"+st.name]; r != nil {
				count[r.Outcome]++
			} else {
				count["not run"]++
			}
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.1f\t%.1f\n", c.name, count[passed], count[failed], count["not run"], s.timeUsed(c).Minutes(), c.budget.Minutes())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, c := range all {
		for _, st := range c.steps {
			if r := s.Results[c.name+"/"+st.name]; r != nil && r.Outcome == failed {
				fmt.Fprintf(w, "\nFAILED %s/%s after %.0f s\n  again:  %s\n  output: %s\n", c.name, st.name, r.Seconds, r.Command, r.Output)
			}
		}
	}
	return errors.Join(file.Close(), s.save())
}
