package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// conformanceFlags say what is checked and how.
type conformanceFlags struct {
	driver, filter, plugin string
	place, options, report string
	breaker                string
	run                    []string
	params, invalid        []string
	exact, examples        []string
	checksummed            bool
	effort                 string
	timeout                time.Duration
	seed                   uint64
}

// efforts are the words for --effort.
var efforts = map[string]conformance.Effort{ // constant
	"brief": conformance.Brief, "normal": conformance.Normal, "thorough": conformance.Thorough,
}

func (a *app) newConformance() *cobra.Command {
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Check whether a driver, a filter or a plugin keeps its contract",
		Args:  args(oneOf),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newConformanceRun(), a.newConformanceList())
	return c
}

func (a *app) newConformanceRun() *cobra.Command {
	var f conformanceFlags
	c := &cobra.Command{
		Use:   "run --driver NAME | --filter NAME | --plugin FILE",
		Short: "Run the checks and report",
		Long: `Run the conformance checks against a storage driver, a filter, or everything
that a plugin executable serves, run as nczctl would run it. With --plugin no
other plugin is executed. Each check has its own processes. The exit code is 3
if a check fails or a process dies in it.

Only a run of all checks reports that something conforms. A run of some checks,
or with less effort, reports that it passed in part.

The checks make their stores in a temporary directory. For a driver that keeps
stores elsewhere, --place is the beginning of their paths. It is followed by
"nczarr-conformance-" and random letters, so that existing stores are never
touched. The stores are removed at the end.`,
		Example: `  nczctl conformance run --driver zip
  nczctl conformance run --filter zstd --params '{"level": 9}' --report json
  nczctl conformance run --plugin ./nczarr-driver-tape --place tape0/test-`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return a.runConformance(c.Context(), &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.driver, "driver", "", "check the storage driver of this `name`")
	fl.StringVar(&f.filter, "filter", "", "check the filter of this codec `id`")
	fl.StringVar(&f.plugin, "plugin", "", "check all that this plugin `executable` serves; it need not be pinned")
	fl.StringVar(&f.place, "place", "", "beginning of the `paths` of stores (default a temporary directory)")
	fl.StringVar(&f.options, "options", "", "options of the driver as a `JSON` object")
	fl.StringVar(&f.breaker, "break", "", "`program` that makes the store at the path in its argument unreadable, to check what failures look like")
	fl.StringArrayVar(&f.params, "params", nil, "parameters of the filter as a `JSON` object (may be repeated)")
	fl.StringArrayVar(&f.invalid, "invalid-params", nil, "parameters that the filter must refuse, as a `JSON` object (may be repeated)")
	fl.StringSliceVar(&f.exact, "exact-types", nil, "check that the filter is exact for these element `types` (such as <i4,|u1), even if it is lossy for others")
	fl.StringArrayVar(&f.examples, "example", nil, "JSON `file` with examples of encoded values, which the filter must decode (may be repeated)")
	fl.BoolVar(&f.checksummed, "checksummed", false, "check that the filter finds every flipped bit of a value")
	fl.StringArrayVar(&f.run, "run", nil, "run only checks whose id matches this `glob` (may be repeated)")
	fl.StringVar(&f.report, "report", "text", "form of the report: text or json")
	fl.StringVar(&f.effort, "effort", "thorough", "how thorough the checks are: brief, normal or thorough")
	fl.DurationVar(&f.timeout, "timeout", 45*time.Second, "time after which a check counts as hung if no call to the driver or filter returns")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of all random choices (default from the clock)")
	return c
}

func (a *app) newConformanceList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the checks with their rules",
		Args:  args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			type check struct {
				ID     string   `json:"id"`
				Level  string   `json:"level"`
				Effort string   `json:"effort,omitempty"`
				Needs  []string `json:"needs,omitempty"`
				Doc    string   `json:"doc"`
			}
			var all []check
			for _, c := range mapsuite.Suite().Checks {
				all = append(all, check{c.ID, string(c.Level), effortName(c.Effort), c.Needs, c.Doc})
			}
			for _, c := range codecsuite.Suite().Checks {
				all = append(all, check{c.ID, string(c.Level), effortName(c.Effort), c.Needs, c.Doc})
			}
			if a.flags.json {
				return a.printJSON(all)
			}
			for _, c := range all {
				fmt.Fprintf(a.out, "%-44s %s\n", c.ID, c.Doc)
			}
			return nil
		},
	}
}

func (a *app) runConformance(ctx context.Context, f *conformanceFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if f.plugin != "" {
		return a.checkPlugin(ctx, f)
	}
	if _, err := a.start(ctx, ""); err != nil {
		return err
	}
	if f.driver != "" {
		return a.checkServed(ctx, f, []string{f.driver}, nil)
	}
	return a.checkServed(ctx, f, nil, []string{f.filter})
}

// effortName is the word for the least effort at which a check runs.
func effortName(e conformance.Effort) string {
	for name, value := range efforts {
		if value == e {
			return name
		}
	}
	return ""
}

// check refuses flags that contradict each other.
func (f *conformanceFlags) check() error {
	named := 0
	for _, s := range []string{f.driver, f.filter, f.plugin} {
		if s != "" {
			named++
		}
	}
	if named != 1 {
		return &usageError{fmt.Errorf("conformance run needs one of --driver, --filter and --plugin")}
	}
	if f.report != "text" && f.report != "json" {
		return &usageError{fmt.Errorf("--report %s: want text or json", f.report)}
	}
	if efforts[f.effort] == 0 {
		return &usageError{fmt.Errorf("--effort %s: want brief, normal or thorough", f.effort)}
	}
	if f.timeout <= 0 {
		return &usageError{fmt.Errorf("--timeout %v: want a positive duration", f.timeout)}
	}
	for _, text := range f.exact {
		if _, err := dtype.Parse(text); err != nil {
			return &usageError{fmt.Errorf("--exact-types %s: %w", text, err)}
		}
	}
	if f.options != "" && !json.Valid([]byte(f.options)) { // a password may be in it
		return &usageError{errors.New("--options is not JSON")}
	}
	for _, text := range slices.Concat(f.params, f.invalid) {
		if text != "" && !json.Valid([]byte(text)) {
			return &usageError{fmt.Errorf("%q is not JSON", text)}
		}
	}
	return f.checkRun()
}

// checkRun refuses globs that no check has an id for: a run of no checks would
// be a failure of what is checked.
func (f *conformanceFlags) checkRun() error {
	var ids []string
	if f.filter == "" {
		for _, c := range mapsuite.Suite().Checks {
			ids = append(ids, c.ID)
		}
	}
	if f.driver == "" {
		for _, c := range codecsuite.Suite().Checks {
			ids = append(ids, c.ID)
		}
	}
	for _, glob := range f.run {
		if !slices.ContainsFunc(ids, func(id string) bool { ok, err := path.Match(glob, id); return err == nil && ok }) {
			return &usageError{fmt.Errorf("--run %s: no check has such an id (see nczctl conformance list)", glob)}
		}
	}
	return nil
}

// verdict is the error of a run with failures: they have been reported.
func verdict(ok bool) error {
	if ok {
		return nil
	}
	return &saidError{ncerr.ErrDiffers}
}

// checkPlugin runs the suites against all that a plugin executable serves.
func (a *app) checkPlugin(ctx context.Context, f *conformanceFlags) error {
	path, err := filepath.Abs(f.plugin)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return &inputError{"read", f.plugin, err}
	}
	a.onlyPlugin = path
	s, err := a.start(ctx, "")
	if err != nil {
		return err
	}
	failed := s.Host().Discover(ctx)
	for _, p := range s.Host().Plugins() {
		if p.Path != path {
			continue
		}
		if !p.Asked { // it never ran: what its name promises is nothing to check
			if failed == nil {
				failed = ncerr.Errorf(ncerr.ErrPlugin, "check plugin", f.plugin, "it did not say what it serves: %s", p.Failed)
			}
			return failed
		}
		if len(p.Drivers)+len(p.Filters) == 0 {
			break
		}
		return a.checkServed(ctx, f, p.Drivers, p.Filters)
	}
	if failed != nil {
		return failed
	}
	return ncerr.Errorf(ncerr.ErrPlugin, "check plugin", f.plugin, "it serves nothing, or is not named nczarr-driver-NAME or nczarr-filter-NAME")
}

func (a *app) checkServed(ctx context.Context, f *conformanceFlags, drivers, filters []string) error {
	all := true
	for _, name := range drivers {
		if _, err := a.session.Host().Driver(name); err != nil {
			return err
		}
		ok, err := a.checkDriver(ctx, f, name)
		if err != nil {
			return err
		}
		all = all && ok
	}
	for _, id := range filters {
		if _, err := a.session.Host().Filter(id); err != nil {
			return err
		}
		ok, err := a.checkFilter(ctx, f, id)
		if err != nil {
			return err
		}
		all = all && ok
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return verdict(all)
}

// checkDriver runs the map suite against a driver.
func (a *app) checkDriver(ctx context.Context, f *conformanceFlags, name string) (bool, error) {
	place := f.place
	if place == "" {
		dir, err := os.MkdirTemp("", "nczarr-conformance-")
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // temporary
		place = dir + string(filepath.Separator)
	}
	place += "nczarr-conformance-" + strings.ToLower(rand.Text()) + "-" // nobody has such a store
	b, err := a.newTestBed(ctx, f, name)
	if err != nil {
		return false, err
	}
	var n atomic.Int64
	return b.report(f, conformance.Run(ctx, mapsuite.Suite(), &checkedDriver{b, f.breakStore(), func(o driver.Opener) func() (driver.OpenSpec, func(), error) {
		return func() (driver.OpenSpec, func(), error) {
			spec := driver.OpenSpec{Path: place + strconv.FormatInt(n.Add(1), 10), Options: []byte(f.options)}
			if err := mustBeFree(ctx, o, spec); err != nil {
				return spec, func() {}, err
			}
			return spec, func() { b.remove(ctx, o, spec) }, nil
		}
	}}, b.options(f)))
}

// breakStore runs the program of --break.
func (f *conformanceFlags) breakStore() func(context.Context, driver.OpenSpec) error {
	if f.breaker == "" {
		return nil
	}
	return func(ctx context.Context, spec driver.OpenSpec) error {
		if out, err := exec.CommandContext(ctx, f.breaker, spec.Path).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", f.breaker, spec.Path, err, out)
		}
		return nil
	}
}

// mustBeFree refuses the place of a store if something is there already: the
// checks empty it and remove it.
func mustBeFree(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error {
	raw, err := o.Open(ctx, spec) // mode Read
	if err != nil {
		return nil // nothing is there; or the checks will tell
	}
	m := zmap.New(raw, &zmap.Options{ReadOnly: true})
	defer m.Close(ctx) //nolint:errcheck // only read
	for _, err := range m.List(ctx, "", nil) {
		if err == nil {
			return ncerr.Errorf(ncerr.ErrExists, "check driver", spec.Path, "the path exists, and the checks would delete it")
		}
		return nil // as above
	}
	if raw.Capabilities().Latency == driver.Remote { // such a store is there when it has objects
		return nil
	}
	return ncerr.Errorf(ncerr.ErrExists, "check driver", spec.Path, "an empty store exists, and the checks would delete it")
}

// examplesOf reads the examples of a filter. A file may have some of other
// filters, which a plugin serves too.
func (f *conformanceFlags) examplesOf(id string) ([]codecsuite.Example, error) {
	var own []codecsuite.Example
	for _, path := range f.examples {
		all, err := codecsuite.ReadExamples(path)
		if err != nil {
			return nil, &inputError{"read", path, err}
		}
		for _, x := range all {
			if x.ID == id {
				own = append(own, x)
			}
		}
	}
	if len(own) == 0 && len(f.examples) > 0 && f.filter != "" {
		return nil, &usageError{fmt.Errorf("--example: no example is of %s", id)}
	}
	return own, nil
}

// checkFilter runs the codec suite against a filter.
func (a *app) checkFilter(ctx context.Context, f *conformanceFlags, id string) (bool, error) {
	b, err := a.newTestBed(ctx, f, id)
	if err != nil {
		return false, err
	}
	target := codecsuite.Target{ID: id, Exact: len(f.exact) > 0, Detects: f.checksummed}
	if target.Examples, err = f.examplesOf(id); err != nil {
		return false, err
	}
	for _, text := range f.params {
		target.Params = append(target.Params, json.RawMessage(text))
	}
	for _, text := range f.invalid {
		target.Invalid = append(target.Invalid, json.RawMessage(text))
	}
	for _, text := range f.exact {
		t, err := dtype.Parse(text)
		if err != nil {
			return false, &usageError{err}
		}
		target.Types = append(target.Types, t)
	}
	return b.report(f, conformance.Run(ctx, codecsuite.Suite(), &checkedFilter{b, target}, b.options(f)))
}
