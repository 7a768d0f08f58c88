package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	mapdriver "github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func (a *app) newPlugin() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "Show drivers, filters and the plugins that serve them",
		Args:  args(onlySubcommands),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the available drivers and filters and the plugins that serve them",
		Args:  args(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return a.runPluginList(c.Context()) },
	}, &cobra.Command{
		Use:   "info NAME",
		Short: "Show a plugin: binary, hash, version, processes, level, counters",
		Long: `Show a plugin, a driver or a filter: the binary with its hash and version, where
it runs, its grants, what it serves, the options of drivers and the parameters of
filters. The command starts a third-party plugin and fails if the plugin does not
start.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return a.runPluginInfo(c.Context(), list[0]) },
	})
	return c
}

// served is one driver or filter in the output of plugin list.
type served struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	HDF5    int    `json:"hdf5,omitempty"`
	Summary string `json:"summary"`
	Does    string `json:"does,omitempty"`
}

func (a *app) runPluginList(ctx context.Context) error {
	s, err := a.start(ctx, "")
	if err != nil {
		return err
	}
	failed := s.Host().Discover(ctx)
	rows := a.servedRows()
	if a.flags.json {
		return a.printJSON(map[string]any{"served": rows, "plugins": s.Host().Plugins()})
	}
	for _, r := range rows {
		id := ""
		if r.HDF5 != 0 {
			id = fmt.Sprintf("(HDF5 %d) ", r.HDF5)
		}
		fmt.Fprintf(a.out, "%-6s  %-16s %s%s%s\n", r.Kind, r.Name, id, r.Summary, r.Does)
	}
	fmt.Fprintln(a.out)
	for _, p := range s.Host().Plugins() {
		fmt.Fprintf(a.out, "plugin  %-16s %s\n", p.Name, place(p))
	}
	if failed != nil {
		a.warn("%v", failed)
	}
	return nil
}

func (a *app) servedRows() []served {
	var rows []served
	for _, d := range a.session.Host().Drivers() {
		rows = append(rows, served{Kind: "driver", Name: d.Name, Summary: d.Summary})
	}
	for _, f := range a.session.Host().Filters() {
		does := ""
		switch {
		case !f.Encode:
			does = ", decoding only"
		case !f.Decode:
			does = ", encoding only"
		}
		rows = append(rows, served{"filter", f.ID, f.HDF5, f.Summary, does})
	}
	return rows
}

// place describes where a plugin is and whether it may run.
func place(p host.PluginInfo) string {
	switch {
	case p.Isolation == host.InProcess:
		return "built in, in the nczctl process"
	case p.Path == "":
		return "built in, in separate processes"
	case !p.Pinned:
		return p.Path + " (not pinned: needs --allow-unpinned)"
	}
	return p.Path
}

func (a *app) runPluginInfo(ctx context.Context, name string) error {
	s, err := a.start(ctx, "")
	if err != nil {
		return err
	}
	failed := errors.Join(s.Host().Discover(ctx), s.Host().Start(ctx, name))
	var found []host.PluginInfo
	for _, p := range s.Host().Plugins() {
		builtIn := p.Path == "" && (p.Serves == "driver:"+name || strings.HasPrefix(p.Serves, "driver:"+name+"/") || p.Serves == "filters" && a.isFilter(name))
		if builtIn && p.Serves == "filters" {
			p.Filters = append(p.Filters, name)
		} else if builtIn {
			p.Drivers = append(p.Drivers, name)
		}
		if p.Name == name || builtIn || slices.Contains(p.Drivers, name) || slices.Contains(p.Filters, name) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		if failed != nil {
			return failed
		}
		return ncerr.Errorf(ncerr.ErrUnsupported, "find plugin", name, "no plugin, driver or filter has this name (see nczctl plugin list)")
	}
	details := make([]pluginDetails, len(found))
	for i, p := range found {
		details[i].PluginInfo = p
		for _, f := range s.Host().Filters() {
			if slices.Contains(p.Filters, f.ID) || slices.Contains(p.Filters, name) && f.Has(name) {
				details[i].Codecs = append(details[i].Codecs, f)
			}
		}
		for _, d := range s.Host().Drivers() {
			if slices.Contains(p.Drivers, d.Name) {
				details[i].Described = append(details[i].Described, d)
			}
		}
	}
	if a.flags.json {
		err = a.printJSON(details)
	} else {
		for _, p := range details {
			a.printPlugin(p)
		}
	}
	for _, p := range found {
		if p.Failed != "" && !p.Described && err == nil {
			err = ncerr.Errorf(ncerr.ErrPlugin, "start plugin", p.Name, "%s", p.Failed)
		}
	}
	return err
}

// pluginDetails is the output of plugin info, which describes drivers with their
// options and codecs with their parameters.
type pluginDetails struct {
	host.PluginInfo
	Described []mapdriver.Description `json:"described,omitempty"`
	Codecs    []driver.Description    `json:"codecs,omitempty"`
}

// limits describes the limits of a plugin process.
func limits(l host.Limits) string {
	if l == (host.Limits{}) {
		return ""
	}
	restarts := "any number of restarts"
	if l.MaxRestarts != 0 {
		restarts = fmt.Sprintf("%d restarts", max(0, l.MaxRestarts))
	}
	silence := "no call timeout"
	if l.CallTimeout > 0 {
		silence = fmt.Sprintf("%v without a response", l.CallTimeout)
	}
	return fmt.Sprintf("%v per object, %s, %v to start, %v to stop, %s", config.Size(l.MaxObject), silence, l.StartTimeout, l.StopTimeout, restarts)
}

// levelText describes how values are passed to the process of a plugin.
func levelText(p host.PluginInfo) string {
	switch {
	case p.PID == 0 && (p.Path == "" || !p.Described):
		return ""
	case p.Level == 0:
		return "0 (values are sent inside messages)"
	}
	return fmt.Sprintf("%d (values are passed in shared memory)", p.Level)
}

// processText describes the work of a plugin's process. It returns "" if no process
// runs.
func processText(p host.PluginInfo) string {
	if p.PID == 0 {
		return ""
	}
	return fmt.Sprintf("%d, up %v, %d calls, %d jobs, %d bytes, %d restarts",
		p.PID, p.Uptime.Round(time.Millisecond), p.Calls, p.Jobs, p.Bytes, p.Restarts)
}

// isFilter reports whether a filter has the given name or alias.
func (a *app) isFilter(name string) bool {
	return slices.ContainsFunc(a.session.Host().Filters(), func(d driver.Description) bool { return d.Has(name) })
}

// confinement describes the sandbox of a process.
func confinement(i host.SandboxInfo) string {
	text := "none"
	if i.Landlock > 0 || i.Seccomp {
		text = fmt.Sprintf("Landlock version %d", i.Landlock)
		if i.Seccomp {
			text += ", seccomp"
		}
		if i.AllowList {
			text += " by allow list"
		}
		if i.Memory > 0 {
			text += fmt.Sprintf(", at most %v of memory", config.Size(i.Memory))
		}
	}
	if len(i.Missing) > 0 {
		text += "; not confined: " + strings.Join(i.Missing, "; ")
	}
	return text
}

func (a *app) printPlugin(d pluginDetails) {
	p := d.PluginInfo
	rows := []struct{ name, value string }{
		{"version", p.Version},
		{"binary", p.Path},
		{"sha256", p.SHA256},
		{"runs", place(p)},
		{"serves", p.Serves},
		{"sandbox", confinement(p.Sandbox)},
		{"open", strings.Join(p.Sandbox.Open, "; ")},
		{"grants", strings.Join(p.Grants, ", ")},
		{"limits", limits(p.Limits)},
		{"drivers", strings.Join(p.Drivers, ", ")},
		{"filters", strings.Join(p.Filters, ", ")},
		{"level", levelText(p)},
		{"process", processText(p)},
		{"failed", p.Failed},
	}
	fmt.Fprintln(a.out, p.Name)
	for _, r := range rows {
		if r.value != "" {
			fmt.Fprintf(a.out, "  %-8s %s\n", r.name, r.value)
		}
	}
	for _, d := range d.Described {
		fmt.Fprintf(a.out, "  driver %s: %s\n", d.Name, d.Summary)
		for _, o := range d.Options {
			byDefault := ""
			if o.Default != "" {
				byDefault = ", default " + o.Default
			}
			fmt.Fprintf(a.out, "    option %s (%s%s): %s\n", o.Name, o.Type, byDefault, o.Doc)
		}
	}
	for i := range d.Codecs {
		a.printCodec(&d.Codecs[i])
	}
}

func (a *app) printCodec(d *driver.Description) {
	fmt.Fprintf(a.out, "  filter %s: %s\n", d.ID, d.Summary)
	facts := []string{string(d.Transform)}
	if d.V3 != "" {
		facts = append(facts, "in Zarr v3 "+d.V3)
	}
	if len(d.Aliases) > 0 {
		facts = append(facts, "also "+strings.Join(d.Aliases, ", "))
	}
	if d.HDF5 != 0 {
		facts = append(facts, fmt.Sprintf("HDF5 filter %d", d.HDF5))
	}
	if d.Objects != driver.NoObjects {
		facts = append(facts, "for "+string(d.Objects)+" of variable length")
	}
	switch {
	case d.LossNote != "":
		facts = append(facts, "loses "+d.LossNote)
	case d.Lossy:
		facts = append(facts, "lossy")
	}
	if facts = slices.DeleteFunc(facts, func(f string) bool { return f == "" }); len(facts) > 0 {
		fmt.Fprintf(a.out, "    %s\n", strings.Join(facts, "; "))
	}
	for i := range d.Params {
		p := &d.Params[i]
		about := []string{string(p.Type)}
		if values := p.Values(); values != "" {
			about = append(about, values)
		}
		switch {
		case p.Required:
			about = append(about, "required")
		case p.Default != "":
			about = append(about, "default "+p.Default)
		}
		line := fmt.Sprintf("    parameter %s (%s): %s", p.Name, strings.Join(about, ", "), p.Doc)
		fmt.Fprintln(a.out, strings.TrimSuffix(line, ": "))
	}
}
