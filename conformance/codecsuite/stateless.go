package codecsuite

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// statelessTables encodes values that share a prefix with the previous value or contain
// parts of it at other places, so that a match table left over from one value is wrong
// for the next. It then encodes the values again in reverse order.
func statelessTables(t conformance.T, e *Env) {
	const most = 1500
	c, cut := e.first(t, most), false
	if c.in.DType.Fixed() && c.in.DType.Kind != dtype.Bool { // a blob may have any length
		if blob := e.openSpec(t, c.params, driver.Spec{Kind: driver.Blob, DType: c.in.DType, MaxBytes: c.in.MaxBytes}); blob != nil {
			c, cut = blob, true
		}
	}
	values, encoded := make([][]byte, e.effort.pairs), make([][]byte, e.effort.pairs)
	r := rand.New(rand.NewPCG(t.Seed(), 5))
	whole := c.data(most, "noise", t.Seed())
	for i := range values {
		src := c.data(most, "noise", t.Seed()+uint64(i/2))
		if n := len(src) / most; c.in.DType.Fixed() {
			at := r.IntN(most) * n
			copy(src[at:], whole[:len(src)-at])
			if cut && i%2 == 0 { // a prefix of the next value
				src = src[:(1+r.IntN(most-1))*n]
			}
		}
		values[i], encoded[i] = src, c.encode(t, src)
		c.checkDecode(t, encoded[i], e.value(t, c, src), len(src))
	}
	for i, src := range slices.Backward(values) {
		if t.Failed() {
			return
		}
		if again := c.encode(t, src); !bytes.Equal(again, encoded[i]) {
			t.Errorf("%d bytes of %v with %s are encoded differently after other values", len(src), c.in.DType, c.params)
			c.checkDecode(t, again, e.value(t, c, src), len(src))
		}
	}
}

// stateless encodes and decodes values of the same length that differ in only one
// element, the last one or one in the middle.
func stateless(t conformance.T, e *Env) {
	e.each(t, 5000, func(c *opened) {
		if !c.in.DType.Fixed() || c.nth > 1 {
			return
		}
		size := c.in.DType.Size
		for _, at := range []int{4999 * size, 2500 * size} {
			a := c.data(5000, "noise", t.Seed())
			b := bytes.Clone(a)
			for i := 0; i < at && bytes.Equal(a, b); i += size {
				copy(b[at:at+size], a[i:i+size]) // copy a different element
			}
			e.stateless(t, c, a, b)
		}
	})
}

// stateless encodes and decodes a and b in turn. In between it decodes damaged input and
// uses a codec for the other byte order.
func (e *Env) stateless(t conformance.T, c *opened, a, b []byte) {
	valueA, valueB := e.value(t, c, a), e.value(t, c, b)
	encA, encB := c.encode(t, a), c.encode(t, b)
	in := c.in
	if in.DType.Order != dtype.OrderNone {
		in.DType.Order = dtype.Little + dtype.Big - in.DType.Order
	}
	twin, out, err := e.target.Provider.Open(e.target.ID, c.params, in)
	for range 2 {
		c.checkDecode(t, encA, valueA, len(a))
		c.checkDecode(t, encB, valueB, len(b))
		c.decodeDamaged(t, "cut short", encA[:len(encA)/2:len(encA)/2])
		if err == nil { // the parameters may fit one byte order only
			o := &opened{Codec: twin, in: in, out: out, params: c.params, lossy: !e.target.exactFor(in.DType)}
			src := o.data(5000, "noise", t.Seed())
			o.checkDecode(t, o.encode(t, src), e.value(t, o, src), len(src))
		}
	}
	if again := c.encode(t, a); !bytes.Equal(again, encA) {
		t.Errorf("%v: the same bytes are encoded differently after other values", c.in.DType)
	}
}

// paramsApart checks the first type and the first other type of at least four bytes.
func paramsApart(t conformance.T, e *Env) {
	first := e.first(t, 500).in.DType
	e.paramsApart(t, first)
	for _, typ := range e.types {
		if typ.Size >= 4 && typ != first {
			e.paramsApart(t, typ)
			return
		}
	}
}

// paramsApart compares the results of all sets of parameters opened in one process with
// the results of each set in a fresh process.
func (e *Env) paramsApart(t conformance.T, typ dtype.Type) {
	src := data(typ, 500, "smooth", t.Seed())
	codecs, encoded := make([]*opened, len(e.params)), make([][]byte, len(e.params))
	for i, p := range e.params {
		codecs[i] = e.open(t, p, typ, 500)
	}
	for i, c := range codecs {
		if c != nil {
			encoded[i] = c.encode(t, src)
		}
	}
	for i, p := range e.params {
		t.Step("restart")
		if err := e.target.Restart(); err != nil {
			t.Fatalf("restart: %v", err)
		}
		c := e.open(t, p, typ, 500)
		if c == nil {
			continue
		}
		c.checkDecode(t, encoded[i], e.value(t, c, src), len(src))
		if !bytes.Equal(c.encode(t, src), encoded[i]) {
			t.Errorf("%s: codecs opened with other parameters change the encoded bytes", p)
		}
	}
}
