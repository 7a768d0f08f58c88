package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// Status is the outcome of one check.
type Status string

// The statuses.
const (
	StatusPass        Status = "pass"        // the rule is kept
	StatusFail        Status = "fail"        // the rule is broken
	StatusUnsupported Status = "unsupported" // a needed capability is not declared
	StatusDisabled    Status = "disabled"    // excluded by the user, with a reason
	StatusError       Status = "error"       // the check could not be performed, or something panicked
)

// Result is the outcome of one check.
type Result struct {
	ID       string        `json:"id"`
	Level    Level         `json:"level"`
	Status   Status        `json:"status"`
	Duration time.Duration `json:"duration_ns"`
	Message  string        `json:"message,omitempty"`
}

// Totals counts the results by status.
type Totals struct {
	Checks      int `json:"checks"`
	Pass        int `json:"pass"`
	Fail        int `json:"fail"`
	Unsupported int `json:"unsupported"`
	Disabled    int `json:"disabled"`
	Error       int `json:"error"`
}

// Report is the outcome of a run, complete enough to be passed on unmodified.
type Report struct {
	Schema       int           `json:"schema"` // version of this form, 1
	Suite        string        `json:"suite"`
	SuiteVersion string        `json:"suite_version"`
	Target       string        `json:"target"`
	Capabilities []string      `json:"capabilities"`
	Go           string        `json:"go"`
	OS           string        `json:"os"`
	Arch         string        `json:"arch"`
	Seed         uint64        `json:"seed,string"`
	Started      time.Time     `json:"started"`
	Duration     time.Duration `json:"duration_ns"`
	Totals       Totals        `json:"totals"`
	Results      []Result      `json:"results"`
}

func newReport(suite, version, target string, seed uint64, started time.Time) *Report {
	return &Report{
		Schema: 1, Suite: suite, SuiteVersion: version, Target: target,
		Capabilities: []string{}, Results: []Result{},
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Seed: seed, Started: started.UTC(),
	}
}

func (r *Report) count() {
	t := Totals{Checks: len(r.Results)}
	for _, x := range r.Results {
		switch x.Status {
		case StatusPass:
			t.Pass++
		case StatusFail:
			t.Fail++
		case StatusUnsupported:
			t.Unsupported++
		case StatusDisabled:
			t.Disabled++
		default:
			t.Error++
		}
	}
	r.Totals = t
}

// OK reports whether the target conforms as far as was asked: no check failed
// or could not be performed, and at least one passed.
func (r *Report) OK() bool {
	return r.Totals.Fail == 0 && r.Totals.Error == 0 && r.Totals.Pass > 0
}

// Failed gives the ids with status fail or error, in the order of the suite.
func (r *Report) Failed() []string {
	var ids []string
	for _, x := range r.Results {
		if x.Status == StatusFail || x.Status == StatusError {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

// WriteJSON writes the report as one indented JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// WriteText writes the report for people: a head, one line for each check
// with the messages of those that did not pass indented below, and totals.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "suite        %s %s\ntarget       %s\n", r.Suite, r.SuiteVersion, r.Target)
	fmt.Fprintf(&b, "capabilities %s\n", strings.Join(r.Capabilities, " "))
	fmt.Fprintf(&b, "platform     %s %s/%s\nseed         %d\n\n", r.Go, r.OS, r.Arch, r.Seed)
	for _, x := range r.Results {
		fmt.Fprintf(&b, "%-11s %-44s %v\n", x.Status, x.ID, x.Duration.Round(10*time.Microsecond))
		if x.Message != "" {
			fmt.Fprintf(&b, "            %s\n", strings.ReplaceAll(x.Message, "\n", "\n            "))
		}
	}
	t := r.Totals
	verdict := "conforms"
	if !r.OK() {
		verdict = "does NOT conform"
	}
	fmt.Fprintf(&b, "\n%s: %d checks, %d passed, %d failed, %d unsupported, %d disabled, %d errors in %v\n",
		verdict, t.Checks, t.Pass, t.Fail, t.Unsupported, t.Disabled, t.Error, r.Duration.Round(time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}
