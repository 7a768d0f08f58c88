package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// datasetInfo is what info prints.
type datasetInfo struct {
	URL          string         `json:"url"`
	Driver       string         `json:"driver"`
	Format       string         `json:"format"`
	Consolidated bool           `json:"consolidated"`
	NCProperties string         `json:"nc_properties,omitempty"`
	Groups       int            `json:"groups"`
	Dims         []dimInfo      `json:"dimensions"`
	Vars         []varInfo      `json:"variables"`
	Problems     []problemInfo  `json:"problems"`
	Plugins      []pluginOfInfo `json:"plugins"`

	failed error // why the first of what cannot be read cannot
}

type dimInfo struct {
	Path      string `json:"path"`
	Len       int64  `json:"length"`
	Unlimited bool   `json:"unlimited,omitempty"`
}

type varInfo struct {
	Path   string   `json:"path"`
	Type   string   `json:"type"`
	DType  string   `json:"dtype"`
	Dims   []string `json:"dimensions"`
	Shape  []int64  `json:"shape"`
	Chunks []int64  `json:"chunks"`
	Codecs []string `json:"codecs"`
	Error  string   `json:"unavailable,omitempty"`
}

type problemInfo struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

type pluginOfInfo struct {
	Name      string `json:"name"`
	Serves    string `json:"serves,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Isolation string `json:"isolation"`
}

func (a *app) newInfo() *cobra.Command {
	return &cobra.Command{
		Use:   "info URL",
		Short: "Summarise a dataset: format, dimensions, variables, codecs, problems",
		Long: `Summarise a dataset: where and how it is stored, its dimensions and variables,
whether the codecs of each variable are there, and what cannot be read. No
array data is read. If something cannot be read the exit code says why.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return a.runInfo(c.Context(), list[0]) },
	}
}

func (a *app) runInfo(ctx context.Context, url string) error {
	ds, err := a.open(ctx, url)
	if err != nil {
		return err
	}
	defer ds.Close(ctx) //nolint:errcheck // only read
	info := &datasetInfo{
		URL: ds.Location().Display, Driver: ds.Location().Driver, Format: ds.Layout().String(),
		Consolidated: ds.Consolidated(), NCProperties: ds.NCProperties(), Dims: []dimInfo{}, Vars: []varInfo{}, Problems: []problemInfo{},
	}
	if list := ds.Problems(); len(list) > 0 {
		info.failed = list[0].Err
	}
	info.group(ctx, ds.Root())
	for _, p := range ds.Problems() {
		info.Problems = append(info.Problems, problemInfo{p.Path, p.Err.Error()})
	}
	for _, p := range a.session.host.Plugins() {
		if p.PID != 0 || p.Isolation != host.Process {
			info.Plugins = append(info.Plugins, pluginOfInfo{p.Name, p.Serves, p.PID, string(p.Isolation)})
		}
	}
	if a.flags.json {
		err = a.printJSON(info)
	} else {
		a.printInfo(info)
	}
	if first := info.failed; err == nil && first != nil {
		err = &saidError{first}
	}
	return err
}

func (i *datasetInfo) group(ctx context.Context, g *nczarr.Group) {
	i.Groups++
	for _, d := range g.Dims() {
		i.Dims = append(i.Dims, dimInfo{d.Path(), d.Len(), d.Unlimited()})
	}
	for _, v := range g.Vars() {
		about, err := describeVar(ctx, v)
		i.Vars = append(i.Vars, about)
		if i.failed == nil {
			i.failed = err
		}
	}
	for _, sub := range g.Groups() {
		i.group(ctx, sub)
	}
}

// describeVar describes v, and tells why its data cannot be read.
func describeVar(ctx context.Context, v *nczarr.Var) (varInfo, error) {
	info := varInfo{
		Path: v.Path(), Type: v.Type().String(), DType: v.DType().String(), Dims: []string{}, Shape: v.Shape(),
		Chunks: v.Chunks(), Codecs: []string{},
	}
	if info.Chunks == nil {
		info.Chunks = []int64{}
	}
	for _, d := range v.Dims() {
		info.Dims = append(info.Dims, d.Path())
	}
	for _, c := range v.Codecs() {
		info.Codecs = append(info.Codecs, c.ID)
	}
	err := v.Available(ctx)
	if err != nil {
		info.Error = err.Error()
	}
	return info, err
}

func (a *app) printInfo(i *datasetInfo) {
	w := a.out
	fmt.Fprintf(w, "%s\n  driver     %s\n  format     %s\n", i.URL, i.Driver, i.Format)
	if i.Consolidated {
		fmt.Fprintln(w, "  metadata   consolidated")
	}
	if i.NCProperties != "" {
		fmt.Fprintf(w, "  written by %s\n", i.NCProperties)
	}
	for _, p := range i.Plugins {
		where := p.Isolation
		if p.PID != 0 {
			where = fmt.Sprintf("process %d", p.PID)
		}
		fmt.Fprintf(w, "  plugin     %s %s (%s)\n", p.Name, p.Serves, where)
	}
	fmt.Fprintf(w, "  contents   %d groups, %d dimensions, %d variables\n", i.Groups, len(i.Dims), len(i.Vars))
	for _, d := range i.Dims {
		unlimited := ""
		if d.Unlimited {
			unlimited = " (unlimited)"
		}
		fmt.Fprintf(w, "dimension %s = %d%s\n", d.Path, d.Len, unlimited)
	}
	for _, v := range i.Vars {
		codecs := strings.Join(v.Codecs, " + ")
		if codecs == "" {
			codecs = "raw"
		}
		fmt.Fprintf(w, "variable %s: %s %v, chunks %v, %s\n", v.Path, v.Type, v.Shape, v.Chunks, codecs)
		if v.Error != "" {
			fmt.Fprintf(w, "  unavailable: %s\n", v.Error)
		}
	}
	for _, p := range i.Problems {
		fmt.Fprintf(w, "unreadable %s: %s\n", p.Path, p.Error)
	}
}
