package codecsuite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func describe(t conformance.T, e *Env) {
	switch d := e.target.description(); {
	case d.ID == "":
		t.Errorf("the provider does not describe %q", e.target.ID)
	case d.Summary == "" || !d.Encode && !d.Decode:
		t.Errorf("the description of %q has no summary or no direction: %+v", d.ID, d)
	default:
		if err := d.Check(); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func unknown(t conformance.T, e *Env) {
	for _, id := range []string{"no-such-codec", "", e.target.ID + "x"} {
		c := e.first(t, 100)
		_, _, err := e.target.Provider.Open(id, nil, c.in)
		if ncerr.KindOf(err) != ncerr.ErrNoFilter {
			t.Errorf("id %q: want ErrNoFilter, got %s", id, outcome(err))
		}
	}
}

func invalid(t conformance.T, e *Env) {
	c := e.first(t, 100)
	for _, p := range e.target.Invalid {
		if _, _, err := e.target.Provider.Open(e.target.ID, p, c.in); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("parameters %s: want ErrInvalid, got %s", p, outcome(err))
		}
	}
}

func notJSON(t conformance.T, e *Env) {
	c := e.first(t, 100)
	for _, p := range []string{"[]", "{", "3", `"text"`, "\x00"} {
		if _, _, err := e.target.Provider.Open(e.target.ID, json.RawMessage(p), c.in); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("parameters %q: want ErrInvalid, got %s", p, outcome(err))
		}
	}
}

// kinds opens the codec for common and rare types and shapes, and for blobs.
func kinds(t conformance.T, e *Env) {
	var types []dtype.Type
	for _, s := range []string{"|u1", "<i1", "<u2", ">u4", ">f2", "<c8", "<c16", "|S5", "|S20", "<U3", ">U3", "|V7", "|V1", "<m8[ns]", ">M8[D]", "|b1"} {
		typ, err := dtype.Parse(s)
		if err != nil {
			t.Fatalf("%v", err)
		}
		types = append(types, typ)
	}
	if t.Effort() == conformance.Brief {
		types = types[:4]
	}
	d := e.target.description()
	for _, p := range e.params {
		for _, typ := range append(types, e.types...) {
			n := 70
			if typ.Size > 8 { // more elements, so that runs are long
				n = 700
			}
			size, taken := room(typ, n), false
			for _, in := range []driver.Spec{
				{DType: typ, Shape: []int{n}, MaxBytes: size},
				{DType: typ, MaxBytes: room(typ, 1)}, // scalar
				{DType: typ, Shape: []int{7, n / 7}, MaxBytes: size},
				{DType: typ, Shape: []int{7, n / 7}, Order: driver.F, MaxBytes: size},
				{DType: typ, Shape: []int{1, n, 1}, MaxBytes: size},
				{Kind: driver.Blob, DType: typ, MaxBytes: size},
				{Kind: driver.Blob, MaxBytes: size},
			} {
				shape, elements := slices.Clone(in.Shape), n
				if in.Kind == driver.Array && len(shape) == 0 {
					elements = 1
				}
				c, err := e.tryOpen(p, in)
				if !slices.Equal(shape, in.Shape) {
					t.Errorf("open %s for %s changes the given shape to %v", p, describeSpec(driver.Spec{DType: typ, Shape: shape}), in.Shape)
				}
				switch kind := ncerr.KindOf(err); {
				case err == nil:
					taken = true
				case kind == ncerr.ErrInvalid && !taken: // the parameters might not fit the type
				case kind != ncerr.ErrUnsupported:
					t.Errorf("open %s for %s: want a codec or ErrUnsupported, got %v", p, describeSpec(in), err)
				}
				if err == nil && in.Kind == driver.Array && !typ.Fixed() && d.Objects == driver.NoObjects && (d.Transform == driver.ArrayToBytes || d.Transform == driver.ArrayToArray) {
					t.Errorf("open %s for %s succeeds, but the codec is described without Objects", p, describeSpec(in))
				}
				if err == nil && c.out.MaxBytes < 0 {
					t.Errorf("open %s for %s: the output has a negative MaxBytes, %d", p, describeSpec(in), c.out.MaxBytes)
				} else if err == nil {
					c.survives(t, data(typ, elements, "smooth", t.Seed()))
					if in.Kind == driver.Array && len(shape) == 1 {
						c.survives(t, data(typ, elements, "signs", t.Seed()))
					}
				}
			}
		}
	}
}

// survives checks that src survives a round trip, unless the codec refuses its values.
// The previous content of the output buffers must not matter.
func (c *opened) survives(t conformance.T, src []byte) {
	enc, err := c.tryEncode(t, src)
	switch kind := ncerr.KindOf(err); {
	case err == nil:
		c.encodeAgain(t, src, enc)
		if !c.lossy {
			c.checkDecode(t, enc, src, len(src))
		}
	case errors.Is(err, errPanic), !c.lossy && kind != ncerr.ErrConvert && kind != ncerr.ErrInvalid:
		t.Errorf("encode %s with %s: %v", describeSpec(c.in), c.params, err)
	}
}

// forms opens the codec with each of its names and with other spellings of its parameters.
func forms(t conformance.T, e *Env) {
	in := e.first(t, 100).in
	src := data(in.DType, 100, "smooth", t.Seed())
	same := func(a, b json.RawMessage) { e.same(t, in, src, a, b) }
	same(json.RawMessage(`{}`), nil)
	d := e.target.description()
	for _, name := range d.Names() {
		if _, _, err := e.target.Provider.Open(name, e.params[0], in); err != nil {
			t.Errorf("the codec is described with the name %q, but open fails: %v", name, err)
		}
	}
	for _, p := range e.params {
		all := e.members(t, p)
		same(p, all.with(t, "id", strconv.Quote(d.ID)))
		quoted := false
		for name, v := range all { // some writers quote numbers
			if _, err := strconv.ParseFloat(string(v), 64); err == nil {
				all[name], quoted = json.RawMessage(strconv.Quote(string(v))), true
			}
		}
		if quoted {
			same(p, all.with(t, "id", ""))
		}
	}
}

// survivesPartial is like survives for bytes that are not whole elements. The codec may
// refuse them, but not with ErrShortBuffer, because Open has promised a sufficient size.
func (c *opened) survivesPartial(t conformance.T, src []byte) {
	if enc, err := c.tryEncode(t, src); err == nil {
		c.checkDecode(t, enc, src, len(src))
	} else if kind := ncerr.KindOf(err); errors.Is(err, errPanic) || kind == ncerr.ErrShortBuffer {
		t.Errorf("encode %s with %s: %v", describeSpec(c.in), c.params, err)
	}
}

// outOrder encodes the same bytes as an array in order C and in order F. If the encoded
// forms are equal, the codec does not rearrange elements, so its output must have the
// order of its input.
func (e *Env) outOrder(t conformance.T, params json.RawMessage, typ dtype.Type) {
	var enc [2][]byte
	var out [2]driver.Spec
	for i, order := range []driver.Order{driver.C, driver.F} {
		in := driver.Spec{DType: typ, Shape: []int{7, 30}, Order: order, MaxBytes: room(typ, 210)}
		c, err := e.tryOpen(params, in)
		if err != nil || c.out.Kind != driver.Array || !slices.Equal(c.out.Shape, in.Shape) {
			return
		}
		enc[i], out[i] = c.encode(t, c.data(210, "noise", t.Seed())), c.out
	}
	if bytes.Equal(enc[0], enc[1]) && (out[0].Order != driver.C || out[1].Order != driver.F) {
		t.Errorf("%s of %v with %s does not reorder elements, but Open returns order %v for input in C order and %v for input in F order", e.target.ID, typ, params, out[0].Order, out[1].Order)
	}
}

// outSpec checks the Spec that Open returns against the description. If it is an array of
// fixed-size elements, it is also checked against its own fields and against the encoded
// bytes.
func outSpec(t conformance.T, e *Env) {
	d := e.target.description()
	e.each(t, 100, func(c *opened) {
		if c.in.DType.Fixed() && c.in.DType.Kind != dtype.Bool {
			e.outOrder(t, c.params, c.in.DType)
		}
		if array := d.Transform == driver.ArrayToArray; d.Transform != driver.Unstated && array != (c.out.Kind == driver.Array) {
			t.Errorf("%s is described as %s, but Open with %s for %s returns %s", e.target.ID, d.Transform, c.params, describeSpec(c.in), describeSpec(c.out))
			return
		}
		if want, known := e.outType(t, c, &d); known && c.out.DType != want {
			t.Errorf("%s is described as %s, but Open with %s for %s returns %s; want elements of %v", e.target.ID, d.Transform, c.params, describeSpec(c.in), describeSpec(c.out), want)
			return
		}
		if c.out.Kind != driver.Array || !c.out.DType.Fixed() {
			return
		}
		what := fmt.Sprintf("%s of %s with %s", e.target.ID, describeSpec(c.in), c.params)
		n, err := c.out.Elements()
		if size := int64(n) * int64(c.out.DType.Size); err != nil || c.out.DType.Kind == dtype.Invalid || c.out.MaxBytes != size {
			t.Errorf("%s: Open declares an output of %s, but MaxBytes is %d: %s", what, describeSpec(c.out), c.out.MaxBytes, outcome(err))
			return
		}
		if enc := c.encode(t, data(c.in.DType, 100, "smooth", t.Seed())); int64(len(enc)) != c.out.MaxBytes {
			t.Errorf("%s: Open declares an output of %s, but encoding returns %d bytes", what, describeSpec(c.out), len(enc))
		}
	})
}

// outType returns the element type of c's output if the description determines it: the
// value of the parameter that sets the type, or the type of the input if the codec has
// no such parameter.
func (e *Env) outType(t conformance.T, c *opened, d *driver.Description) (dtype.Type, bool) {
	switch d.Transform {
	case driver.BytesToBytes:
		return c.in.DType, c.out.DType != dtype.Type{}
	case driver.ArrayToArray:
	default:
		return dtype.Type{}, false
	}
	for _, p := range d.Params {
		if p.Type != driver.DTypeParam || p.Input != driver.NoProperty {
			continue
		}
		text := p.Default
		if v, ok := e.members(t, c.params)[p.Name]; ok {
			_ = json.Unmarshal(v, &text) // Open has accepted the value
		}
		typ, err := dtype.Parse(text)
		return typ, err == nil
	}
	before, errIn := c.in.Elements()
	after, errOut := c.out.Elements()
	return c.in.DType, errIn == nil && errOut == nil && before == after // otherwise the codec packs elements, and their type is unknown
}

// orders compares the results for the same numbers in both byte orders.
func orders(t conformance.T, e *Env) {
	const n = 300
	for _, p := range e.params {
		for _, typ := range e.allTypes {
			if typ.Order != dtype.Little || !typ.Numeric() {
				continue
			}
			var decoded, encoded [2][]byte
			var out [2]driver.Spec
			for i, order := range []dtype.Order{dtype.Little, dtype.Big} {
				in := driver.Spec{DType: typ.WithOrder(order), Shape: []int{n}, MaxBytes: room(typ, n)}
				c, err := e.tryOpen(p, in)
				if err != nil {
					break // checked by codec.open.kinds
				}
				src := data(typ, n, "fine", t.Seed())
				inOrder(src, in.DType)
				enc, err := c.tryEncode(t, src)
				if err != nil {
					break // the codec need not accept every value
				}
				dst := make([]byte, in.MaxBytes)
				k, err := c.safeDecode(t.Context(), dst, enc)
				if err != nil || k != len(src) {
					t.Errorf("decode %s with %s: got %d bytes, %s", describeSpec(in), p, k, outcome(err))
					return
				}
				if out[i] = c.out; c.out.Kind == driver.Array && c.out.DType.Numeric() {
					inOrder(enc, c.out.DType)
				}
				inOrder(dst, in.DType)
				decoded[i], encoded[i] = dst, enc
			}
			if encoded[0] == nil || encoded[1] == nil {
				continue
			}
			if !bytes.Equal(decoded[0], decoded[1]) {
				t.Errorf("%v with %s: the values after a round trip differ from those of the same numbers in big-endian order%s", typ, p, difference(decoded[0], decoded[1], typ))
			}
			if out[0].Kind == driver.Array && out[0].DType.Numeric() && out[0].DType.Size == out[1].DType.Size && !bytes.Equal(encoded[0], encoded[1]) {
				t.Errorf("%v with %s: the encoded elements differ from those of the same numbers in big-endian order%s", typ, p, difference(encoded[0], encoded[1], out[0].DType))
			}
		}
	}
}

// inOrder converts the elements of b from little-endian order to the order of t, or back.
func inOrder(b []byte, t dtype.Type) {
	if t.Order == dtype.Big {
		dtype.SwapBytes(b, t.Width())
	}
}
