package nczarr

import (
	"context"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// number is a Go type of stored numbers.
type number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// ReadUnpacked reads numbers as [Read] does and gives them their meaning: missing
// values are NaN, others are multiplied with scale_factor and then add_offset is
// added, in float64.
//
// Missing are values that equal the attribute _FillValue or one of missing_value,
// or lie outside of valid_range, or else of valid_min and valid_max. They are
// compared in the stored type, before scaling; only a valid range of floats for
// packed integers is compared after it. Without _FillValue, the fill value of v is
// missing, too, if it is netCDF's default for the type and the type has more than
// one byte. In pure Zarr version 2 it is missing if it is not 0: xarray stores
// _FillValue there, and nowhere else. If _Unsigned is "true", signed integers are
// taken as unsigned ones.
//
// Errors: those of Read; [ErrBadType] and [ErrInvalid] also for attributes that
// are not numbers, or not as many as there must be.
//
// Source: CF conventions 1.11, sections 2.5.1 and 8.1; NetCDF Users' Guide,
// "Attribute Conventions".
func ReadUnpacked[T float32 | float64](ctx context.Context, v *Var, selectors ...Selector) (Array[T], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[T]{}, err
	}
	a := Array[T]{Shape: sel.shape, Dims: sel.dims}
	p, err := v.packing()
	if err != nil {
		return Array[T]{}, err
	}
	err = p.read(ctx, v, sel, func(n int64) { a.Data = make([]T, n) }, func(i int, x stored) {
		if x.missing {
			a.Data[i] = T(math.NaN())
		} else {
			a.Data[i] = T(p.apply(x.float))
		}
	})
	if err != nil {
		return Array[T]{}, err
	}
	return a, nil
}

// WriteUnpacked writes numbers as [Write] does after the reverse of what
// [ReadUnpacked] does: add_offset is subtracted, the rest divided by scale_factor
// and, for integers, rounded to the nearest, half to even; NaN becomes _FillValue,
// else missing_value, else the fill value.
//
// Errors: those of Write; [ErrConvert] also for NaN without such a value and for
// a number that would be stored as a missing one.
func WriteUnpacked[T float32 | float64](ctx context.Context, v *Var, values []T, selectors ...Selector) error {
	sel, err := v.pick(ctx, "write", selectors)
	if err != nil {
		return err
	}
	p, err := v.packing()
	if err != nil {
		return err
	}
	out := make([]float64, len(values))
	for i, x := range values {
		if out[i], err = p.pack(float64(x)); err != nil {
			return ncerr.Wrap("write", v.Path(), err)
		}
	}
	return v.core.Write(ctx, sel.Selection, out)
}

// packing is the meaning that attributes give to stored numbers.
type packing struct {
	typ           Type
	scale, offset float64
	packed        bool    // there is a scale or an offset
	wrap          float64 // added to negative numbers; 0 if they are not unsigned
	missing       []any   // slices of numbers
	valid         [2]any  // slices of one number, or nil
}

// boundsUnpacked reports whether the valid range is meant after unpacking: that
// of packed integers is if it has the type of the scale. Such a range is not CF,
// but the users' guide of netCDF has it.
func (p *packing) boundsUnpacked() bool {
	for _, b := range p.valid {
		if nc, ok := dtype.TypeOf(b); ok && (nc == Float32 || nc == Float64) {
			return p.packed && p.typ != Float32 && p.typ != Float64
		}
	}
	return false
}

func (v *Var) packing() (*packing, error) {
	p := &packing{typ: v.Type(), scale: 1}
	if v.Type() == Char || v.Type() == String {
		return nil, ncerr.Errorf(ErrBadType, "read", v.Path(), "a variable of type %s has no numbers", v.Type())
	}
	var err error
	number := func(name string) float64 {
		a := v.Attr(name)
		if !a.Exists() || err != nil {
			return math.NaN()
		}
		p.packed = true
		var x float64
		x, err = a.Float64()
		return x
	}
	if x := number("scale_factor"); v.Attr("scale_factor").Exists() {
		p.scale = x
	}
	if x := number("add_offset"); v.Attr("add_offset").Exists() {
		p.offset = x
	}
	if err == nil && (p.scale == 0 || math.IsNaN(p.scale) || math.IsInf(p.scale, 0)) {
		err = ncerr.Errorf(ErrInvalid, "read attribute", "scale_factor", "%v is not a scale", p.scale)
	}
	list := func(name string, n int) any {
		a := v.Attr(name)
		if !a.Exists() || err != nil {
			return nil
		}
		slice, _ := sliceOf(a.Value)
		if _, _, ok := dtype.View(slice); !ok {
			err = ncerr.Errorf(ErrBadType, "read attribute", name, "the value is text, not a number")
		} else if n > 0 && dtype.Len(slice) != n {
			err = ncerr.Errorf(ErrInvalid, "read attribute", name, "there are %d values, not %d", dtype.Len(slice), n)
		}
		return slice
	}
	for _, name := range []string{"_FillValue", "missing_value"} {
		if m := list(name, 0); m != nil {
			p.missing = append(p.missing, m)
		}
	}
	if fill, ok := v.core.Fill(); ok && !v.Attr("_FillValue").Exists() && v.fillIsMissing(fill) {
		p.missing = append(p.missing, fill)
	}
	if r := list("valid_range", 2); r != nil && err == nil {
		p.valid = [2]any{dtype.Slice(r, 0, 1), dtype.Slice(r, 1, 2)}
	} else {
		p.valid = [2]any{list("valid_min", 1), list("valid_max", 1)}
	}
	if u, signed := unsigned(v.Type()); signed && strings.EqualFold(v.Attr("_Unsigned").String(), "true") {
		p.wrap = math.Ldexp(1, 8*u.Size())
	}
	return p, ncerr.Wrap("read", v.Path(), err)
}

// fillIsMissing reports whether elements that equal the fill value are missing
// though there is no attribute that says so.
func (v *Var) fillIsMissing(fill any) bool {
	if v.core.Group().Dataset().Layout() == zarr.LayoutPure {
		raw, t, _ := dtype.View(fill)
		return t.Float(raw) != 0
	}
	return v.Type().Size() > 1 && first(fill) == first(dtype.DefaultFill(v.Type()))
}

// unsigned returns the unsigned type of the size of a signed one.
func unsigned(t Type) (Type, bool) {
	switch t {
	case Int8:
		return Uint8, true
	case Int16:
		return Uint16, true
	case Int32:
		return Uint32, true
	case Int64:
		return Uint64, true
	}
	return t, false
}

// apply unpacks a number. The conversion keeps compilers from rounding once
// instead of twice, which would differ between machines.
func (p *packing) apply(x float64) float64 { return float64(x*p.scale) + p.offset }

// pack is the reverse of apply for a number to be stored.
func (p *packing) pack(x float64) (float64, error) {
	if math.IsNaN(x) {
		for _, m := range p.missing {
			if raw, t, _ := dtype.View(m); len(raw) > 0 {
				return p.signed(t.Float(raw)), nil
			}
		}
		if p.typ == Float32 || p.typ == Float64 {
			return x, nil
		}
		return 0, ncerr.Errorf(ErrConvert, "", "", "NaN cannot be stored: the variable has neither _FillValue nor missing_value")
	}
	y := (x - p.offset) / p.scale
	if p.typ != Float32 && p.typ != Float64 {
		y = math.RoundToEven(y)
	}
	for _, m := range p.missing {
		if raw, t, _ := dtype.View(m); holds(raw, t, y) || holds(raw, t, p.signed(y)) {
			return 0, ncerr.Errorf(ErrConvert, "", "", "%v would be stored as %v, which is a missing value", x, y)
		}
	}
	return p.signed(y), nil
}

// signed returns the signed number that means y if numbers are unsigned.
func (p *packing) signed(y float64) float64 {
	if p.wrap != 0 && y >= p.wrap/2 {
		return y - p.wrap
	}
	return y
}

// holds reports whether one of the elements is y.
func holds(raw []byte, t dtype.Type, y float64) bool {
	for ; len(raw) > 0; raw = raw[t.Size:] {
		if t.Float(raw) == y {
			return true
		}
	}
	return false
}

// stored is a stored number: as a float64 and, for integers that fit, as an int64.
type stored struct {
	float   float64
	int     int64
	missing bool
}

// read reads what is selected of v, and calls f with each number after making
// room for them.
func (p *packing) read(ctx context.Context, v *Var, sel selection, room func(n int64), f func(i int, x stored)) error {
	switch signed := p.wrap == 0; v.Type() {
	case Int8:
		if !signed {
			return each[int8, uint8](ctx, v, sel, p, room, f)
		}
		return each[int8, int8](ctx, v, sel, p, room, f)
	case Int16:
		if !signed {
			return each[int16, uint16](ctx, v, sel, p, room, f)
		}
		return each[int16, int16](ctx, v, sel, p, room, f)
	case Int32:
		if !signed {
			return each[int32, uint32](ctx, v, sel, p, room, f)
		}
		return each[int32, int32](ctx, v, sel, p, room, f)
	case Int64:
		if !signed {
			return each[int64, uint64](ctx, v, sel, p, room, f)
		}
		return each[int64, int64](ctx, v, sel, p, room, f)
	case Uint8:
		return each[uint8, uint8](ctx, v, sel, p, room, f)
	case Uint16:
		return each[uint16, uint16](ctx, v, sel, p, room, f)
	case Uint32:
		return each[uint32, uint32](ctx, v, sel, p, room, f)
	case Uint64:
		return each[uint64, uint64](ctx, v, sel, p, room, f)
	case Float32:
		return each[float32, float32](ctx, v, sel, p, room, f)
	}
	return each[float64, float64](ctx, v, sel, p, room, f)
}

// each is read for elements of type P that mean numbers of type M, of the same
// size.
func each[P, M number](ctx context.Context, v *Var, sel selection, p *packing, room func(n int64), f func(i int, x stored)) error {
	var missing []M
	for _, m := range p.missing {
		for i := range dtype.Len(m) {
			if x, ok := inType[P, M](dtype.Slice(m, i, i+1), v.Type()); ok { // no element equals another
				missing = append(missing, x)
			}
		}
	}
	var bounds [2]*M
	later := p.boundsUnpacked()
	outer := [2]float64{math.Inf(-1), math.Inf(1)}
	for i, b := range p.valid {
		if b == nil {
			continue
		}
		if later {
			raw, t, _ := dtype.View(b)
			outer[i] = t.Float(raw)
			continue
		}
		x, ok := inType[P, M](b, v.Type())
		if !ok {
			return ncerr.Errorf(ErrConvert, "read", v.Path(), "a bound of the valid range, %v, is not of type %s", first(b), v.Type())
		}
		bounds[i] = &x
	}
	data, err := nczarr.Get[P](ctx, v.core, sel.Selection)
	if err != nil {
		return err
	}
	room(int64(len(data)))
	for i, stands := range data {
		x := M(stands)
		s := stored{float: float64(x), int: int64(x)}
		for _, m := range missing {
			s.missing = s.missing || x == m
		}
		s.missing = s.missing || bounds[0] != nil && x < *bounds[0] || bounds[1] != nil && x > *bounds[1]
		if later {
			y := p.apply(s.float)
			s.missing = s.missing || y < outer[0] || y > outer[1]
		}
		f(i, s)
	}
	return nil
}

// inType converts the only number of a slice to the stored type t, whose Go type
// is P, and gives it its meaning. It is false if t does not have it.
func inType[P, M number](slice any, t Type) (M, bool) {
	if same, ok := exact(slice, t); ok {
		return M(same.([]P)[0]), true //nolint:forcetypeassert // P is the Go type of t
	}
	if u, ok := unsigned(t); ok { // a number that only the meaning has
		if same, ok := exact(slice, u); ok {
			x, ok := same.([]M)
			if ok {
				return x[0], true
			}
		}
	}
	return 0, false
}
