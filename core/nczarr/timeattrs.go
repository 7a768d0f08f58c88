package nczarr

import (
	"math"
	"reflect"
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// timeAttrs gives the attributes that tell CF readers what the integers of a
// datetime or timedelta array mean: units, for datetimes the calendar,
// scale_factor where the unit is a multiple of one with a name, and NaT as
// _FillValue. They are not in the store, whose element type says the same.
//
// Source: CF, "Time coordinate" and "Packed data"; NumPy, "Datetimes and
// timedeltas".
func timeAttrs(t dtype.Type) []Attr {
	if t.Kind != dtype.Datetime && t.Kind != dtype.Timedelta {
		return nil
	}
	attrs := []Attr{{Name: fillAttr, Type: dtype.NCInt64, Value: []int64{math.MinInt64}}}
	count, unit, ok := t.CountsOf()
	if !ok {
		return attrs
	}
	text := func(name, value string) { attrs = append(attrs, Attr{Name: name, Type: dtype.NCChar, Value: value}) }
	if t.Kind == dtype.Datetime {
		text("units", unit+" since 1970-01-01")
		text("calendar", "proleptic_gregorian")
	} else {
		text("units", unit)
	}
	if count > 1 {
		attrs = append(attrs, Attr{Name: "scale_factor", Type: dtype.NCDouble, Value: []float64{float64(count)}})
	}
	return attrs
}

// showTimes sets the attributes that are shown beside the stored ones. Stored
// ones that are the same are not kept: readers of the array that know its
// element type would take them for a second encoding.
func (v *Var) showTimes() {
	if v.shown = timeAttrs(v.meta.DType); v.shown == nil {
		return
	}
	same := func(a Attr) bool {
		return slices.ContainsFunc(v.shown, func(b Attr) bool {
			b.JSON = a.JSON
			return a.Name == b.Name && reflect.DeepEqual(a, b)
		})
	}
	if slices.ContainsFunc(v.attrs, same) { // else fields go on sharing them
		v.attrs = slices.DeleteFunc(slices.Clone(v.attrs), same)
	}
	if _, err := findAttr(v.attrs, "units"); err == nil { // somebody knows better
		v.shown = slices.DeleteFunc(v.shown, func(a Attr) bool { return a.Name != fillAttr })
	}
}

// allAttrs gives the stored attributes and those that are shown beside them;
// the lock is held.
func (v *Var) allAttrs() []Attr {
	all := slices.Clone(v.attrs)
	for _, a := range v.shown {
		if _, err := findAttr(v.attrs, a.Name); err != nil {
			all = append(all, a)
		}
	}
	return all
}
