package nczarr

import (
	"context"
	"math"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// number is the set of Go types of stored numbers.
type number interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64 | float32 | float64
}

// ReadUnpacked reads numbers as [Read] does and unpacks them: missing values become
// NaN, and other values are multiplied by scale_factor and then increased by
// add_offset, in float64.
//
// A value is missing if it equals the attribute _FillValue or one of missing_value, or
// if it lies outside valid_range or, without that attribute, outside valid_min and
// valid_max. Values are compared in the stored type, before scaling. Only a valid range
// of floats for packed integers is compared after scaling. A bound that the stored type
// cannot represent is compared in float64.
//
// Without _FillValue, the fill value of v may also mark missing values: in pure Zarr v2
// if it differs from 0, because xarray stores _FillValue only as the fill value there;
// in other datasets if it is netCDF's default for a type larger than one byte.
//
// If _Unsigned is "true", signed integers are interpreted as unsigned.
//
// Errors: those of Read, [ErrConvert] also for a number that is too large for T after
// scaling, and [ErrBadType] and [ErrInvalid] also for attributes that are not numbers
// or have a wrong number of values.
//
// Source: CF conventions 1.11, sections 2.5.1 and 8.1; NetCDF Users' Guide, "Attribute
// Conventions".
func ReadUnpacked[T float32 | float64](ctx context.Context, v *Var, selectors ...Selector) (Array[T], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[T]{}, err
	}
	a := Array[T]{Shape: sel.shape, Dims: sel.dims}
	p, err := v.packing()
	if err == nil {
		a.Data, err = dataset.Allocate[T](v.core, sel.Selection)
	}
	if err != nil {
		return Array[T]{}, wrapError("read", v.Path(), err)
	}
	err = p.elements().read(ctx, v, sel, func(from int, list []stored) error {
		for i, x := range list {
			y := math.NaN()
			if !x.missing {
				y = p.apply(x.float)
			}
			z := T(y)
			if math.IsInf(float64(z), 0) && !math.IsInf(y, 0) {
				return ncerr.Errorf(ErrConvert, "", "", "value %d is %v, which is too large for %T", from+i, y, z)
			}
			a.Data[from+i] = z
		}
		return nil
	})
	if err != nil {
		return Array[T]{}, wrapError("read", v.Path(), err)
	}
	return a, nil
}

// WriteUnpacked packs numbers and writes them as [Write] does. It reverses
// [ReadUnpacked]: it subtracts add_offset, divides by scale_factor and, for integers,
// rounds to the nearest integer, half to even. NaN becomes _FillValue, or else
// missing_value, or else the fill value if ReadUnpacked treats it as missing. Without
// such a value, variables of floats store NaN.
//
// Errors: those of Write, and [ErrConvert] also for NaN in a variable of integers that
// has no value for missing elements, and for a number that would read back as missing.
func WriteUnpacked[T float32 | float64](ctx context.Context, v *Var, values []T, selectors ...Selector) error {
	sel, err := v.pick(ctx, "write", selectors)
	if err != nil {
		return err
	}
	p, err := v.packing()
	if err != nil {
		return wrapError("write", v.Path(), err)
	}
	return p.elements().write(ctx, v, sel, len(values), func(i int) stored {
		x := float64(values[i])
		return stored{float: (x - p.offset) / p.scale, missing: math.IsNaN(x)}
	})
}

// packing describes how attributes define the meaning of stored numbers.
type packing struct {
	typ           Type
	scale, offset float64
	packed        bool   // scale_factor or add_offset exists
	unsigned      bool   // signed integers are interpreted as unsigned
	missing       []any  // numbers that mark missing values: one slice per attribute, or the fill value
	valid         [2]any // minimum and maximum: slices of length 1, or nil
}

// boundsUnpacked reports whether the valid range applies after unpacking: for packed
// integers with bounds that are floats. CF does not define such a range; the netCDF
// Users' Guide does.
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
		return nil, ncerr.Errorf(ErrBadType, "", "", "a variable of type %s does not contain numbers", v.Type())
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
		err = ncerr.Errorf(ErrInvalid, "read attribute", "scale_factor", "the value %v is zero or not finite", p.scale)
	}
	if err == nil && (math.IsNaN(p.offset) || math.IsInf(p.offset, 0)) {
		err = ncerr.Errorf(ErrInvalid, "read attribute", "add_offset", "the value %v is not finite", p.offset)
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
			err = ncerr.Errorf(ErrInvalid, "read attribute", name, "the attribute has %d values, not %d", dtype.Len(slice), n)
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
	if _, signed := unsigned(v.Type()); signed && strings.EqualFold(v.Attr("_Unsigned").String(), "true") {
		p.unsigned = true
	}
	return p, err
}

// fillIsMissing reports whether elements that equal the fill value are missing in a
// variable without _FillValue.
func (v *Var) fillIsMissing(fill any) bool {
	if v.core.Group().Dataset().Layout() == zarr.LayoutPure {
		raw, t, _ := dtype.View(fill)
		return t.Float(raw) != 0
	}
	return v.Type().Size() > 1 && first(fill) == first(dtype.DefaultFill(v.Type()))
}

// unsigned returns the unsigned type of the same size as a signed one. It returns false
// for other types.
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

// apply unpacks a number. The explicit conversion prevents a fused multiply-add, whose
// rounding would differ between machines.
func (p *packing) apply(x float64) float64 { return float64(x*p.scale) + p.offset }

// integer reports whether stored numbers are integers.
func (p *packing) integer() bool { return p.typ != Float32 && p.typ != Float64 }

// stored is a stored number. float is its value, rounded if necessary. int is its exact
// value if whole is set.
type stored struct {
	float          float64
	int            int64
	whole, missing bool
}

// elements reads and writes the numbers of variables of one type.
type elements interface {
	// read reads the selection of v. It calls f with consecutive parts of the numbers.
	read(ctx context.Context, v *Var, sel selection, f func(from int, list []stored) error) error
	// write writes the n numbers that f returns.
	write(ctx context.Context, v *Var, sel selection, n int, f func(i int) stored) error
}

func (p *packing) elements() elements {
	switch p.typ {
	case Int8:
		if p.unsigned {
			return elementsOf[int8, uint8](p)
		}
		return elementsOf[int8, int8](p)
	case Int16:
		if p.unsigned {
			return elementsOf[int16, uint16](p)
		}
		return elementsOf[int16, int16](p)
	case Int32:
		if p.unsigned {
			return elementsOf[int32, uint32](p)
		}
		return elementsOf[int32, int32](p)
	case Int64:
		if p.unsigned {
			return elementsOf[int64, uint64](p)
		}
		return elementsOf[int64, int64](p)
	case Uint8:
		return elementsOf[uint8, uint8](p)
	case Uint16:
		return elementsOf[uint16, uint16](p)
	case Uint32:
		return elementsOf[uint32, uint32](p)
	case Uint64:
		return elementsOf[uint64, uint64](p)
	case Float32:
		return elementsOf[float32, float32](p)
	}
	return elementsOf[float64, float64](p)
}

// typed reads and writes elements of type P that represent numbers of type M, of the
// same size.
type typed[P, M number] struct {
	*packing
	missing         []M
	bounds          [2]*M
	floatBounds     *[2]float64 // bounds in float64, or nil
	compareUnpacked bool        // bounds are compared after unpacking
}

func elementsOf[P, M number](p *packing) *typed[P, M] {
	e := &typed[P, M]{packing: p, compareUnpacked: p.boundsUnpacked()}
	for _, m := range p.missing {
		for i := range dtype.Len(m) {
			if x, ok := inType[P, M](dtype.Slice(m, i, i+1), p.typ); ok { // skip values that no element can equal
				e.missing = append(e.missing, x)
			}
		}
	}
	for i, b := range p.valid {
		if b == nil {
			continue
		}
		if x, ok := inType[P, M](b, p.typ); ok && !e.compareUnpacked {
			e.bounds[i] = &x
			continue
		}
		if e.floatBounds == nil {
			e.floatBounds = &[2]float64{math.Inf(-1), math.Inf(1)}
		}
		raw, t, _ := dtype.View(b)
		e.floatBounds[i] = t.Float(raw)
	}
	return e
}

// part is the number of elements processed at a time.
const part = 512

func (e *typed[P, M]) read(ctx context.Context, v *Var, sel selection, f func(from int, list []stored) error) error {
	data, err := dataset.Get[P](ctx, v.core, sel.Selection)
	if err != nil {
		return err
	}
	list := make([]stored, min(part, len(data)))
	for from := 0; from < len(data); from += part {
		in := data[from:min(from+part, len(data))]
		e.mark(list, in)
		if err := f(from, list[:len(in)]); err != nil {
			return err
		}
	}
	return nil
}

// mark stores in out the numbers that the elements of in represent, and sets the
// missing field of those that are missing values.
func (e *typed[P, M]) mark(out []stored, in []P) {
	integer := e.integer()
	out = out[:len(in)]
	for i, x := range in {
		n := M(x)
		whole := int64(n)
		out[i] = stored{float: float64(n), int: whole, whole: integer && (whole < 0) == (n < 0)}
	}
	for _, m := range e.missing {
		for i, x := range in {
			if M(x) == m {
				out[i].missing = true
			}
		}
	}
	for i, x := range in {
		if e.bounds[0] != nil && M(x) < *e.bounds[0] || e.bounds[1] != nil && M(x) > *e.bounds[1] {
			out[i].missing = true
		}
		if e.floatBounds == nil {
			continue
		}
		y := out[i].float
		if e.compareUnpacked {
			y = e.apply(y)
		}
		out[i].missing = out[i].missing || y < e.floatBounds[0] || y > e.floatBounds[1]
	}
}

func (e *typed[P, M]) write(ctx context.Context, v *Var, sel selection, n int, f func(i int) stored) error {
	out, check := make([]P, n), make([]stored, 1)
	for i := range out {
		s := f(i)
		x, ok := e.number(s)
		out[i] = P(x)
		switch e.mark(check, out[i:i+1]); {
		case !ok && s.missing:
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "value %d is missing, and the variable has neither _FillValue nor missing_value", i)
		case !ok:
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "value %d would be stored as %v, which type %s cannot represent", i, s.float, v.Type())
		case check[0].missing && !s.missing:
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "value %d would be stored as %v, which is a missing value", i, x)
		}
	}
	return wrapError("write", v.Path(), v.core.Write(ctx, sel.Selection, out))
}

// number returns the number of type M to store for s, rounded if M is an integer type.
// It returns false if M cannot represent it.
func (e *typed[P, M]) number(s stored) (M, bool) {
	switch {
	case s.missing && len(e.missing) > 0:
		return e.missing[0], true
	case s.missing:
		return M(math.NaN()), !e.integer()
	case s.whole:
		x := M(s.int)
		return x, int64(x) == s.int && (x < 0) == (s.int < 0)
	case !e.integer():
		x := M(s.float)
		return x, !math.IsInf(float64(x), 0) || math.IsInf(s.float, 0)
	}
	low, high := 0.0, math.Ldexp(1, 8*e.typ.Size())
	if M(0)-1 < 0 {
		low, high = -high/2, high/2
	}
	y := math.RoundToEven(s.float)
	return M(y), y >= low && y < high
}

// inType converts the only number of a slice to the stored type t, whose Go type is P,
// and then to M. It returns false if neither type can represent it exactly.
func inType[P, M number](slice any, t Type) (M, bool) {
	if same, ok := exact(slice, t); ok {
		return M(same.([]P)[0]), true //nolint:forcetypeassert // P is the Go type of t
	}
	if u, ok := unsigned(t); ok { // a number in the range of M but not of P
		if same, ok := exact(slice, u); ok {
			x, ok := same.([]M)
			if ok {
				return x[0], true
			}
		}
	}
	return 0, false
}
