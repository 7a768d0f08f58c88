package zarr

import (
	"maps"
	"slices"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// SameJSON reports whether two documents have the same content. Members may be in any
// order, and a bare NaN equals the string "NaN". Numbers are compared by value, but an
// integer such as 1 differs from 1.0. SameJSON returns false if either document is not JSON.
func SameJSON(a, b []byte) bool {
	x, err := jsontext.Check(string(a))
	if err != nil {
		return false
	}
	y, err := jsontext.Check(string(b))
	return err == nil && same(x, y)
}

// SameDocument is like [SameJSON] for two documents with the same name. In group
// documents it ignores the member "consolidated_metadata", which zarr-python 3 adds to
// the copies of nested groups.
//
// Source: zarr-python 3.4.2, consolidate_metadata.
func SameDocument(name string, a, b []byte) bool {
	if name != GroupDoc && name != V3Doc {
		return SameJSON(a, b)
	}
	x, err := jsontext.Check(string(a))
	if err != nil || x.Kind() != jsontext.Object {
		return false
	}
	y, err := jsontext.Check(string(b))
	if err != nil || y.Kind() != jsontext.Object {
		return false
	}
	m, n := memberMap(x), memberMap(y)
	delete(m, "consolidated_metadata")
	delete(n, "consolidated_metadata")
	return maps.EqualFunc(m, n, same)
}

func same(a, b jsontext.Value) bool {
	if a == b {
		return true
	}
	switch k := a.Kind(); {
	case k == jsontext.String || k == jsontext.Word:
		return (b.Kind() == jsontext.String || b.Kind() == jsontext.Word) && a.Text() == b.Text()
	case k != b.Kind():
		return false
	case k == jsontext.Number:
		return sameNumber(a, b)
	case k == jsontext.Array:
		x, y := elements(a), elements(b)
		return slices.EqualFunc(x, y, same)
	case k == jsontext.Object:
		x, y := memberMap(a), memberMap(b)
		return maps.EqualFunc(x, y, same)
	}
	return false
}

// sameNumber compares integers exactly and other numbers as float64. An integer differs from
// any number with a point or an exponent.
func sameNumber(a, b jsontext.Value) bool {
	if a.IsInt() && b.IsInt() {
		return jsontext.StrictNumber(a) == jsontext.StrictNumber(b)
	}
	x, xok := a.Float(64)
	y, yok := b.Float(64)
	return xok && yok && x == y && a.IsInt() == b.IsInt()
}

func elements(v jsontext.Value) []jsontext.Value {
	var list []jsontext.Value
	_ = v.Elems(func(_ int, e jsontext.Value) error { list = append(list, e); return nil })
	return list
}

func memberMap(v jsontext.Value) map[string]jsontext.Value {
	m := make(map[string]jsontext.Value)
	_ = v.Each(func(key string, val jsontext.Value) error { m[key] = val; return nil })
	return m
}
