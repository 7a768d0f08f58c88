package main

import (
	"context"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestGCPercent checks that a copy with strings does not collect garbage after every few
// strings.
func TestGCPercent(t *testing.T) {
	t.Parallel()
	loc, err := ncurl.Parse("mem:a", &ncurl.Env{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := dataset.Create(t.Context(), loc, &dataset.CreateOptions{Options: dataset.Options{Registry: registry.New([]driver.Opener{memmap.NewOpener()})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ds.Abort(context.WithoutCancel(t.Context())) })
	dim, err := ds.Root().DefineDim("x", 10, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]dataset.VarSpec{
		"number": {Type: dtype.NCFloat, Dims: []*dataset.Dim{dim}},
		"scalar": {Type: dtype.NCString},
		"text":   {Type: dtype.NCString, Dims: []*dataset.Dim{dim}},
	} {
		if _, err := ds.Root().DefineVar(t.Context(), name, &spec); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		without string
		rechunk bool
		want    int
	}{{"", false, 25}, {"text", false, 25}, {"", true, 25}, {"text", true, 2}} {
		selected := func(v *dataset.Var) bool { return v.Name() != c.without }
		if got := gcPercent(ds.Root(), selected, c.rechunk); got != c.want {
			t.Errorf("without %q, rechunk %v: want %d, got %d", c.without, c.rechunk, c.want, got)
		}
	}
}
