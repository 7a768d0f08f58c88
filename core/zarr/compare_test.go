package zarr_test

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// show formats a value with its type. Equal strings mean equal values, even for NaN.
func show(v any) string { return fmt.Sprintf("%T %v", v, v) }

func diffAttrs(t testing.TB, a, b []zarr.Attr) {
	t.Helper()
	if len(a) != len(b) {
		t.Errorf("attributes: want %v, got %v", a, b)
		return
	}
	for i := range a {
		x, _, _ := dtype.View(a[i].Value)
		y, _, _ := dtype.View(b[i].Value)
		if a[i].Name != b[i].Name || a[i].Type != b[i].Type || show(a[i].Value) != show(b[i].Value) || !bytes.Equal(x, y) && !isNaN(a[i].Value) {
			t.Errorf("attribute %d: want %q %v %s, got %q %v %s", i, a[i].Name, a[i].Type, show(a[i].Value), b[i].Name, b[i].Type, show(b[i].Value))
		}
	}
}

func isNaN(v any) bool {
	switch s := v.(type) {
	case []float32:
		return len(s) > 0 && s[0] != s[0]
	case []float64:
		return len(s) > 0 && s[0] != s[0]
	}
	return false
}

// diffArrays compares all fields that documents can record, except codec parameters.
func diffArrays(t testing.TB, a, b *zarr.Array) {
	t.Helper()
	diffAttrs(t, a.Attrs, b.Attrs)
	x, y := *a, *b
	if x.Scalar && len(x.DimNames) == 0 {
		x.DimNames = nil
		if len(y.DimNames) == 0 {
			y.DimNames = nil
		}
	}
	x.Attrs, y.Attrs, x.Warnings, y.Warnings = nil, nil, nil, nil
	if x.Storage == "" && x.Layout != zarr.LayoutPure {
		x.Storage = "chunked" // the default on writing
	}
	for _, m := range []*zarr.Array{&x, &y} {
		for i := range m.Codecs {
			m.Codecs[i].Params = nil
		}
	}
	if !reflect.DeepEqual(x, y) {
		t.Errorf("array: want\n%+v, got\n%+v", x, y)
	}
}
