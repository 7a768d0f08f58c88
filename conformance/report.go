package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
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
	Rule     string        `json:"rule"`
	Message  string        `json:"message,omitempty"`
	Hung     bool          `json:"hung,omitempty"` // it showed no sign of life for as long as it may
}

// Subject is exactly what was checked, as far as whoever runs the checks can
// tell: a name alone certifies nothing.
type Subject struct {
	Path    string `json:"path,omitempty"`    // of the executable
	Version string `json:"version,omitempty"` // as it says itself
	SHA256  string `json:"sha256,omitempty"`  // of the executable
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
	Schema       int      `json:"schema"` // version of this form, 2
	Tool         string   `json:"tool,omitempty"`
	Suite        string   `json:"suite"`
	SuiteVersion string   `json:"suite_version"`
	Target       string   `json:"target"`
	Subject      Subject  `json:"subject"`
	Capabilities []string `json:"capabilities"`
	Go           string   `json:"go"`
	OS           string   `json:"os"`
	Arch         string   `json:"arch"`
	Seed         uint64   `json:"seed,string"`
	// Problem is why not all checks could be run; empty otherwise.
	Problem string `json:"problem,omitempty"`
	// LeftOut is the number of checks of the suite that this run did not ask
	// for, by selection, level or effort. A run that left out any certifies
	// nothing.
	LeftOut int `json:"left_out"`
	// Level is the level that was reached: of every check of that level and
	// below none failed, could not be run, was disabled or was left out. It is
	// empty when none was reached.
	Level    Level         `json:"level"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Totals   Totals        `json:"totals"`
	Results  []Result      `json:"results"`
}

func newReport(suite, version, target string, o *Options, started time.Time) *Report {
	return &Report{
		Schema: 2, Tool: o.Tool, Suite: suite, SuiteVersion: version, Target: target, Subject: o.Subject,
		Capabilities: []string{}, Results: []Result{},
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Seed: o.Seed, Started: started.UTC(),
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
	r.Level = r.reached()
}

// reached returns the highest level of which no check is missing.
func (r *Report) reached() Level {
	if r.LeftOut > 0 || r.Totals.Pass == 0 {
		return ""
	}
	missing := map[Level]bool{}
	for _, x := range r.Results {
		if x.Status != StatusPass && x.Status != StatusUnsupported {
			missing[x.Level] = true
		}
	}
	switch {
	case missing[Core]:
		return ""
	case missing[Extended]:
		return Core
	}
	return Extended
}

// OK reports whether the target kept every rule that the run asked for: no
// check failed or could not be performed, and at least one passed.
func (r *Report) OK() bool {
	return r.Totals.Fail == 0 && r.Totals.Error == 0 && r.Totals.Pass > 0
}

// Conforms reports whether the target passed the whole suite.
func (r *Report) Conforms() bool { return r.OK() && r.LeftOut == 0 && r.Totals.Disabled == 0 }

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

// WriteText writes the report for people: what [Report.WriteHead],
// [Result.WriteText] for each result, and [Report.WriteVerdict] write.
func (r *Report) WriteText(w io.Writer) error {
	if err := r.WriteHead(w); err != nil {
		return err
	}
	for _, x := range r.Results {
		if err := x.WriteText(w); err != nil {
			return err
		}
	}
	return r.WriteVerdict(w)
}

// WriteHead writes what was checked, with what and how.
func (r *Report) WriteHead(w io.Writer) error {
	var b strings.Builder
	for _, row := range [][2]string{
		{"suite", r.Suite + " " + r.SuiteVersion},
		{"target", r.Target},
		{"file", r.Subject.Path},
		{"version", r.Subject.Version},
		{"sha256", r.Subject.SHA256},
		{"capabilities", strings.Join(r.Capabilities, " ")},
		{"checked by", r.Tool},
		{"platform", r.Go + " " + r.OS + "/" + r.Arch},
		{"seed", strconv.FormatUint(r.Seed, 10)},
	} {
		if row[1] != "" {
			fmt.Fprintf(&b, "%-12s %s\n", row[0], printable(row[1]))
		}
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// WriteText writes one line, and for a check that did not pass the message and
// the rule, indented below.
func (x Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-11s %-44s %v\n", x.Status, x.ID, x.Duration.Round(10*time.Microsecond))
	text := x.Message
	if x.Rule != "" && (x.Status == StatusFail || x.Status == StatusError) {
		text += "\nrule: " + x.Rule
	}
	if text != "" {
		fmt.Fprintf(&b, "            %s\n", strings.ReplaceAll(printable(text), "\n", "\n            "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteVerdict writes the verdict and the totals.
func (r *Report) WriteVerdict(w io.Writer) error {
	t := r.Totals
	verdict, reached := "does NOT conform", ""
	switch {
	case r.Problem != "":
		verdict = "was NOT checked to the end"
	case r.Conforms():
		verdict = "conforms"
	case r.OK():
		verdict = "passed in part, which is no certificate"
	}
	if r.Level != "" {
		reached = " (level reached: " + string(r.Level) + ")"
	}
	var b strings.Builder
	if r.Problem != "" {
		fmt.Fprintf(&b, "\nproblem: %s\n", printable(r.Problem))
	}
	fmt.Fprintf(&b, "\n%s%s: %d checks, %d passed, %d failed, %d unsupported, %d disabled, %d errors, %d left out in %v\n",
		verdict, reached, t.Checks, t.Pass, t.Fail, t.Unsupported, t.Disabled, t.Error, r.LeftOut, r.Duration.Round(time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

// printable replaces what a terminal would not show as text: messages hold
// what plugins say and what was read.
func printable(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}
