package dtype

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// QuantizeMode is a method of rounding floating-point values for better compression. The
// values are the same as in netCDF-C.
type QuantizeMode uint8

// The modes.
//
// Source: netcdf-c include/netcdf.h, NC_QUANTIZE_BITGROOM and related
// constants.
const (
	QuantizeNone     QuantizeMode = iota
	BitGroom                      // alternately clear and set the last bits of values; precision in decimal digits
	GranularBitRound              // round each value to the bits that its decimal digits require
	BitRound                      // round to a number of explicit mantissa bits
)

// quantizeAttrs are the attribute names of the modes.
var quantizeAttrs = [...]string{
	"", "_QuantizeBitGroomNumberOfSignificantDigits", "_QuantizeGranularBitRoundNumberOfSignificantDigits", "_QuantizeBitRoundNumberOfSignificantBits",
}

// Attr returns the name of the attribute that marks a variable quantized in mode m. The
// attribute has type int and holds the number of digits or bits. Attr returns "" for
// QuantizeNone.
func (m QuantizeMode) Attr() string {
	if int(m) < len(quantizeAttrs) {
		return quantizeAttrs[m]
	}
	return ""
}

// Quantization describes how values are rounded when they are written. The zero
// Quantization does not change values.
type Quantization struct {
	Mode QuantizeMode
	// Digits is the number of significant decimal digits to keep, 1 to 6 for float and 1
	// to 15 for double. For BitRound it is the number of explicit mantissa bits to keep,
	// 1 to 23 for float and 1 to 52 for double.
	Digits int
}

// Check returns an error if q cannot be applied to values of type nc: ncerr.ErrBadType
// for types other than float and double, ncerr.ErrInvalid for an unknown mode or a
// number of digits out of range.
//
// Source: netcdf-c nc_def_var_quantize. Versions before 4.10 also accepted 7 digits for
// float, for which BitGroom has no bits to change.
func (q Quantization) Check(nc NC) error {
	if q == (Quantization{}) {
		return nil
	}
	if q.Mode.Attr() == "" {
		return ncerr.Errorf(ncerr.ErrInvalid, "quantize", "", "unknown mode %d", q.Mode)
	}
	most := map[NC]int{NCFloat: 6, NCDouble: 15}[nc]
	if q.Mode == BitRound {
		most = map[NC]int{NCFloat: floatBits, NCDouble: doubleBits}[nc]
	}
	if most == 0 {
		return ncerr.Errorf(ncerr.ErrBadType, "quantize", "", "only float and double can be quantized, not %s", nc)
	}
	if q.Digits < 1 || q.Digits > most {
		return ncerr.Errorf(ncerr.ErrInvalid, "quantize", "", "%s: %d is not between 1 and %d for type %s", q.Mode.Attr(), q.Digits, most, nc)
	}
	return nil
}

// The numbers of explicit mantissa bits.
const (
	floatBits  = 23
	doubleBits = 52
)

// Quantize rounds the values of slice, a []float32 or []float64, in place. Values that
// equal fill, zeros and NaNs keep their bits. A nil fill means the default fill value.
// BitGroom alternates between two ways of rounding, starting with the first value of
// the slice.
//
// The result is the same as in netCDF-C, with two exceptions where netCDF-C damages
// values: infinities stay infinite, and a finite value that would be rounded to infinity
// is truncated instead. The errors are the same as for Check.
//
// Source: netcdf-c libsrc4/nc4var.c, nc4_convert_type.
func (q Quantization) Quantize(slice, fill any) error {
	nc, _ := TypeOf(slice)
	if err := q.Check(nc); err != nil || q.Mode == QuantizeNone {
		return err
	}
	if fill == nil {
		fill = DefaultFill(nc)
	}
	switch s := slice.(type) {
	case []float32:
		f, ok := fill.([]float32)
		if !ok || len(f) != 1 {
			return badType("quantize", nc.Type(Native), fill)
		}
		q.floats(s, f[0])
	case []float64:
		f, ok := fill.([]float64)
		if !ok || len(f) != 1 {
			return badType("quantize", nc.Type(Native), fill)
		}
		q.doubles(s, f[0])
	}
	return nil
}

func (q Quantization) floats(s []float32, fill float32) {
	kept := q.bits()
	for i, v := range s {
		if v == fill || v == 0 || math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			continue
		}
		if q.Mode == GranularBitRound {
			kept = granularBits(float64(v), q.Digits)
		}
		low := uint32(1)<<max(floatBits-kept, 0) - 1
		s[i] = math.Float32frombits(quantizeBits(q.Mode, i, math.Float32bits(v), low, 0xff<<23))
	}
}

func (q Quantization) doubles(s []float64, fill float64) {
	kept := q.bits()
	for i, v := range s {
		if v == fill || v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if q.Mode == GranularBitRound {
			kept = granularBits(v, q.Digits)
		}
		low := uint64(1)<<max(doubleBits-kept, 0) - 1
		s[i] = math.Float64frombits(quantizeBits(q.Mode, i, math.Float64bits(v), low, 0x7ff<<52))
	}
}

// quantizeBits returns the quantized bits of value i, whose bits are b. low is the mask
// of the bits to discard. BitGroom clears these bits in values with an even index and
// sets them in the others. The other modes round, but truncate a value that would become
// infinite.
func quantizeBits[U uint32 | uint64](mode QuantizeMode, i int, b, low, infinity U) U {
	switch {
	case mode == BitGroom && i%2 == 1:
		return b | low
	case mode != BitGroom:
		if r := (b + (low+1)>>1) &^ low; r<<1 < infinity<<1 {
			return r
		}
	}
	return b &^ low
}

// bits returns the number of explicit bits that BitGroom and BitRound keep.
// GranularBitRound keeps a different number for each value.
func (q Quantization) bits() int {
	if q.Mode == BitGroom {
		return int(math.Ceil(float64(q.Digits)*bitsPerDigit)) + 1
	}
	return q.Digits
}

// bitsPerDigit and digitsPerBit are computed from variables, because Go evaluates
// constants exactly, which rounds differently from C.
var (
	ln2, ln10    float64 = math.Ln2, math.Ln10
	bitsPerDigit         = ln10 / ln2
	digitsPerBit         = ln2 / ln10
)

// granularBits returns the number of explicit bits that v needs for nsd significant
// digits. The result depends on two logarithms that are rounded down to integers. If one
// of them is close to an integer, granularBits computes the logarithm of the mantissa
// with more precision and rounds it as C libraries do.
//
// Source: Delaunay, Gressier and others (2019), doi 10.5194/gmd-12-4099-2019, equations 7
// and 8, as implemented by netcdf-c.
func granularBits(v float64, nsd int) int {
	mantissa, exp := math.Frexp(math.Abs(v))
	log := math.Log(mantissa)
	const lg = 1 / math.Ln10
	a := float64(float64(exp)*digitsPerBit) + float64(lg*log)
	b := float64(exp) - float64(bitsPerDigit*float64(lg*log))
	if closeToInteger(a) || closeToInteger(b) {
		log = logRounded(mantissa)
		a = float64(float64(exp)*digitsPerBit) + float64(lg*log)
		b = float64(exp) - float64(bitsPerDigit*float64(lg*log))
	}
	power := math.Floor(bitsPerDigit * (math.Floor(a) + 1 - float64(nsd)))
	return int(math.Abs(math.Floor(b)-power)) - 1
}

// closeToInteger reports whether x is so close to an integer that the error of math.Log
// could change the result of rounding x down.
func closeToInteger(x float64) bool { return math.Abs(x-math.RoundToEven(x)) < 1e-9 }

// logRounded returns the natural logarithm of x, which is between 0.5 and 1, rounded to
// the nearest double. It evaluates the series of the inverse hyperbolic tangent in
// double-double arithmetic.
func logRounded(x float64) float64 {
	s := pair{x - 1, 0}.div(sum(x, 1))
	square := s.mul(s)
	term, total := s, s
	for k := 3.0; k < 80; k += 2 {
		term = term.mul(square)
		total = total.add(term.div(pair{k, 0}))
	}
	return 2*total.hi + 2*total.lo
}

// pair is the unevaluated sum of two doubles.
type pair struct{ hi, lo float64 }

// sum returns a+b exactly.
func sum(a, b float64) pair {
	s := a + b
	t := s - a
	return pair{s, (a - (s - t)) + (b - t)}
}

func (p pair) add(q pair) pair {
	s := sum(p.hi, q.hi)
	return sum(s.hi, s.lo+p.lo+q.lo)
}

func (p pair) mul(q pair) pair {
	h := p.hi * q.hi
	return sum(h, math.FMA(p.hi, q.hi, -h)+(float64(p.hi*q.lo)+float64(p.lo*q.hi)))
}

func (p pair) div(q pair) pair {
	h := p.hi / q.hi
	rest := math.FMA(-h, q.hi, p.hi) + p.lo - float64(h*q.lo)
	return sum(h, rest/q.hi)
}
