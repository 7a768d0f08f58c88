package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// datasetInfo is the output of info.
type datasetInfo struct {
	URL          string         `json:"url"`
	Driver       string         `json:"driver"`
	Format       string         `json:"format"`
	Consolidated bool           `json:"consolidated"`
	ReadThrough  bool           `json:"read_through_consolidated"`
	NCProperties string         `json:"nc_properties,omitempty"`
	Groups       int            `json:"groups"`
	Dims         []dimInfo      `json:"dimensions"`
	Vars         []varInfo      `json:"variables"`
	Problems     []problemInfo  `json:"problems"`
	Plugins      []pluginOfInfo `json:"plugins"`
	Growth       *growthInfo    `json:"growth,omitempty"`

	failed error // the first error from reading a part
	sizes  bool  // show stored sizes, which requires listing the chunks
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
	Shards []int64  `json:"shards,omitempty"`
	// ChunkGrid and ShardGrid hold the chunk_shapes of rectilinear grids. Chunks and
	// Shards hold the largest lengths of such grids.
	ChunkGrid json.RawMessage `json:"chunk_grid,omitempty"`
	ShardGrid json.RawMessage `json:"shard_grid,omitempty"`

	Codecs []string `json:"codecs"`
	Units  string   `json:"units,omitempty"`
	Title  string   `json:"long_name,omitempty"`
	Stored *storage `json:"stored,omitempty"`
	Error  string   `json:"unavailable,omitempty"`
}

// storage describes the stored chunks of a variable.
type storage struct {
	Chunks int64   `json:"chunks"`
	Grid   int64   `json:"chunks_of_the_grid"`
	Bytes  int64   `json:"bytes"`
	Raw    int64   `json:"bytes_decoded,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"`
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
	sizes, problems := false, false
	c := &cobra.Command{
		Use:   "info URL",
		Short: "Summarize a dataset: format, dimensions, variables, codecs, problems",
		Long: `Summarize a dataset: its location and format, its dimensions and variables,
whether the codecs of each variable are available, and the parts that cannot be
read. No array data is read. If a part cannot be read, the exit code shows the
kind of the first error.

The stored size of each variable is shown for local datasets. For remote
datasets, --sizes computes it by listing the chunks.

--problems also lists the marks of writers that extend a dimension, or died doing
so, and the chunks that they left beyond the shapes of variables. It lists the
chunks of every variable that can grow. "nczctl repair" removes them.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return a.runInfo(c.Context(), list[0], sizes, problems) },
	}
	c.Flags().BoolVar(&sizes, "sizes", false, "also show the stored size of each variable of a remote dataset")
	c.Flags().BoolVar(&problems, "problems", false, "also list chunks beyond the shapes of variables and the marks of their writers")
	return c
}

func (a *app) runInfo(ctx context.Context, url string, sizes, problems bool) error {
	ds, err := a.openWithFilters(ctx, url)
	if err != nil {
		return err
	}
	defer ds.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	if err := a.warnUnlisted(ctx, ds); err != nil {
		return err
	}
	info := &datasetInfo{
		URL: ds.Location().Display, Driver: ds.Location().Driver, Format: ds.Layout().String(),
		ReadThrough: ds.Consolidated(), NCProperties: ds.NCProperties(), Dims: []dimInfo{}, Vars: []varInfo{}, Problems: []problemInfo{},
	}
	if info.Consolidated, err = ds.HasConsolidated(ctx); err != nil {
		return err
	}
	if list := ds.Problems(); len(list) > 0 {
		info.failed = list[0].Err
	}
	c := ds.Map().Capabilities()
	info.sizes = c.List && (sizes || c.Latency != driver.Remote)
	if sizes && !c.List {
		return ncerr.Errorf(ncerr.ErrUnsupported, "list", ds.Location().Display, "--sizes requires a store that can be listed")
	}
	info.group(ctx, ds.Root())
	if problems {
		if info.Growth, err = growthOf(ctx, ds); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := ds.CheckUnchanged(ctx); err != nil {
		return err
	}
	for _, p := range ds.Problems() {
		info.Problems = append(info.Problems, problemInfo{p.Path, p.Err.Error()})
	}
	for _, p := range a.session.Host().Plugins() {
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
		err = &reportedError{first}
	}
	return err
}

func (i *datasetInfo) group(ctx context.Context, g *dataset.Group) {
	i.Groups++
	for _, d := range g.Dims() {
		i.Dims = append(i.Dims, dimInfo{d.Path(), d.Len(), d.Unlimited()})
	}
	for _, v := range g.Vars() {
		if ctx.Err() != nil { // the caller checks ctx
			return
		}
		about, err := describeVar(ctx, v)
		if i.sizes && err == nil {
			about.Stored, err = storageOf(ctx, v)
		}
		if err != nil {
			about.Error = err.Error()
		}
		if i.failed == nil {
			i.failed = err
		}
		i.Vars = append(i.Vars, about)
	}
	for _, sub := range g.Groups() {
		i.group(ctx, sub)
	}
}

func storageOf(ctx context.Context, v *dataset.Var) (*storage, error) {
	s, err := v.Stored(ctx)
	if err != nil {
		return nil, err
	}
	out := &storage{Chunks: s.Chunks, Grid: s.Grid, Bytes: s.Bytes, Raw: s.Raw}
	if s.Chunks == s.Grid && s.Raw > 0 && s.Bytes > 0 {
		out.Ratio = math.Round(100*float64(s.Raw)/float64(s.Bytes)) / 100
	}
	return out, nil
}

// gridText formats the chunk shape of a regular grid. For any other grid it returns
// chunk_shapes, shortened if it is long.
func gridText(shape []int64, grid json.RawMessage) string {
	const maxLen = 80
	switch {
	case grid == nil:
		return fmt.Sprint(shape)
	case len(grid) > maxLen:
		return string(grid[:maxLen-3]) + "..."
	}
	return string(grid)
}

// String returns a description of s.
func (s *storage) String() string {
	text := fmt.Sprintf("stored %s in %d of %d chunks", sizeText(s.Bytes), s.Chunks, s.Grid)
	if s.Raw > 0 {
		text += ", decoded " + sizeText(s.Raw)
	}
	if s.Ratio > 0 {
		text += fmt.Sprintf(", ratio %.4g", s.Ratio)
	}
	return text
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sizeText formats a number of bytes with a unit.
func sizeText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1<<10 && unit < 4 {
		f /= 1 << 10
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[unit])
}

// describeVar describes v. It also returns an error if the data of v cannot be read.
func describeVar(ctx context.Context, v *dataset.Var) (varInfo, error) {
	info := varInfo{
		Path: v.Path(), Type: v.Type().String(), DType: v.DType().String(), Dims: []string{}, Shape: v.Shape(),
		Chunks: v.Chunks(), Shards: v.Shards(), Codecs: []string{},
	}
	if info.Chunks == nil {
		info.Chunks = []int64{}
	}
	if g := v.ChunkGrid(); !g.Regular() {
		info.ChunkGrid = json.RawMessage(zarr.GridText(g))
	}
	if g := v.ObjectGrid(); info.Shards != nil && !g.Regular() {
		info.ShardGrid = json.RawMessage(zarr.GridText(g))
	}
	for _, d := range v.Dims() {
		info.Dims = append(info.Dims, d.Path())
	}
	for _, c := range v.Codecs() {
		info.Codecs = append(info.Codecs, c.ID)
	}
	for _, at := range v.Attrs() {
		switch text, _ := at.Value.(string); at.Name {
		case "units":
			info.Units = text
		case "long_name":
			info.Title = text
		}
	}
	return info, v.Available(ctx)
}

// lines returns the detail lines printed below the first line of a variable.
func (v *varInfo) lines() []string {
	var about, list []string
	if len(v.Dims) > 0 {
		about = append(about, "dimensions "+strings.Join(v.Dims, " "))
	}
	if v.Title != "" {
		about = append(about, strconv.Quote(v.Title))
	}
	if v.Units != "" {
		about = append(about, "units "+strconv.Quote(v.Units))
	}
	if len(about) > 0 {
		list = append(list, strings.Join(about, ", "))
	}
	if v.Stored != nil {
		list = append(list, v.Stored.String())
	}
	return list
}

func (a *app) printInfo(i *datasetInfo) {
	w := a.out
	fmt.Fprintf(w, "%s\n  driver     %s\n  format     %s\n", i.URL, i.Driver, i.Format)
	switch {
	case i.ReadThrough:
		fmt.Fprintln(w, "  metadata   consolidated")
	case i.Consolidated:
		fmt.Fprintln(w, "  metadata   consolidated, not used here")
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
	fmt.Fprintf(w, "  contents   %s, %s, %s\n", countOf(i.Groups, "group"), countOf(len(i.Dims), "dimension"), countOf(len(i.Vars), "variable"))
	for _, d := range i.Dims {
		unlimited := ""
		if d.Unlimited {
			unlimited = " (unlimited)"
		}
		fmt.Fprintf(w, "dimension %s = %d%s\n", d.Path, d.Len, unlimited)
	}
	for _, v := range i.Vars {
		codecs := cmp.Or(strings.Join(v.Codecs, " + "), "raw")
		chunks := gridText(v.Chunks, v.ChunkGrid)
		if v.Shards != nil {
			chunks += " in shards " + gridText(v.Shards, v.ShardGrid)
		}
		fmt.Fprintf(w, "variable %s: %s %v, chunks %s, %s\n", v.Path, v.Type, v.Shape, chunks, codecs)
		for _, line := range v.lines() {
			fmt.Fprintln(w, " ", line)
		}
		if v.Error != "" {
			fmt.Fprintf(w, "  unavailable: %s\n", v.Error)
		}
	}
	for _, p := range i.Problems {
		fmt.Fprintf(w, "unreadable %s: %s\n", p.Path, p.Error)
	}
	if i.Growth != nil {
		a.printGrowth(i.Growth, "")
	}
}
