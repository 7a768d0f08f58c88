package dataset

import (
	"math"
	"reflect"
	"slices"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// timeAttrs returns the attributes that describe the integers of a datetime or
// timedelta array to CF readers: units, calendar for datetimes, scale_factor if the
// unit is a multiple of a named unit, and NaT as _FillValue. They are not stored,
// because the stored element type has the same information.
//
// Source: CF, "Time coordinate" and "Packed data"; NumPy, "Datetimes and timedeltas".
func timeAttrs(t dtype.Type) []Attr {
	if t.Kind != dtype.Datetime && t.Kind != dtype.Timedelta {
		return nil
	}
	attrs := []Attr{{Name: fillAttr, Type: dtype.NCInt64, Value: []int64{math.MinInt64}}}
	count, unit, ok := t.TimeUnit()
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

// showTimes sets the attributes that are shown in addition to the stored ones. It
// removes identical stored ones, because readers that know the element type would
// decode the values twice.
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
	if slices.ContainsFunc(v.attrs, same) { // without a match, fields continue to share the list
		v.attrs = slices.DeleteFunc(slices.Clone(v.attrs), same)
	}
	if _, err := findAttr(v.attrs, "units"); err == nil { // the dataset specifies its own units
		v.shown = slices.DeleteFunc(v.shown, func(a Attr) bool { return a.Name != fillAttr })
	}
}

// allAttrs returns the stored attributes and those that are shown in addition. The
// caller holds Dataset.mu.
func (v *Var) allAttrs() []Attr {
	all := slices.Clone(v.attrs)
	for _, a := range v.shown {
		if _, err := findAttr(v.attrs, a.Name); err != nil {
			all = append(all, a)
		}
	}
	return all
}
