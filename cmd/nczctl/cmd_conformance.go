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

// conformanceFlags holds the flags of "conformance run".
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

// efforts are the values of --effort.
var efforts = map[string]conformance.Effort{ // never changed
	"brief": conformance.Brief, "normal": conformance.Normal, "thorough": conformance.Thorough,
}

func (a *app) newConformance() *cobra.Command {
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Check whether a driver, filter or plugin fulfills its contract",
		Args:  args(onlySubcommands),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newConformanceRun(), a.newConformanceList())
	return c
}

func (a *app) newConformanceRun() *cobra.Command {
	var f conformanceFlags
	c := &cobra.Command{
		Use:   "run --driver NAME | --filter NAME | --plugin FILE",
		Short: "Run the conformance checks and print a report",
		Long: `Run the conformance checks against a storage driver, a filter, or everything
that a plugin executable serves. The subject runs in the same way as in other
commands. With --plugin, no other plugin is executed. Each check has its own
processes. The exit code is 3 if a check fails or a process dies during a check.

Only a run of all checks can report that the subject conforms. A run of some
checks, or with less effort, reports that the subject passed in part.

The checks create their stores in a temporary directory. For a driver that keeps
its stores elsewhere, --place sets the beginning of their paths. The command
appends "nczarr-conformance-" and random letters, so it never touches existing
stores. It removes the stores at the end.`,
		Example: `  nczctl conformance run --driver zip
  nczctl conformance run --filter zstd --params '{"level": 9}' --report json
  nczctl conformance run --plugin ./nczarr-driver-tape --place tape0/test-`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return a.runConformance(c.Context(), &f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.driver, "driver", "", "check the storage driver with this `name`")
	fl.StringVar(&f.filter, "filter", "", "check the filter with this codec `id`")
	fl.StringVar(&f.plugin, "plugin", "", "check everything that this plugin `executable` serves; it need not be pinned")
	fl.StringVar(&f.place, "place", "", "beginning of the `paths` of the stores (default a temporary directory)")
	fl.StringVar(&f.options, "options", "", "options of the driver as a `JSON` object")
	fl.StringVar(&f.breaker, "break", "", "`program` that makes the store at a given path unreadable, to check how the driver reports failures")
	fl.StringArrayVar(&f.params, "params", nil, "parameters of the filter as a `JSON` object (may be repeated)")
	fl.StringArrayVar(&f.invalid, "invalid-params", nil, "parameters that the filter must reject, as a `JSON` object (may be repeated)")
	fl.StringSliceVar(&f.exact, "exact-types", nil, "check that the filter is exact for these element `types` (such as <i4,|u1), even if it is lossy for other types")
	fl.StringArrayVar(&f.examples, "example", nil, "JSON `file` with examples of encoded values that the filter must decode (may be repeated)")
	fl.BoolVar(&f.checksummed, "checksummed", false, "check that the filter detects flipped bits in an encoded value")
	fl.StringArrayVar(&f.run, "run", nil, "run only the checks whose id matches this `glob` (may be repeated)")
	fl.StringVar(&f.report, "report", "text", "format of the report: text or json")
	fl.StringVar(&f.effort, "effort", "thorough", "extent of the checks: brief, normal or thorough")
	fl.DurationVar(&f.timeout, "timeout", 45*time.Second, "time after which a check is reported as hung if no call to the driver or filter returns")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of all random choices (default taken from the clock)")
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

// effortName returns the --effort value for e, or "" if e has no such value.
func effortName(e conformance.Effort) string {
	for name, value := range efforts {
		if value == e {
			return name
		}
	}
	return ""
}

// check validates the flags.
func (f *conformanceFlags) check() error {
	named := 0
	for _, s := range []string{f.driver, f.filter, f.plugin} {
		if s != "" {
			named++
		}
	}
	if named != 1 {
		return &usageError{fmt.Errorf("conformance run requires exactly one of --driver, --filter and --plugin")}
	}
	if f.report != "text" && f.report != "json" {
		return &usageError{fmt.Errorf("--report must be text or json, not %s", f.report)}
	}
	if efforts[f.effort] == 0 {
		return &usageError{fmt.Errorf("--effort must be brief, normal or thorough, not %s", f.effort)}
	}
	if f.timeout <= 0 {
		return &usageError{fmt.Errorf("--timeout must be a positive duration, not %v", f.timeout)}
	}
	for _, text := range f.exact {
		if _, err := dtype.Parse(text); err != nil {
			return &usageError{fmt.Errorf("--exact-types %s: %w", text, err)}
		}
	}
	isObject := func(text string) bool {
		var members map[string]json.RawMessage
		return json.Unmarshal([]byte(text), &members) == nil && members != nil
	}
	if f.options != "" && !isObject(f.options) { // the value is not quoted, because it may contain a password
		return &usageError{errors.New("--options must be a JSON object")}
	}
	for _, text := range slices.Concat(f.params, f.invalid) {
		if text != "" && !isObject(text) {
			return &usageError{fmt.Errorf("--params and --invalid-params must be JSON objects, not %q", text)}
		}
	}
	return f.checkRun()
}

// checkRun rejects globs that match no check id, because a run without checks would be
// reported as a failure of the subject.
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
			return &usageError{fmt.Errorf("--run %s: no check id matches (see nczctl conformance list)", glob)}
		}
	}
	return nil
}

// checkPlugin runs the suites against everything that a plugin executable serves.
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
		if !p.Described { // the plugin did not run, and its file name alone does not show what it serves
			if failed == nil {
				failed = ncerr.Errorf(ncerr.ErrPlugin, "check plugin", f.plugin, "the plugin did not report what it serves: %s", p.Failed)
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
	return ncerr.Errorf(ncerr.ErrPlugin, "check plugin", f.plugin, "the plugin serves no drivers or filters, or its name does not have the form nczarr-driver-NAME or nczarr-filter-NAME")
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
	if !all {
		return &reportedError{ncerr.ErrDiffers} // only the exit code, because the report already lists the failures
	}
	return nil
}

// checkDriver runs the map suite against a driver.
func (a *app) checkDriver(ctx context.Context, f *conformanceFlags, name string) (bool, error) {
	place := f.place
	if place == "" {
		dir, err := os.MkdirTemp("", "nczarr-conformance-")
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory may remain
		place = dir + string(filepath.Separator)
	}
	place += "nczarr-conformance-" + strings.ToLower(rand.Text()) + "-" // no existing store has this name
	b, err := a.newTestBed(ctx, f, name)
	if err != nil {
		return false, err
	}
	var n atomic.Int64
	return b.report(f, conformance.Run(ctx, mapsuite.Suite(), &checkedDriver{b, f.breakStore(), func(o driver.Opener) func() (driver.OpenSpec, func(), error) {
		return func() (driver.OpenSpec, func(), error) {
			spec := driver.OpenSpec{Path: place + strconv.FormatInt(n.Add(1), 10), Options: []byte(f.options)}
			if err := requireFree(ctx, o, spec); err != nil {
				return spec, func() {}, err
			}
			return spec, func() { b.remove(ctx, o, spec) }, nil
		}
	}}, b.options(f)))
}

// breakStore returns a function that runs the program of --break, or nil if the flag
// is not set.
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

// requireFree fails if a store already exists at the path of spec, because the
// checks empty and remove the store there.
func requireFree(ctx context.Context, o driver.Opener, spec driver.OpenSpec) error {
	raw, err := o.Open(ctx, spec) // mode Read
	if err != nil {
		return nil // no store exists at the path, or the checks will fail
	}
	m := zmap.New(raw, &zmap.Options{ReadOnly: true})
	defer m.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	for _, err := range m.List(ctx, "", nil) {
		if err == nil {
			return ncerr.Errorf(ncerr.ErrExists, "check driver", spec.Path, "the path exists, and the checks would delete it")
		}
		return nil // the checks report other failures
	}
	if raw.Capabilities().Latency == driver.Remote { // a remote store without objects does not exist
		return nil
	}
	return ncerr.Errorf(ncerr.ErrExists, "check driver", spec.Path, "open in mode read succeeded for a path with a random name: the driver must return ErrNoDataset for a missing store, and the checks would delete an existing one")
}

// examplesOf reads the examples of a filter. It skips examples of other filters in
// the same files.
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
		return nil, &usageError{fmt.Errorf("--example: the files contain no examples for filter %q", id)}
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
