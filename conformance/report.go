package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Status is the outcome of one check.
type Status string

// The statuses.
const (
	StatusPass        Status = "pass"        // the implementation satisfies the rule
	StatusFail        Status = "fail"        // the implementation violates the rule
	StatusUnsupported Status = "unsupported" // a needed capability is not declared, or the rule cannot apply
	StatusDisabled    Status = "disabled"    // excluded by the user, with a reason
	StatusError       Status = "error"       // the check could not be performed, or it panicked
)

// Result is the outcome of one check.
type Result struct {
	ID       string        `json:"id"`
	Level    Level         `json:"level"`
	Status   Status        `json:"status"`
	Duration time.Duration `json:"duration_ns"`
	Rule     string        `json:"rule"`
	Message  string        `json:"message,omitempty"`
	Hung     bool          `json:"hung,omitempty"` // the check exceeded its time limit
}

// Subject identifies what was checked, as far as known. A name alone is not
// sufficient for a certificate.
type Subject struct {
	Path    string `json:"path,omitempty"`    // path of the executable
	Version string `json:"version,omitempty"` // reported by the executable
	SHA256  string `json:"sha256,omitempty"`  // checksum of the executable
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

// Report is the outcome of a run. It is complete enough to be published unmodified.
type Report struct {
	Schema       int      `json:"schema"` // version of the report format; currently 2
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
	// Problem is the reason why not all checks could be run; otherwise empty.
	Problem string `json:"problem,omitempty"`
	// Excluded is the number of checks of the suite that selection, level or effort
	// excluded from the run. A run is a certificate only if it is 0.
	Excluded int `json:"left_out"`
	// Level is the highest level reached, or empty. A level is reached if all checks of
	// the suite ran, and each check of the level and of the levels below it has the status
	// pass or unsupported.
	Level    Level         `json:"level"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
	Totals   Totals        `json:"totals"`
	Results  []Result      `json:"results"`
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

// reached returns the highest level that is reached; see Report.Level.
func (r *Report) reached() Level {
	if r.Excluded > 0 || r.Totals.Pass == 0 {
		return ""
	}
	unmet := map[Level]bool{}
	for _, x := range r.Results {
		if x.Status != StatusPass && x.Status != StatusUnsupported {
			unmet[x.Level] = true
		}
	}
	switch {
	case unmet[Core]:
		return ""
	case unmet[Extended]:
		return Core
	}
	return Extended
}

// OK reports whether at least one check passed and none failed.
func (r *Report) OK() bool {
	return r.Totals.Fail == 0 && r.Totals.Error == 0 && r.Totals.Pass > 0
}

// Conforms reports whether the target passed the whole suite.
func (r *Report) Conforms() bool { return r.OK() && r.Excluded == 0 && r.Totals.Disabled == 0 }

// Failed returns the ids of the checks with status fail or error, in suite order.
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

// WriteText writes the report as text: the output of [Report.WriteHead], of
// [Result.WriteText] for each result, and of [Report.WriteVerdict].
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

// WriteHead writes the metadata of the run: the suite, the target, the subject, the
// capabilities, the tool, the platform and the seed.
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

// WriteText writes one line, followed by the indented message and, for a failure or
// error, the rule.
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
		verdict = "was NOT checked completely"
	case r.Conforms():
		verdict = "conforms"
	case r.OK():
		verdict = "passed in part; this is not a certificate"
	}
	if r.Level != "" {
		reached = " (level reached: " + string(r.Level) + ")"
	}
	var b strings.Builder
	if r.Problem != "" {
		fmt.Fprintf(&b, "\nproblem: %s\n", printable(r.Problem))
	}
	fmt.Fprintf(&b, "\n%s%s: %d checks, %d passed, %d failed, %d unsupported, %d disabled, %d errors, %d left out in %v\n",
		verdict, reached, t.Checks, t.Pass, t.Fail, t.Unsupported, t.Disabled, t.Error, r.Excluded, r.Duration.Round(time.Millisecond))
	_, err := io.WriteString(w, b.String())
	return err
}

// printable escapes characters that a terminal would not print as text: messages may
// contain output of plugins and data.
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
