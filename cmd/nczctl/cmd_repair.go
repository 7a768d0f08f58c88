package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
)

// growthInfo is what info --problems and repair print about growing dimensions.
type growthInfo struct {
	Marks     []markInfo   `json:"growth_marks"`
	Leftovers []beyondInfo `json:"leftovers"`
}

// markInfo describes the mark of a writer that extends a dimension.
type markInfo struct {
	Owner string     `json:"owner"`
	State string     `json:"state"`
	Made  *time.Time `json:"made,omitempty"`
	Idle  bool       `json:"idle,omitempty"` // the writer has flushed all that it wrote
}

// beyondInfo describes chunks beyond the shape of a variable.
type beyondInfo struct {
	Path   string  `json:"path"`
	Chunks int64   `json:"chunks"`
	First  []int64 `json:"first"`
	Last   []int64 `json:"last"`
}

func (a *app) newRepair() *cobra.Command {
	leftovers := false
	c := &cobra.Command{
		Use:   "repair --leftovers URL",
		Short: "Remove what writers that died left beyond the shapes of variables",
		Long: `Remove what writers that died left in a dataset. The command changes nothing
without an option that says what to remove.

A writer that extends a dimension first stores a mark, .nczgrowing/NAME, then the
new chunks, and then the new lengths. If it dies in between, the mark and the
chunks stay. They become values when another writer extends the dimension over
them; that writer logs a warning.

--leftovers removes the chunks beyond the shapes of all variables and the marks.
In the chunks at the end of an unlimited dimension it sets the elements beyond
its length to the fill value. Pure Zarr does not record unlimited dimensions, so
there these elements are kept.

A running writer would lose what it wrote since its last flush, and its next
flush would fail. If a writer in a local directory is running, the command
fails and removes nothing. On other stores nczctl cannot know that: make sure
that no program writes to the dataset. "nczctl info --problems" lists marks and
chunks.`,
		Example: "  nczctl info --problems /data/ocean.zarr\n  nczctl repair --leftovers /data/ocean.zarr",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if !leftovers {
				return &usageError{errors.New("specify what to remove: --leftovers")}
			}
			return a.runRepair(c.Context(), list[0])
		},
	}
	c.Flags().BoolVar(&leftovers, "leftovers", false, "remove chunks beyond the shapes and the marks of writers")
	return c
}

func (a *app) runRepair(ctx context.Context, url string) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	opts := a.options()
	opts.Update = true
	ds, err := open.Open(ctx, url, opts)
	if err != nil {
		return err
	}
	defer ds.Abort(ctx) //nolint:errcheck // RemoveLeftovers has made its changes durable or returned an error
	found, err := growthOf(ctx, ds)
	if err != nil {
		return err
	}
	if len(found.Marks)+len(found.Leftovers) > 0 {
		if _, err := ds.RemoveLeftovers(ctx); err != nil {
			return err
		}
	}
	if a.flags.json {
		return a.printJSON(found)
	}
	a.printGrowth(found, "removed ")
	return nil
}

// growthOf lists the growth marks and leftovers of a dataset.
func growthOf(ctx context.Context, ds *dataset.Dataset) (*growthInfo, error) {
	if !ds.Map().Capabilities().List {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "list", ds.Location().Display, "finding leftovers requires a store that can be listed")
	}
	out := &growthInfo{Marks: []markInfo{}, Leftovers: []beyondInfo{}}
	marks, err := ds.GrowthMarks(ctx)
	if err != nil {
		return nil, err
	}
	for i := range marks {
		m := markInfo{Owner: marks[i].Owner(), State: marks[i].State.String(), Idle: marks[i].Idle}
		if !marks[i].Created.IsZero() {
			m.Made = &marks[i].Created
		}
		out.Marks = append(out.Marks, m)
	}
	left, err := ds.Leftovers(ctx)
	for _, l := range left {
		out.Leftovers = append(out.Leftovers, beyondInfo{l.Path, l.Chunks, l.First, l.Last})
	}
	return out, err
}

func (a *app) printGrowth(g *growthInfo, done string) {
	for _, m := range g.Marks {
		fmt.Fprintf(a.out, "%sgrowth mark: %s, %s", done, m.Owner, m.State)
		if m.Idle {
			fmt.Fprint(a.out, ", idle")
		}
		if m.Made != nil {
			fmt.Fprintf(a.out, ", %s", m.Made.Format(time.RFC3339))
		}
		fmt.Fprintln(a.out)
	}
	for _, l := range g.Leftovers {
		fmt.Fprintf(a.out, "%sleftover %s: %s beyond the shape, elements %v to %v\n", done, l.Path, countOf(int(l.Chunks), "chunk"), l.First, l.Last)
	}
}
