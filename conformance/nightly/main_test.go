package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// fake returns a campaign of shell commands. Each step appends its name to the file
// log.
func fake(log string, scripts ...string) campaign {
	c := campaign{name: "fake", budget: time.Hour}
	for i, script := range scripts {
		name := string(rune('a' + i))
		c.steps = append(c.steps, step{name: name, env: []string{"LOG=" + log}, args: []string{"sh", "-c", "echo " + name + ` >>"$LOG"; ` + script}})
	}
	return c
}

func open(t *testing.T, dir string, seed uint64) *state {
	t.Helper()
	s, err := openState(dir, "sources", seed, false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestResume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := fake(log, "true", "exit 7", `echo >"$LOG.up"; while :; do sleep 1; done`, "true")
	go func() { // interrupt the third step
		for {
			if _, err := os.Stat(log + ".up"); err == nil || ctx.Err() != nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	s := open(t, filepath.Join(dir, "run"), 5)
	if err := s.campaign(ctx, c); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(ctx.Err(), context.Canceled) || len(s.Results) != 2 {
		t.Fatalf("after the interrupt: want 2 results, got %v, %d", ctx.Err(), len(s.Results))
	}

	c.steps[2].args = []string{"sh", "-c", `echo c >>"$LOG"`}
	s = open(t, filepath.Join(dir, "run"), 0)
	if err := s.campaign(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.report(&out, []campaign{c}); err != nil {
		t.Fatal(err)
	}
	ran, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(string(ran)), ""); got != "abccd" {
		t.Errorf("order of the steps: want abccd, got %q", got)
	}
	if !s.failed() || s.Seed != 5 {
		t.Errorf("failed %v, seed %d: want true, 5", s.failed(), s.Seed)
	}
	for _, want := range []string{"seed 5", "fake      3       1       0", "FAILED fake/b after", "again:  LOG=" + log + " sh -c 'echo b"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

// TestConcurrentSteps checks that two steps run concurrently: the first ends only after the
// second has started.
func TestConcurrentSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := fake(filepath.Join(dir, "log"), `i=0; until [ -e "$LOG.b" ]; do i=$((i+1)); [ $i -lt 10000 ] || exit 1; sleep 0.01; done`, `: >"$LOG.b"`)
	c.atOnce = 2
	s := open(t, dir, 0)
	if err := s.campaign(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(s.Results) != 2 || s.failed() {
		t.Errorf("%d results, failed %v: want 2, false", len(s.Results), s.failed())
	}
}

// TestBudget checks that no step starts after the first one has used up the time.
func TestBudget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := fake(filepath.Join(dir, "log"), "true", "true")
	c.budget = time.Nanosecond
	s := open(t, dir, 0)
	if err := s.campaign(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(s.Results) != 1 || s.Seed == 0 {
		t.Errorf("want one step with a seed from the clock, got %d with seed %d", len(s.Results), s.Seed)
	}
}

// TestOtherSources checks that results are only reused for the same sources and seed.
func TestOtherSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 3)
	s.Results["x/y"] = &result{Outcome: passed}
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		sources string
		seed    uint64
		fresh   bool
		kept    int
	}{
		"same":          {"sources", 3, false, 1},
		"any seed":      {"sources", 0, false, 1},
		"other seed":    {"sources", 4, false, 0},
		"other sources": {"changed", 0, false, 0},
		"fresh":         {"sources", 0, true, 0},
	} {
		s, err := openState(dir, tt.sources, tt.seed, tt.fresh)
		if err != nil || len(s.Results) != tt.kept {
			t.Errorf("%s: wrong number of results, %d, %v", name, len(s.Results), err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "report.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openState(dir, "sources", 0, false); err == nil {
		t.Error("a damaged report is accepted")
	}
}

func TestFuzzTargets(t *testing.T) {
	t.Parallel()
	got, err := fuzzTargets(fstest.MapFS{
		"a/b/c_test.go": {Data: []byte("func FuzzOne(f *testing.F) {}\nfunc TestNo(t *testing.T) {}\nfunc FuzzTwo(f *testing.F) {}\n")},
		"a/no.go":       {Data: []byte("func FuzzNo() {}\n")},
	})
	if err != nil || len(got) != 2 || got[0] != (fuzzTarget{"a/b", "FuzzOne"}) || got[1].target != "FuzzTwo" {
		t.Errorf("want FuzzOne and FuzzTwo, got %v, %v", got, err)
	}
}

// TestStepNames checks that no two steps have the same name, because the name identifies the
// result of a step.
func TestStepNames(t *testing.T) {
	t.Chdir("../..")
	all, err := campaigns(t.Context(), 1, 120)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		names := map[string]bool{}
		for _, st := range c.steps {
			if names[st.name] {
				t.Errorf("two steps are named %s/%s", c.name, st.name)
			}
			names[st.name] = true
		}
		if len(names) == 0 {
			t.Errorf("%s has no steps", c.name)
		}
	}
}

func TestOnlyTimedOut(t *testing.T) {
	t.Parallel()
	const end = "--- FAIL: FuzzX (10.05s)\n    context deadline exceeded\nFAIL\nexit status 1\n"
	for output, want := range map[string]bool{
		"fuzz: elapsed: 10s, execs: 9\n" + end: true,
		"--- FAIL: FuzzX (3s)\n    --- FAIL: FuzzX (0s)\n        x_test.go:7: no\n\n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n":                        false,
		"--- FAIL: FuzzX (3s)\n    --- FAIL: FuzzX (0s)\n        x_test.go:7: context deadline exceeded\n\n    Failing input written to testdata/fuzz/FuzzX/1\nFAIL\n": false,
		"panic: x\n" + end: false,
		"ok\n":             false,
	} {
		if got := onlyOutOfTime(output); got != want {
			t.Errorf("%q: want %t", output, want)
		}
	}
}
