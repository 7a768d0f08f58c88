package codecsuite

import (
	"bytes"
	"encoding/json"
	"maps"
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
	c, anyLength := e.first(t, most), false
	if c.in.DType.Fixed() && c.in.DType.Kind != dtype.Bool { // a blob may have any length
		if blob := e.openSpec(t, c.params, driver.Spec{Kind: driver.Blob, DType: c.in.DType, MaxBytes: c.in.MaxBytes}); blob != nil {
			c, anyLength = blob, true
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
			if anyLength && i%2 == 0 { // a prefix of the next value
				src = src[:(1+r.IntN(most-1))*n]
			}
		}
		values[i], encoded[i] = src, c.encode(t, src)
		c.checkDecode(t, encoded[i], e.value(t, c, src), len(src))
	}
	for i := 0; i < len(values); i += len(values)/20 + 1 { // opening a codec takes long in another process
		if fresh := e.openSpec(t, c.params, c.in); !bytes.Equal(fresh.encode(t, values[i]), encoded[i]) {
			t.Errorf("%d bytes of %v with %s are encoded differently by a codec that has encoded other values and by a new one", len(values[i]), c.in.DType, c.params)
			return
		}
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
// uses codecs for the other byte order and for elements of another size.
func (e *Env) stateless(t conformance.T, c *opened, a, b []byte) {
	valueA, valueB := e.value(t, c, a), e.value(t, c, b)
	encA, encB := c.encode(t, a), c.encode(t, b)
	twins := []driver.Spec{c.in, c.in}
	if order := c.in.DType.Order; order != dtype.OrderNone {
		twins[0].DType.Order = dtype.Little + dtype.Big - order
	}
	for _, typ := range e.types {
		in := driver.Spec{DType: typ, Shape: c.in.Shape, MaxBytes: room(typ, 5000)}
		if !typ.Fixed() || typ.Size == c.in.DType.Size {
			continue
		}
		if _, err := e.tryOpen(c.params, in); err == nil {
			twins[1] = in
			break
		}
	}
	for _, in := range twins {
		twin, err := e.tryOpen(c.params, in) // each after the other was used, because a codec may depend on the one opened last
		c.checkDecode(t, encA, valueA, len(a))
		c.checkDecode(t, encB, valueB, len(b))
		c.decodeDamaged(t, "truncated input", encA[:len(encA)/2:len(encA)/2])
		if err == nil { // the parameters may fit only one type
			src := twin.data(5000, "noise", t.Seed())
			twin.checkDecode(t, twin.encode(t, src), e.value(t, twin, src), len(src))
		}
		if again := c.encode(t, a); !bytes.Equal(again, encA) {
			t.Errorf("%v: the same bytes are encoded differently after other values", c.in.DType)
		}
	}
	c.forgets(t, encA, valueA)
}

// forgets checks that c does not return the value of an earlier call. It decodes enc and then
// copies of enc in which all bytes except a few at the start, at the end or at both ends are
// zero. So few bytes cannot hold the value.
func (c *opened) forgets(t conformance.T, enc, value []byte) {
	if c.lossy { // the value may need only these bytes
		return
	}
	const most = 64 // 5,000 random elements take more than 600 bytes
	for n := 8; n <= min(most, len(enc)/4); n += 4 {
		for _, keep := range [][2]int{{n, 0}, {0, n}, {n, n}} {
			c.checkDecode(t, enc, value, len(value))
			bad := make([]byte, len(enc))
			copy(bad, enc[:keep[0]])
			copy(bad[len(bad)-keep[1]:], enc[len(enc)-keep[1]:])
			if got := c.decodeDamaged(t, "all but the first and last bytes cleared", bad); bytes.Equal(got, value) {
				t.Errorf("%v with %s: decoding returns the value of an earlier call, although only the first %d and the last %d of the %d input bytes are the same", c.in.DType, c.params, keep[0], keep[1], len(enc))
				return
			}
		}
	}
}

// paramsApart runs the check for the first type, for the first other type of at least four
// bytes and, if the codec is lossy, for the first type that shows it.
func paramsApart(t conformance.T, e *Env) {
	first := e.first(t, 500).in.DType
	e.paramsApart(t, first)
	if shown := e.telling(t, 500).in.DType; shown != first {
		e.paramsApart(t, shown)
	}
	for _, typ := range e.types {
		if typ.Size >= 4 && typ != first {
			e.paramsApart(t, typ)
			return
		}
	}
}

// paramsApart compares the results of all sets of parameters opened in one process with
// the results of the same sets opened in a fresh process in reverse order. The sets are
// the given ones and each of them without one of its members, because a codec may reuse
// state that it created for similar parameters.
func (e *Env) paramsApart(t conformance.T, typ dtype.Type) {
	src := (&opened{in: driver.Spec{DType: typ}, lossy: !e.target.exactFor(typ)}).data(500, "smooth", t.Seed())
	if e.target.exactFor(typ) && typ.Fixed() && typ.Kind != dtype.Bool {
		for _, p := range e.params { // a text, such as a dictionary, may matter only for values that contain it
			for _, v := range e.members(t, p) {
				var text string
				if json.Unmarshal(v, &text) == nil {
					copy(src[len(src)/2:], text)
				}
			}
		}
	}
	in := driver.Spec{DType: typ, Shape: []int{500}, MaxBytes: room(typ, 500)}
	sets := slices.Clone(e.params)
	for _, p := range e.params {
		all := e.members(t, p)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if fewer := all.with(t, name, ""); name != "id" && !slices.ContainsFunc(sets, func(p json.RawMessage) bool { return bytes.Equal(p, fewer) }) {
				sets = append(sets, fewer)
			}
		}
	}
	codecs, encoded := make([]*opened, len(sets)), make([][]byte, len(sets))
	for i, p := range sets {
		codecs[i], _ = e.tryOpen(p, in) // parameters that are left out may be required
	}
	for i, c := range codecs {
		if c != nil {
			encoded[i] = c.encode(t, src)
		}
	}
	t.Step("restart")
	if err := e.target.Restart(); err != nil {
		t.Fatalf("restart: %v", err)
	}
	for i, p := range slices.Backward(sets) {
		c, _ := e.tryOpen(p, in)
		if (c == nil) != (codecs[i] == nil) {
			t.Errorf("parameters %s: the result of Open depends on the codecs opened before", p)
		}
		if c == nil || codecs[i] == nil {
			continue
		}
		c.checkDecode(t, encoded[i], e.value(t, c, src), len(src))
		if !bytes.Equal(c.encode(t, src), encoded[i]) {
			t.Errorf("parameters %s: the encoded bytes depend on the codecs opened before", p)
		}
	}
}
