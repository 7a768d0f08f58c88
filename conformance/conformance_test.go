package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
)

// box is the environment of the checks in this file.
type box struct{ n int }

type target struct {
	caps    []string
	capsErr error
	newErr  error
	made    int
	cleaned int
}

func (g *target) TargetName() string { return "box" }
func (g *target) TargetCapabilities(context.Context) ([]string, error) {
	return g.caps, g.capsErr
}

func (g *target) New(t conformance.T) (*box, error) {
	g.made++
	t.Cleanup(func() { g.cleaned++ })
	return &box{}, g.newErr
}

type check = conformance.Check[*box]

func suite(checks ...check) conformance.Suite[*box] {
	return conformance.Suite[*box]{Name: "s", Version: "1", Checks: checks}
}

func pass(conformance.T, *box) {}

func TestStatuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		check   check
		opts    conformance.Options
		want    conformance.Status
		message string
	}{
		"pass":             {check: check{Run: pass}, want: conformance.StatusPass},
		"error":            {check: check{Run: func(t conformance.T, _ *box) { t.Logf("seen"); t.Errorf("bad %d", 1) }}, want: conformance.StatusFail, message: "seen\nbad 1"},
		"fatal":            {check: check{Run: func(t conformance.T, _ *box) { t.Fatalf("stop"); panic("not reached") }}, want: conformance.StatusFail, message: "stop"},
		"skip":             {check: check{Run: func(t conformance.T, _ *box) { t.Skipf("no %d", 2); panic("not reached") }}, want: conformance.StatusUnsupported, message: "no 2"},
		"skip, required":   {check: check{Run: func(t conformance.T, _ *box) { t.Skipf("no %d", 2) }}, opts: conformance.Options{Require: []string{"x.*"}}, want: conformance.StatusFail, message: "required, but unsupported: no 2"},
		"skip with a fail": {check: check{Run: func(t conformance.T, _ *box) { t.Errorf("bad"); t.Skipf("no") }}, want: conformance.StatusFail, message: "bad"},
		"panic":            {check: check{Run: func(conformance.T, *box) { panic("boom") }}, want: conformance.StatusError, message: "panic: boom"},
		"nil map": {check: check{Run: func(_ conformance.T, b *box) {
			var m map[int]int
			m[b.n] = 1
		}}, want: conformance.StatusError, message: "conformance_test.go"},
		"undeclared":         {check: check{Needs: []string{"fly"}, Run: pass}, want: conformance.StatusUnsupported, message: "fly"},
		"declared":           {check: check{Needs: []string{"walk"}, Run: pass}, want: conformance.StatusPass},
		"refused cleanly":    {check: check{Needs: []string{"fly"}, Run: func(t conformance.T, _ *box) { t.Errorf("must not run") }, Refuse: pass}, want: conformance.StatusUnsupported, message: "refused correctly"},
		"refused badly":      {check: check{Needs: []string{"fly"}, Run: pass, Refuse: func(t conformance.T, _ *box) { t.Errorf("it flew") }}, want: conformance.StatusFail, message: "it flew"},
		"disabled":           {check: check{Run: pass}, opts: conformance.Options{Disable: map[string]string{"x.y": "slow disk"}}, want: conformance.StatusDisabled, message: "slow disk"},
		"required":           {check: check{Needs: []string{"fly"}, Run: pass}, opts: conformance.Options{Require: []string{"x.*"}}, want: conformance.StatusFail, message: "required"},
		"disabled, required": {check: check{Run: pass}, opts: conformance.Options{Require: []string{"x.*"}, Disable: map[string]string{"x.y": ""}}, want: conformance.StatusFail, message: "required"},
		"cleanup fails":      {check: check{Run: func(t conformance.T, _ *box) { t.Cleanup(func() { t.Errorf("left behind") }) }}, want: conformance.StatusFail, message: "left behind"},
		"ends with its context": {check: check{Limit: 10 * time.Millisecond, Run: func(t conformance.T, _ *box) {
			<-t.Context().Done()
		}}, want: conformance.StatusFail, message: "the check hangs: no call in the last 10ms"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.check.ID, tc.check.Doc = "x.y", "a rule"
			g := &target{caps: []string{"walk"}}
			var r *conformance.Report
			synctest.Test(t, func(t *testing.T) { // limits use the clock of the bubble
				r = conformance.Run(t.Context(), suite(tc.check), g, &tc.opts)
			})
			got := r.Results[0]
			if got.Status != tc.want || !strings.Contains(got.Message, tc.message) {
				t.Errorf("want %s with %q, got %s with %q", tc.want, tc.message, got.Status, got.Message)
			}
			if r.OK() != (tc.want == conformance.StatusPass) {
				t.Errorf("OK is %v for %s", r.OK(), tc.want)
			}
			if g.made != g.cleaned {
				t.Errorf("made %d environments, but cleaned up %d", g.made, g.cleaned)
			}
		})
	}
}

func TestHangIsAbandoned(t *testing.T) {
	t.Parallel()
	var r *conformance.Report
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		hang := check{ID: "h", Doc: "d", Limit: time.Millisecond, Run: func(conformance.T, *box) { <-release }}
		r = conformance.Run(t.Context(), suite(hang, check{ID: "p", Doc: "d", Run: pass}), &target{}, nil)
	})
	if r.Results[0].Status != conformance.StatusFail || !strings.Contains(r.Results[0].Message, "abandoned") {
		t.Errorf("a check that hangs: want an abandoned check, got %+v", r.Results[0])
	}
	if r.Results[1].Status != conformance.StatusPass {
		t.Errorf("the check after it: want a pass, got %+v", r.Results[1])
	}
}

// TestStepExtendsLimit checks that a check that keeps calling Step may take longer than its
// limit, and that the report of a check that hangs contains its last call.
func TestStepExtendsLimit(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	lively := check{ID: "a", Doc: "d", Limit: limit, Run: func(t conformance.T, _ *box) {
		for range 3 {
			t.Step("get", "a/b")
			time.Sleep(limit * 2 / 3)
		}
	}}
	stuck := check{ID: "b", Doc: "d", Limit: limit, Run: func(t conformance.T, _ *box) {
		t.Step("get", "a/b")
		<-t.Context().Done()
	}}
	var r *conformance.Report
	synctest.Test(t, func(t *testing.T) {
		r = conformance.Run(t.Context(), suite(lively, stuck), &target{}, nil)
	})
	if x := r.Results[0]; x.Status != conformance.StatusPass || x.Duration < limit {
		t.Errorf("a slow check: want a pass, got %+v", x)
	}
	if x := r.Results[1]; !x.Hung || x.Status != conformance.StatusFail || !strings.Contains(x.Message, "last call: get a/b") {
		t.Errorf("a check that hangs: want a failure with the last call, got %+v", x)
	}
}

// TestMaxHung checks that the remaining checks do not run after three checks have hung.
func TestMaxHung(t *testing.T) {
	t.Parallel()
	var checks []check
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		checks = append(checks, check{ID: id, Doc: "d", Limit: time.Millisecond, Run: func(t conformance.T, _ *box) { <-t.Context().Done() }})
	}
	var r *conformance.Report
	synctest.Test(t, func(t *testing.T) {
		r = conformance.Run(t.Context(), suite(checks...), &target{}, nil)
	})
	if r.Totals.Fail != 3 || r.Totals.Error != 2 || r.OK() {
		t.Errorf("want 3 checks that hang and 2 that are not run, got %+v", r.Results)
	}
}

// TestInterrupted checks that the report of an interrupted run names the check that was
// running.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	slow := func(t conformance.T, _ *box) {
		t.Step("put", "k")
		cancel()
		<-t.Context().Done()
		t.Errorf("put: %v", t.Context().Err())
	}
	r := conformance.Run(ctx, suite(check{ID: "a", Doc: "d", Run: slow}, check{ID: "b", Doc: "d", Run: slow}), &target{}, nil)
	running, waiting := 0, 0
	for _, x := range r.Results {
		switch {
		case x.Status != conformance.StatusError:
			t.Errorf("want an error, got %+v", x)
		case strings.HasPrefix(x.Message, "interrupted while running") && strings.HasSuffix(x.Message, "put k"):
			running++
		case strings.HasPrefix(x.Message, "not run"):
			waiting++
		}
	}
	if running != 1 || waiting != 1 || r.OK() || !strings.Contains(r.Problem, "interrupted") {
		t.Errorf("want one interrupted check, got %+v, %q", r.Results, r.Problem)
	}
}

// TestVerdicts checks that only a complete run conforms, and checks the level that a
// run reaches.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	fails := func(t conformance.T, _ *box) { t.Errorf("bad") }
	core, extended := check{ID: "c.1", Doc: "d", Run: pass}, check{ID: "e.1", Doc: "d", Level: conformance.Extended, Run: pass}
	costly := check{ID: "c.2", Doc: "d", Effort: conformance.Thorough, Run: pass}
	weak, broken := extended, core
	weak.Run, broken.Run = fails, fails
	tests := map[string]struct {
		checks   []check
		opts     conformance.Options
		conforms bool
		level    conformance.Level
		verdict  string
	}{
		"all":          {[]check{core, extended, costly}, conformance.Options{Effort: conformance.Thorough}, true, conformance.Extended, "\nconforms (level reached: extended): 3 checks"},
		"less effort":  {[]check{core, extended, costly}, conformance.Options{}, false, "", "\npassed in part; this is not a certificate: 2 checks, 2 passed, 0 failed, 0 unsupported, 0 disabled, 0 errors, 1 left out"},
		"a subset":     {[]check{core, extended}, conformance.Options{Select: []string{"c.*"}}, false, "", "\npassed in part"},
		"disabled":     {[]check{core, extended}, conformance.Options{Disable: map[string]string{"e.1": "x"}}, false, conformance.Core, "\npassed in part; this is not a certificate (level reached: core)"},
		"core only":    {[]check{core, weak}, conformance.Options{}, false, conformance.Core, "\ndoes NOT conform (level reached: core)"},
		"not the core": {[]check{broken, extended}, conformance.Options{}, false, "", "\ndoes NOT conform: "},
	}
	for name, tc := range tests {
		r := conformance.Run(t.Context(), suite(tc.checks...), &target{}, &tc.opts)
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if r.Conforms() != tc.conforms || r.Level != tc.level || !strings.Contains(text.String(), tc.verdict) {
			t.Errorf("%s: conforms %v, level %q:\n%s", name, r.Conforms(), r.Level, text.String())
		}
	}
}

func TestBrokenEnvironment(t *testing.T) {
	t.Parallel()
	p := check{ID: "p", Doc: "d", Run: pass}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := map[string]struct {
		ctx    context.Context
		target *target
		suite  conformance.Suite[*box]
		reason string // in the message of each check
	}{
		"no capabilities": {t.Context(), &target{capsErr: errors.New("gone")}, suite(p), "not run: gone"},
		"no environment":  {t.Context(), &target{newErr: errors.New("gone")}, suite(p), "cannot create an environment: gone"},
		"duplicate id":    {t.Context(), &target{}, suite(p, p), "not run: suite s: two checks have the id"},
		"context ended":   {ended, &target{}, suite(p), "not run: context canceled"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := conformance.Run(tc.ctx, tc.suite, tc.target, nil)
			if r.OK() || r.Totals.Error != len(tc.suite.Checks) {
				t.Errorf("want only errors, got %+v", r.Results)
			}
			for _, x := range r.Results {
				if !strings.Contains(x.Message, tc.reason) {
					t.Errorf("want the reason %q, got %q", tc.reason, x.Message)
				}
			}
		})
	}
}

func TestEmptyRunIsNotOK(t *testing.T) {
	t.Parallel()
	r := conformance.Run(t.Context(), suite(check{ID: "p", Doc: "d", Run: pass}), &target{}, &conformance.Options{Select: []string{"q*"}})
	if r.OK() || len(r.Results) != 0 {
		t.Errorf("no check ran, but the report is %+v", r)
	}
}

func TestOrderAndSelection(t *testing.T) {
	t.Parallel()
	var ran []string
	note := func(t conformance.T, _ *box) { ran = append(ran, t.Name()) }
	var checks []check
	for _, id := range []string{"a.1", "a.2", "a.3", "a.4", "a.5", "a.6", "b.1"} {
		checks = append(checks, check{ID: id, Doc: "d", Run: note})
	}
	checks[0].Level = conformance.Experimental
	checks[2].Effort = conformance.Normal
	r := conformance.Run(t.Context(), suite(checks...), &target{}, &conformance.Options{
		Select: []string{"a.*"}, Levels: []conformance.Level{conformance.Core}, Seed: 7,
	})
	var ids []string
	for _, x := range r.Results {
		ids = append(ids, x.ID)
	}
	if want := []string{"a.2", "a.3", "a.4", "a.5", "a.6"}; !slices.Equal(ids, want) {
		t.Errorf("want %q in the report, got %q", want, ids)
	}
	if slices.Equal(ran, ids) {
		t.Errorf("with seed 7 the checks ran in the order of the suite: %q", ran)
	}
	if last := ran[len(ran)-1]; last != "a.3" {
		t.Errorf("the check with the highest effort is not the last: %q", ran)
	}
	if r.Seed != 7 {
		t.Errorf("want seed 7, got %d", r.Seed)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]check{
		"empty id":     {Doc: "d", Run: pass},
		"bad id":       {ID: "A b", Doc: "d", Run: pass},
		"no rule":      {ID: "a", Run: pass},
		"no code":      {ID: "a", Doc: "d"},
		"needs no cap": {ID: "a", Doc: "d", Run: pass, Refuse: pass},
	} {
		if suite(c).Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestReportForms(t *testing.T) {
	t.Parallel()
	r := conformance.Run(t.Context(), suite(
		check{ID: "good", Doc: "d", Run: pass},
		check{ID: "bad", Doc: "the rule", Run: func(t conformance.T, _ *box) { t.Errorf("one\ntwo <&>\x1b[31m\xff") }},
	), &target{caps: []string{"walk"}}, &conformance.Options{
		Seed: 1<<64 - 1, Tool: "nczctl 1.2", Subject: conformance.Subject{Version: "0.3", SHA256: "ab12"},
	})
	var text, doc bytes.Buffer
	if err := errors.Join(r.WriteText(&text), r.WriteJSON(&doc)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"does NOT conform: 2 checks, 1 passed, 1 failed", "fail        bad", "one\n            two <&>\\x1b[31m\uFFFD\n            rule: the rule\n", "capabilities walk", "18446744073709551615", "checked by   nczctl 1.2", "version      0.3", "sha256       ab12"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("want %q in:\n%s", want, text.String())
		}
	}
	var back conformance.Report
	if err := json.Unmarshal(doc.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Totals != r.Totals || back.Seed != r.Seed || len(back.Results) != 2 || back.Results[1].Message != "one\ntwo <&>\x1b[31m\uFFFD" || back.Subject != r.Subject || back.Tool != r.Tool {
		t.Errorf("the JSON report differs: %+v", back)
	}
	if want := []string{"bad"}; !slices.Equal(r.Failed(), want) {
		t.Errorf("want %q, got %q", want, r.Failed())
	}
}

func TestTestMakesSubTests(t *testing.T) { //nolint:paralleltest // the test checks the order of subtests
	var seen []conformance.Status
	conformance.TestWith(t, suite(
		check{ID: "a", Doc: "d", Run: pass},
		check{ID: "b", Doc: "d", Needs: []string{"fly"}, Run: pass},
	), &target{}, &conformance.Options{Progress: func(r conformance.Result) { seen = append(seen, r.Status) }})
	if want := []conformance.Status{conformance.StatusPass, conformance.StatusUnsupported}; !slices.Equal(seen, want) {
		t.Errorf("want %q, got %q", want, seen)
	}
}
