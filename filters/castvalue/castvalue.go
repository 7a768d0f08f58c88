// Package castvalue implements the filter "cast_value" of Zarr v3, which stores numbers as
// another type. Parameters determine rounding, what happens to values out of range, and
// single values that map to other values. It imports core/codec/driver, core/dtype and
// filters/internal/filter; core/codec calls it.
//
// Source: zarr-extensions, "cast_value".
package castvalue

import (
	"context"
	"math"
	"math/big"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the Zarr v3 name.
const ID = "cast_value"

// Codec casts numbers. It is safe for concurrent use. Encode fails with ncerr.ErrConvert
// and Decode with ncerr.ErrCorrupt for a value that the other type cannot represent.
type Codec struct {
	plain, coded   dtype.Type
	rule           rule
	encode, decode table
}

var _ driver.Codec = (*Codec)(nil)

// rule determines what happens to values that a type cannot represent.
type rule struct {
	round string // a rounding mode
	over  string // clamp, wrap or error
}

// The names of rounding modes, and of what happens to values out of range. failing is the
// name that the parameter has if it is absent.
const (
	nearestEven     = "nearest-even"
	nearestAway     = "nearest-away"
	towardsZero     = "towards-zero"
	towardsPositive = "towards-positive"
	towardsNegative = "towards-negative"

	clamp = "clamp"
	wrap  = "wrap"
)

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: ID, Encode: true, Decode: true, Lossy: true,
			Summary: "numbers stored as another type; only in Zarr v3", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "data_type", Type: driver.DTypeParam, Required: true, Doc: "type of the encoded elements"},
				{Name: "rounding", Type: driver.TextParam, Default: nearestEven, Choices: []string{nearestEven, nearestAway, towardsZero, towardsPositive, towardsNegative}, Doc: "how values are rounded, also when they are decoded"},
				{Name: "out_of_range", Type: driver.TextParam, Choices: []string{clamp, wrap}, Doc: "what happens to values out of range; default: an error"},
				{Name: "scalar_map", Type: driver.ObjectParam, Doc: "lists of pairs, encode and decode: values and what they become instead"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c := &Codec{plain: in.DType, coded: filter.DType(p, "data_type", in.DType), rule: rule{p.Text("rounding"), p.Text("out_of_range")}}
	if !isNumber(c.plain) || !isNumber(c.coded) {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "elements of %v cannot be cast to %v; only integers and floats can be cast", c.plain, c.coded)
	}
	if c.rule.over == wrap && c.coded.Kind == dtype.Float {
		p.Fail("out_of_range", "values of %v cannot be wrapped", c.coded)
	}
	var pairs scalarMap
	p.List("scalar_map", &pairs)
	if err := p.Err(); err != nil {
		return nil, driver.Spec{}, err
	}
	var err error
	if c.encode, err = newTable(pairs.Encode, c.plain, c.coded); err == nil {
		c.decode, err = newTable(pairs.Decode, c.coded, c.plain)
	}
	if err != nil {
		return nil, driver.Spec{}, err
	}
	out, err := filter.Elements(in, c.plain, c.coded)
	return c, out, err
}

// isNumber reports whether t is an integer or a float.
func isNumber(t dtype.Type) bool {
	return t.Kind == dtype.Int || t.Kind == dtype.Uint || t.Kind == dtype.Float
}

// Encode casts src to the encoded type.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return c.cast(ctx, dst, c.coded, src, c.plain, c.encode, filter.EncodeError)
}

// Decode casts src to the decoded type with the same rules.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return c.cast(ctx, dst, c.plain, src, c.coded, c.decode, filter.DecodeError)
}

func (c *Codec) cast(ctx context.Context, dst []byte, to dtype.Type, src []byte, from dtype.Type, t table, bad func([]byte, dtype.Type, int, dtype.Type) error) (int, error) {
	n, err := filter.Counts(ctx, dst, src, to.Size, from.Size)
	if err != nil {
		return 0, err
	}
	for i := range n {
		v := numberAt(from, src[i*from.Size:])
		bits, ok := t.find(v)
		if ok {
			to.PutBits(dst[i*to.Size:], bits)
		} else if !c.rule.put(to, dst[i*to.Size:], v) {
			return 0, bad(src, from, i, to)
		}
	}
	return n * to.Size, nil
}

// number is a value of any numeric type: a float, or an integer with a sign and a
// magnitude.
type number struct {
	isFloat   bool
	float     float64
	negative  bool
	magnitude uint64
}

// numberAt returns the element of type t at the start of e.
func numberAt(t dtype.Type, e []byte) number {
	switch t.Kind {
	case dtype.Float:
		return number{isFloat: true, float: t.Float(e)}
	case dtype.Uint:
		return number{magnitude: t.Bits(e)}
	}
	i := t.Int(e)
	if i < 0 {
		return number{negative: true, magnitude: -uint64(i)}
	}
	return number{magnitude: uint64(i)}
}

// put stores v as an element of type t. It returns false if t cannot represent v.
func (r rule) put(t dtype.Type, e []byte, v number) bool {
	if t.Kind == dtype.Float {
		return r.putFloat(t, e, v)
	}
	beyond := false // the magnitude does not fit in 64 bits
	if v.isFloat {
		if math.IsNaN(v.float) || math.IsInf(v.float, 0) {
			return false
		}
		whole := r.whole(v.float)
		v.negative = whole < 0
		if whole = math.Abs(whole); whole >= 1<<64 {
			beyond, whole = true, math.Mod(whole, 1<<64)
		}
		v.magnitude = uint64(whole)
	}
	n := 8 * uint(t.Size)
	least, most := uint64(0), uint64(math.MaxUint64)>>(64-n) // magnitudes of the limits of t
	if t.Kind == dtype.Int {
		least, most = 1<<(n-1), most>>1
	}
	limit := most
	if v.negative {
		limit = least
	}
	if beyond || v.magnitude > limit {
		switch r.over {
		case clamp:
			v.magnitude = limit
		case wrap:
		default:
			return false
		}
	}
	if v.negative {
		v.magnitude = -v.magnitude
	}
	t.PutBits(e, v.magnitude)
	return true
}

// whole rounds f to an integer.
func (r rule) whole(f float64) float64 {
	switch r.round {
	case nearestAway:
		return math.Round(f)
	case towardsZero:
		return math.Trunc(f)
	case towardsPositive:
		return math.Ceil(f)
	case towardsNegative:
		return math.Floor(f)
	}
	return math.RoundToEven(f)
}

// precision is the number of significant bits of a float type, the exponent of its
// smallest normal value, and the exponent of the first power of two beyond its range.
type precision struct{ bits, least, beyond int }

var precisions = map[int]precision{2: {11, -14, 16}, 4: {24, -126, 128}, 8: {53, -1022, 1024}}

var bigModes = map[string]big.RoundingMode{
	nearestEven: big.ToNearestEven, nearestAway: big.ToNearestAway, towardsZero: big.ToZero, towardsPositive: big.ToPositiveInf, towardsNegative: big.ToNegativeInf,
}

func (r rule) putFloat(t dtype.Type, e []byte, v number) bool {
	p := precisions[t.Size]
	f := v.float
	switch {
	case !v.isFloat && v.magnitude < 1<<53:
		f = float64(v.magnitude)
		if v.negative {
			f = -f
		}
	case !v.isFloat: // more bits than a float64 has
		x := new(big.Float).SetInt(new(big.Int).SetUint64(v.magnitude))
		if v.negative {
			x.Neg(x)
		}
		f, _ = x.SetMode(bigModes[r.round]).SetPrec(uint(p.bits)).Float64()
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		t.PutFloat(e, f)
		return true
	}
	if t.Size < 8 {
		_, exp := math.Frexp(f)
		unit := max(exp-1, p.least) - (p.bits - 1) // exponent of the last bit of the result
		f = math.Ldexp(r.whole(math.Ldexp(f, -unit)), unit)
		if math.Abs(f) >= math.Ldexp(1, p.beyond) {
			if r.over != clamp {
				return false
			}
			f = math.Inf(int(math.Copysign(1, f)))
		}
	}
	t.PutFloat(e, f)
	return true
}
