// Package delta implements the filter "delta", which replaces every element with its
// difference from the previous element. It imports core/codec/driver, core/dtype and the
// helpers in filters/internal; core/codec calls it.
//
// Integers wrap around, so they are restored exactly. Floats are summed in their own
// precision, as in numcodecs, which may change their lowest bits.
package delta

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "delta"

// Params are the parameters. Types are spelled as in NumPy.
type Params struct {
	// DType is the type of the decoded elements. The default is the type of the array.
	DType string `json:"dtype"`
	// AsType is the type of the encoded elements. The default is DType.
	AsType string `json:"astype,omitempty"`
}

// Codec encodes and decodes differences. It is safe for concurrent use.
type Codec struct{ plain, coded dtype.Type }

var _ driver.Codec = (*Codec)(nil)

// New returns a codec that stores the differences of elements of type plain as type
// coded. Both must be numeric.
func New(plain, coded dtype.Type) (*Codec, error) {
	if !plain.Numeric() || !coded.Numeric() {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "differences of %v cannot be stored as %v", plain, coded)
	}
	return &Codec{plain, coded}, nil
}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.delta", Encode: true, Decode: true, Lossy: true, // sums of floats are rounded
			Summary: "differences between neighboring elements", LossNote: "low bits of floats", Transform: driver.ArrayToArray,
			Params: []driver.Param{
				{Name: "dtype", Type: driver.DTypeParam, Input: driver.InputType, Doc: "type of the decoded elements; default: the type of the array"},
				{Name: "astype", Type: driver.DTypeParam, Doc: "type of the encoded elements; default: dtype"},
			},
		},
		OpenAs: open,
	}
}

func open(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
	plain := filter.DType(p, "dtype", in.DType)
	coded := filter.DType(p, "astype", plain)
	c, err := New(plain, coded)
	if err != nil {
		return nil, driver.Spec{}, err
	}
	out, err := filter.Elements(in, plain, coded)
	if err == nil {
		out, err = filter.Flat(out)
	}
	return c, out, err
}

// Encode writes the first element and the differences of all others.
func (c *Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	n, err := filter.Counts(ctx, dst, src, c.coded.Size, c.plain.Size)
	if err != nil {
		return 0, err
	}
	dst = dst[:n*c.coded.Size]
	switch {
	case c.plain != c.coded || c.plain.Kind == dtype.Bool || c.plain.Kind == dtype.Float && c.plain.Size == 2:
		c.encodeAny(dst, src, n)
	case c.plain.Kind == dtype.Float && c.plain.Size == 4:
		encode32f(dst, src, order(c.plain))
	case c.plain.Kind == dtype.Float:
		encode64f(dst, src, order(c.plain))
	default:
		encodeInt(dst, src, c.plain.Size, order(c.plain))
	}
	return len(dst), nil
}

// Decode sums the differences.
func (c *Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	n, err := filter.Counts(ctx, dst, src, c.plain.Size, c.coded.Size)
	if err != nil {
		return 0, err
	}
	dst = dst[:n*c.plain.Size]
	switch {
	case c.plain != c.coded && (c.plain.Kind == dtype.Float || c.coded.Kind == dtype.Float):
		c.decodeWide(dst, src, n)
	case c.plain != c.coded || c.plain.Kind == dtype.Bool || c.plain.Kind == dtype.Float && c.plain.Size == 2:
		c.decodeAny(dst, src, n)
	case c.plain.Kind == dtype.Float && c.plain.Size == 4:
		decode32f(dst, src, order(c.plain))
	case c.plain.Kind == dtype.Float:
		decode64f(dst, src, order(c.plain))
	default:
		decodeInt(dst, src, c.plain.Size, order(c.plain))
	}
	return len(dst), nil
}

// encodeAny encodes any pair of types. It computes a difference in the plain type and
// then converts it.
func (c *Codec) encodeAny(dst, src []byte, n int) {
	var before, diff [8]byte
	for i := range n {
		e := src[i*c.plain.Size:][:c.plain.Size]
		c.combine(diff[:], e, before[:], -1)
		if i == 0 {
			copy(diff[:], e)
		}
		cast(c.coded, dst[i*c.coded.Size:], c.plain, diff[:])
		copy(before[:], e)
	}
}

func (c *Codec) decodeAny(dst, src []byte, n int) {
	var sum, diff [8]byte
	for i := range n {
		cast(c.plain, diff[:], c.coded, src[i*c.coded.Size:])
		if i == 0 {
			sum = diff
		} else {
			c.combine(sum[:], sum[:], diff[:], 1)
		}
		copy(dst[i*c.plain.Size:][:c.plain.Size], sum[:])
	}
}

// decodeWide sums in the float type that holds both types, and rounds only the stored
// elements.
//
// Source: NumPy, cumsum with an output of another type.
func (c *Codec) decodeWide(dst, src []byte, n int) {
	wide := dtype.Type{Kind: dtype.Float, Size: max(floatSize(c.plain), floatSize(c.coded)), Order: dtype.Little}
	var acc [8]byte
	for i := range n {
		x := c.coded.Float(src[i*c.coded.Size:])
		if i > 0 {
			x += wide.Float(acc[:])
		}
		wide.PutFloat(acc[:], x)
		c.store(dst[i*c.plain.Size:], wide.Float(acc[:]))
	}
}

// store stores a sum as the plain type. Integers wrap around, because their differences
// do.
func (c *Codec) store(dst []byte, sum float64) {
	v := math.Mod(math.Trunc(sum), 1<<64)
	switch {
	case c.plain.Kind == dtype.Float || c.plain.Kind == dtype.Bool || v != v: // NaN
		c.plain.PutFloat(dst, sum)
	case math.Abs(v) < 1<<63:
		c.plain.PutBits(dst, uint64(int64(v)))
	case v < 0:
		c.plain.PutBits(dst, -uint64(-v))
	default:
		c.plain.PutBits(dst, uint64(v))
	}
}

// floatSize returns the size in bytes of the float that NumPy promotes t to.
func floatSize(t dtype.Type) int {
	if t.Kind == dtype.Float || t.Kind == dtype.Bool {
		return max(t.Size, 2)
	}
	return min(2*t.Size, 8)
}

// combine stores a+b or a-b in out, depending on sign. For bool it stores the exclusive
// or in both cases.
func (c *Codec) combine(out, a, b []byte, sign int) {
	t := c.plain
	switch {
	case t.Kind == dtype.Bool:
		out[0] = a[0] ^ b[0]
	case t.Kind == dtype.Float:
		t.PutFloat(out, t.Float(a)+float64(sign)*t.Float(b))
	default:
		t.PutBits(out, uint64(t.Int(a)+int64(sign)*t.Int(b)))
	}
}

// cast converts the element of type from at src to type to at dst, as NumPy's astype
// does. It truncates bits that do not fit in an integer.
func cast(to dtype.Type, dst []byte, from dtype.Type, src []byte) {
	switch {
	case to == from:
		copy(dst[:to.Size], src)
	case to.Kind == dtype.Float || from.Kind == dtype.Float:
		to.PutFloat(dst, from.Float(src))
	case to.Kind == dtype.Bool:
		to.PutBits(dst, min(from.Bits(src), 1))
	default:
		to.PutBits(dst, uint64(from.Int(src)))
	}
}

func order(t dtype.Type) binary.ByteOrder {
	if t.Order == dtype.Big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// The loops below have one case per size, so that the element stays in a register. The
// common byte order has its own cases, which the compiler turns into single loads and
// stores.

func encodeInt(dst, src []byte, size int, o binary.ByteOrder) {
	switch {
	case size == 1:
		var before byte
		for i, v := range src {
			dst[i], before = v-before, v
		}
	case size == 2:
		var before uint16
		for i := 0; i+2 <= len(src); i += 2 {
			v := o.Uint16(src[i:])
			o.PutUint16(dst[i:], v-before)
			before = v
		}
	case size == 4 && o == binary.LittleEndian:
		var before uint32
		for i := 0; i+4 <= len(src); i += 4 {
			v := binary.LittleEndian.Uint32(src[i:])
			binary.LittleEndian.PutUint32(dst[i:], v-before)
			before = v
		}
	case size == 4:
		var before uint32
		for i := 0; i+4 <= len(src); i += 4 {
			v := o.Uint32(src[i:])
			o.PutUint32(dst[i:], v-before)
			before = v
		}
	default:
		var before uint64
		for i := 0; i+8 <= len(src); i += 8 {
			v := o.Uint64(src[i:])
			o.PutUint64(dst[i:], v-before)
			before = v
		}
	}
}

func decodeInt(dst, src []byte, size int, o binary.ByteOrder) {
	switch {
	case size == 1:
		var sum byte
		for i, v := range src {
			sum += v
			dst[i] = sum
		}
	case size == 2 && o == binary.LittleEndian:
		var sum uint16
		for i := 0; i+2 <= len(src); i += 2 {
			sum += binary.LittleEndian.Uint16(src[i:])
			binary.LittleEndian.PutUint16(dst[i:], sum)
		}
	case size == 2:
		var sum uint16
		for i := 0; i+2 <= len(src); i += 2 {
			sum += o.Uint16(src[i:])
			o.PutUint16(dst[i:], sum)
		}
	case size == 4 && o == binary.LittleEndian:
		var sum uint32
		for i := 0; i+4 <= len(src); i += 4 {
			sum += binary.LittleEndian.Uint32(src[i:])
			binary.LittleEndian.PutUint32(dst[i:], sum)
		}
	case size == 4:
		var sum uint32
		for i := 0; i+4 <= len(src); i += 4 {
			sum += o.Uint32(src[i:])
			o.PutUint32(dst[i:], sum)
		}
	default:
		var sum uint64
		for i := 0; i+8 <= len(src); i += 8 {
			sum += o.Uint64(src[i:])
			o.PutUint64(dst[i:], sum)
		}
	}
}

// The functions below copy the first element instead of summing it, so that a negative
// zero is kept.

func encode32f(dst, src []byte, o binary.ByteOrder) {
	copy(dst, src[:min(4, len(src))])
	for i := 4; i+4 <= len(src); i += 4 {
		d := math.Float32frombits(o.Uint32(src[i:])) - math.Float32frombits(o.Uint32(src[i-4:]))
		o.PutUint32(dst[i:], math.Float32bits(d))
	}
}

func decode32f(dst, src []byte, o binary.ByteOrder) {
	copy(dst, src[:min(4, len(src))])
	for i := 4; i+4 <= len(src); i += 4 {
		sum := math.Float32frombits(o.Uint32(dst[i-4:])) + math.Float32frombits(o.Uint32(src[i:]))
		o.PutUint32(dst[i:], math.Float32bits(sum))
	}
}

func encode64f(dst, src []byte, o binary.ByteOrder) {
	copy(dst, src[:min(8, len(src))])
	for i := 8; i+8 <= len(src); i += 8 {
		d := math.Float64frombits(o.Uint64(src[i:])) - math.Float64frombits(o.Uint64(src[i-8:]))
		o.PutUint64(dst[i:], math.Float64bits(d))
	}
}

func decode64f(dst, src []byte, o binary.ByteOrder) {
	copy(dst, src[:min(8, len(src))])
	for i := 8; i+8 <= len(src); i += 8 {
		sum := math.Float64frombits(o.Uint64(dst[i-8:])) + math.Float64frombits(o.Uint64(src[i:]))
		o.PutUint64(dst[i:], math.Float64bits(sum))
	}
}
