package dataset

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// twoVars returns a pair whose chunks are movable.
func twoVars(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	o := Options{Registry: registry.New([]driver.Opener{memmap.NewOpener()})}
	for url, v := range map[string]**Var{"mem:a": &p.src, "mem:b": &p.dst} {
		loc, err := ncurl.Parse(url, &ncurl.Env{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		ds, err := Create(t.Context(), loc, &CreateOptions{Options: o})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ds.Abort(context.WithoutCancel(t.Context())) })
		x, err := ds.Root().DefineDim("x", 4, false)
		if err != nil {
			t.Fatal(err)
		}
		if *v, err = ds.Root().DefineVar(t.Context(), "v", &VarSpec{Type: dtype.NCInt, Dims: []*Dim{x, x}, Chunks: []int64{2, 2}, Fill: []int32{7}}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Chunks are not movable if any single precondition does not hold.
func TestMovable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *pair){
		"":            func(*pair) {},
		"encode anew": func(p *pair) { p.recode = true },
		"rounding":    func(p *pair) { p.quantize.Mode = dtype.BitRound },
		"scalar": func(p *pair) {
			for _, v := range []*Var{p.src, p.dst} {
				v.dims, v.meta.Shape, v.meta.Chunks = nil, nil, nil
			}
		},
		"field of a source":      func(p *pair) { p.src.in = &record{dtype: p.src.meta.DType} },
		"field of a destination": func(p *pair) { p.dst.in = &record{dtype: p.src.meta.DType} },
		"conversion": func(p *pair) {
			p.src.nc, p.src.meta.DType, p.dst.meta.DType = dtype.NCFloat, dtype.Type{Kind: dtype.Float, Size: 2, Order: dtype.Little}, dtype.Type{Kind: dtype.Float, Size: 2, Order: dtype.Little}
		},
		"text": func(p *pair) {
			p.src.nc, p.src.meta.DType, p.dst.meta.DType = dtype.NCString, dtype.Type{Kind: dtype.Bytes, Size: 4}, dtype.Type{Kind: dtype.Bytes, Size: 4}
		},
		"type": func(p *pair) { p.dst.meta.DType.Kind = dtype.Uint },
		"byte order": func(p *pair) {
			p.src.meta.DType.Order, p.src.meta.Fill = dtype.Big, []byte{0, 0, 0, 7}
		},
		"chunk shape":             func(p *pair) { p.dst.meta.Chunks = []int64{1, 4} },
		"stored dimensions":       func(p *pair) { p.dst.meta.Chunks = []int64{2, 2, 1} },
		"memory order":            func(p *pair) { p.dst.meta.Transpose = []int{1, 0} },
		"shape":                   func(p *pair) { p.dst.dims = []*Dim{p.dst.dims[0], {group: p.dst.group, len: 3}} },
		"short source":            func(p *pair) { p.src.own = []int64{4, 1} },
		"short destination":       func(p *pair) { p.dst.own = []int64{4, 1} },
		"destination with chunks": func(p *pair) { p.dst.defined = false },
		"fill value":              func(p *pair) { p.dst.meta.Fill = []byte{7, 0, 0, 1} },
		"misread by netcdf-c": func(p *pair) {
			p.src.meta.DType.Order, p.dst.meta.DType.Order = dtype.Big, dtype.Big
		},
		"codecs": func(p *pair) { p.dst.meta.Codecs = nil; p.src.meta.Codecs = []zarr.CodecSpec{{ID: "x"}} },
	} {
		p := twoVars(t)
		meta := *p.src.meta
		p.src.meta = &meta
		change(p)
		// Open the arrays without codecs, because the registry of this test has no
		// codecs.
		codecs := p.src.meta.Codecs
		p.src.meta.Codecs = nil
		for _, v := range []*Var{p.src, p.dst} {
			if _, err := v.open(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		p.src.meta.Codecs = codecs
		got, err := p.movable(t.Context())
		if err != nil || got != (name == "") {
			t.Errorf("%q: movable is %v, %v", name, got, err)
		}
	}
}

// Two codecs are the same if one has a name or alias of the other and their parameters are
// equal after defaults and the size of the elements have been filled in.
func TestSameCodec(t *testing.T) {
	t.Parallel()
	params := []codecdriver.Param{
		{Name: "level", Type: codecdriver.IntParam, Default: "1"},
		{Name: "mode", Type: codecdriver.TextParam, Default: "fast"},
		{Name: "free", Type: codecdriver.IntParam},
		{Name: "size", Type: codecdriver.IntParam, Default: "4", Input: codecdriver.InputSize},
	}
	codecs := codec.Catalog{{ID: "zip", Aliases: []string{"old.zip"}, Params: params}}
	spec := func(id, params string) zarr.CodecSpec { return zarr.CodecSpec{ID: id, Params: json.RawMessage(params)} }
	for _, c := range []struct {
		a, b zarr.CodecSpec
		want bool
	}{
		{spec("zip", ""), spec("zip", `{"id": "zip"}`), true},
		{spec("zip", `{"level": 1}`), spec("zip", `{"mode": "fast"}`), true},
		{spec("zip", `{"level": null}`), spec("old.zip", `{"level": 1}`), true},
		{spec("zip", `{"level": 2}`), spec("zip", ""), false},
		{spec("zip", `{"level": 9007199254740993}`), spec("zip", `{"level": 9007199254740992}`), false},
		{spec("zip", `{"mode": "slow"}`), spec("zip", ""), false},
		{spec("zip", `{"free": 0}`), spec("zip", ""), false},
		{spec("zip", `{"other": 0}`), spec("zip", ""), false},
		{spec("zip", `{"size": 0}`), spec("zip", `{"size": 8}`), true},
		{spec("zip", ""), spec("zip", `{"size": 8}`), false}, // the default is not the size of the elements
		{spec("zip", ""), spec("zip", `{"size": 4}`), true},
		{spec("zip", `[]`), spec("zip", `[]`), false},
		{spec("zip", ""), spec("zap", ""), false},
		{spec("zap", `{"a": 1}`), spec("zap", `{"a": 1}`), true},
	} {
		if got := sameCodec(codecs, c.a, c.b, 8); got != c.want {
			t.Errorf("%s %s and %s %s: sameCodec returned %v", c.a.ID, c.a.Params, c.b.ID, c.b.Params, got)
		}
	}
}

// The parts of a split array are disjoint and cover it, and the whole chunks end within
// the unlimited dimensions.
func TestSplit(t *testing.T) {
	t.Parallel()
	shape := []int64{5, 3, 7}
	v := &Var{meta: &zarr.Array{Chunks: []int64{2, 2, 9}}, dims: []*Dim{{unlimited: true}, {}, {unlimited: true}}}
	for _, unlimited := range []bool{true, false} {
		v.dims[2].unlimited = unlimited
		whole, edges := v.split(shape)
		n := whole.Len()
		for _, e := range edges {
			if e.Len() == 0 {
				t.Errorf("the box %v is empty", e)
			}
			n += e.Len()
		}
		want := []int64{4, 3, 7}
		if unlimited {
			want[2] = 0
		}
		if n != 105 || !slices.Equal(whole.Count, want) {
			t.Errorf("want whole chunks of %v and 105 elements in total, got %v, edges %v and %d elements", want, whole.Count, edges, n)
		}
	}
}
