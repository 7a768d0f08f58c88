package codecsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/internal/leak"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// back decodes enc into room bytes and compares it with want.
func (c *opened) back(t conformance.T, enc, want []byte, room int) {
	t.Doing("decode", strconv.Itoa(len(want)), "bytes of", c.in.DType.String(), "with", string(c.params))
	dst, whole := guarded(room)
	n, err := c.Decode(t.Context(), dst, enc)
	switch {
	case err != nil:
		t.Errorf("decode %d bytes of %v with %s: %v", len(want), c.in.DType, c.params, err)
	case n != len(want) || !bytes.Equal(want, dst[:n]):
		t.Errorf("%d bytes of %v with %s come back changed%s", len(want), c.in.DType, c.params, difference(want, dst[:max(0, min(n, len(dst)))], c.in.DType))
	}
	if !whole() {
		t.Errorf("decode writes outside its output")
	}
}

// value returns the value that src has after encoding and decoding: src itself
// unless the codec is lossy, else what a newly opened codec makes of it.
func (e *Env) value(t conformance.T, c *opened, src []byte) []byte {
	if !c.lossy {
		return src
	}
	fresh := e.openSpec(t, c.params, c.in)
	enc, dst := fresh.encode(t, src), make([]byte, c.in.MaxBytes)
	n, err := fresh.Decode(t.Context(), dst, enc)
	if err != nil || n < 0 || n > len(dst) || c.in.DType.Fixed() && n != len(src) {
		t.Fatalf("decode %d bytes of %v with %s: %d bytes, %s", len(src), c.in.DType, c.params, n, outcome(err))
	}
	return dst[:n]
}

// data returns n elements that c can encode: a lossy codec need not take every
// value.
func (c *opened) data(n int, pattern string, seed uint64) []byte {
	if c.lossy && pattern != "zeros" {
		pattern = "smooth"
	}
	return data(c.in.DType, n, pattern, seed)
}

// difference says where and how got differs from want.
func difference(want, got []byte, t dtype.Type) string {
	if len(want) != len(got) {
		return fmt.Sprintf(": %d bytes", len(got))
	}
	size := 1
	if t.Fixed() {
		size = t.Size
	}
	for i := 0; i < len(want); i += size {
		if w, g := want[i:min(i+size, len(want))], got[i:min(i+size, len(got))]; !bytes.Equal(w, g) {
			return fmt.Sprintf(": element %d is % x, was % x", i/size, g, w)
		}
	}
	return ""
}

func roundTrip(t conformance.T, e *Env) {
	for i, n := range e.effort.lengths {
		e.each(t, n, func(c *opened) {
			if c.lossy {
				return
			}
			for k, p := range patterns {
				// All for the first type; for each other what its bits may be, and one by turns.
				if c.nth > 0 && k != (i+c.nth)%4 && (k < 4 || n > 0 && n < 30) {
					continue
				}
				src := data(c.in.DType, n, p, t.Seed())
				enc := c.encode(t, src)
				c.again(t, src, enc)
				c.back(t, enc, src, len(src))
			}
		})
	}
}

// roundTripEdges has lengths around those at which buffers and counters of 16
// bits end.
func roundTripEdges(t conformance.T, e *Env) {
	for _, p := range e.params[:1] {
		for _, typ := range e.types {
			if !typ.Fixed() {
				e.longTexts(t, p, typ)
				continue
			}
			size := int(room(typ, 1))
			for n, pattern := range map[int]string{e.effort.edges/size - 1: "ramp", e.effort.edges / size: "bits", e.effort.edges/size + 1: "noise"} {
				if c := e.open(t, p, typ, n); c != nil && !c.lossy {
					src := data(typ, n, pattern, t.Seed())
					c.back(t, c.encode(t, src), src, len(src))
				}
			}
		}
	}
}

// longTexts has texts of lengths around those that fit into 7, 8, 14 and 16 bits.
func (e *Env) longTexts(t conformance.T, params json.RawMessage, typ dtype.Type) {
	lengths := []int{127, 128, 255, 256, 257, 1<<14 - 1, 1 << 14, 1<<16 - 1, 1 << 16, 1<<16 + 1, 0}
	size := driver.ValuesSize(len(lengths), 300_000)
	c := e.openSpec(t, params, driver.Spec{DType: typ, Shape: []int{len(lengths)}, MaxBytes: size})
	if c == nil || c.lossy {
		return
	}
	src := make([]byte, size)
	w, err := driver.NewValuesWriter(src, len(lengths))
	for _, n := range lengths {
		if err == nil {
			err = w.AddString(strings.Repeat("x", n))
		}
	}
	n := 0
	if err == nil {
		n, err = w.Done()
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	enc, err := c.tryEncode(t, src[:n])
	switch {
	case err == nil:
		c.back(t, enc, src[:n], n)
	case ncerr.KindOf(err) != ncerr.ErrConvert && ncerr.KindOf(err) != ncerr.ErrInvalid: // a codec may have a list of texts
		t.Errorf("encode texts of up to %d bytes with %s: %v", slices.Max(lengths), params, err)
	}
}

// roundTripBlob encodes what other steps give: bytes of any length, which need
// not be whole elements.
func roundTripBlob(t conformance.T, e *Env) {
	const most = 5000
	for _, p := range e.params {
		for _, typ := range e.types {
			if typ.Kind == dtype.Bool {
				continue // other bytes than 0 and 1 are no values
			}
			c := e.openSpec(t, p, driver.Spec{Kind: driver.Blob, DType: typ, MaxBytes: most})
			if c == nil || c.lossy {
				continue
			}
			for i, n := range []int{0, 1, 2, 3, 5, 7, 8, 9, 15, 64, 65, 255, 257, 1000, 1001, 4099, most} {
				src := data(dtype.NCUByte.Type(dtype.OrderNone), n, patterns[i%len(patterns)], t.Seed())
				enc, err := c.tryEncode(t, src)
				switch {
				case err == nil:
					c.back(t, enc, src, len(src))
				case !typ.Fixed() || n%typ.Size == 0: // others may need whole elements
					t.Errorf("encode %d bytes made of %v with %s: %v", n, typ, p, err)
				}
			}
		}
	}
}

// roundTripRuns puts runs behind and before bytes that are no run, of every
// length up to some hundred: where formats count to 128 or 255, they end.
func roundTripRuns(t conformance.T, e *Env) {
	typ := e.first(t, 1000).in.DType
	if !typ.Fixed() {
		return
	}
	const most, some = 300, 40
	step := 1
	if t.Effort() == conformance.Brief {
		step = 16
	}
	noise, run := data(typ, most, "noise", t.Seed()), bytes.Repeat(data(typ, 1, "zeros", 0), most)
	if typ.Kind != dtype.Bool {
		for i := range run {
			run[i] = 0xFF
		}
	}
	for n := 1; n <= most && !t.Failed(); n += step {
		k, short := n*typ.Size, some*typ.Size
		for _, src := range [][]byte{slices.Concat(run[:short], noise[:k]), slices.Concat(noise[:short], run[:k]), slices.Concat(run[:k], noise[:k])} {
			if c := e.open(t, e.params[0], typ, len(src)/typ.Size); c != nil {
				c.back(t, c.encode(t, src), src, len(src))
			}
		}
	}
}

// roundTripDistances repeats bytes that are otherwise without pattern at distances
// around powers of two: where formats refer back, windows and the fields of
// distances end there.
func roundTripDistances(t conformance.T, e *Env) {
	typ := e.first(t, 1000).in.DType
	if !typ.Fixed() || typ.Kind == dtype.Bool {
		return
	}
	for _, power := range e.effort.distances {
		for distance := 1<<power - 1; distance <= 1<<power+1 && !t.Failed(); distance++ {
			tail := 700 // longer than the longest match of deflate
			if power <= 12 {
				tail = 9 * distance // copies that overlap what they make
			}
			n := (distance + tail) / typ.Size
			c := e.open(t, e.params[0], typ, n)
			if c == nil {
				return
			}
			src := make([]byte, n*typ.Size)
			r := rand.New(rand.NewPCG(t.Seed(), uint64(distance)))
			for i := range src {
				if src[i] = byte(r.Uint32()); i >= distance {
					src[i] = src[i-distance]
				}
			}
			c.back(t, c.encode(t, src), src, len(src))
		}
	}
}

// statelessTables encodes values that begin alike and are then longer, or have parts
// of those before at other places: what an encoder has noted of one value is wrong
// for the next. Each is encoded again in the other order.
func statelessTables(t conformance.T, e *Env) {
	const most = 1500
	c, cut := e.first(t, most), false
	if c.in.DType.Fixed() && c.in.DType.Kind != dtype.Bool { // bytes of another step may have any length
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
			if cut && i%2 == 0 { // the beginning of the next
				src = src[:(1+r.IntN(most-1))*n]
			}
		}
		values[i], encoded[i] = src, c.encode(t, src)
		c.back(t, encoded[i], e.value(t, c, src), len(src))
	}
	for i, src := range slices.Backward(values) {
		if t.Failed() {
			return
		}
		if again := c.encode(t, src); !bytes.Equal(again, encoded[i]) {
			t.Errorf("%d bytes of %v with %s are encoded in another way after other values", len(src), c.in.DType, c.params)
			c.back(t, again, e.value(t, c, src), len(src))
		}
	}
}

// stateless encodes and decodes values of one length that differ in one element
// only, the last or one in the middle.
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
				copy(b[at:at+size], a[i:i+size]) // another element
			}
			e.stateless(t, c, a, b)
		}
	})
}

// stateless encodes and decodes a and b in turn, damaged input in between, and
// values of a codec for the other order of bytes.
func (e *Env) stateless(t conformance.T, c *opened, a, b []byte) {
	valueA, valueB := e.value(t, c, a), e.value(t, c, b)
	encA, encB := c.encode(t, a), c.encode(t, b)
	in := c.in
	if in.DType.Order != dtype.OrderNone {
		in.DType.Order = dtype.Little + dtype.Big - in.DType.Order
	}
	twin, out, err := e.target.Provider.Open(e.target.ID, c.params, in)
	for range 2 {
		c.back(t, encA, valueA, len(a))
		c.back(t, encB, valueB, len(b))
		c.bad(t, "cut short", encA[:len(encA)/2:len(encA)/2])
		if err == nil { // c.params may be for one order
			o := &opened{Codec: twin, in: in, out: out, params: c.params, lossy: !e.target.exactFor(in.DType)}
			src := o.data(5000, "noise", t.Seed())
			o.back(t, o.encode(t, src), e.value(t, o, src), len(src))
		}
	}
	if again := c.encode(t, a); !bytes.Equal(again, encA) {
		t.Errorf("%v: the same bytes are encoded in another way after others", c.in.DType)
	}
}

// paramsApart takes the first type and the first of elements of several bytes.
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

// paramsApart encodes with all sets of parameters in one process, once all are
// opened, and with each in a process of its own.
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
		t.Doing("restart")
		if err := e.target.Restart(); err != nil {
			t.Fatalf("restart: %v", err)
		}
		c := e.open(t, p, typ, 500)
		if c == nil {
			continue
		}
		c.back(t, encoded[i], e.value(t, c, src), len(src))
		if !bytes.Equal(c.encode(t, src), encoded[i]) {
			t.Errorf("%s: other parameters that were opened before or after change what is encoded", p)
		}
	}
}

func roundTripLarge(t conformance.T, e *Env) {
	wide := slices.DeleteFunc(slices.Clone(e.types), func(typ dtype.Type) bool { return typ.Size < 2 })
	for i, p := range e.params {
		size := e.effort.large
		if i > 0 && e.effort.large > 1<<20 { // once is enough where other parameters only shift the work
			size /= 8
		}
		kinds := []string{"zeros"}
		for k := range e.effort.kinds {
			kinds = append(kinds, patterns[1+(i+k)%(len(patterns)-1)])
		}
		e.large(t, p, size, kinds)
		if len(wide) == 0 || t.Effort() == conformance.Brief {
			continue
		}
		rows, columns := 513, 1025
		if i > 0 {
			rows, columns = 129, 513
		}
		typ := wide[i%len(wide)]
		if c := e.openSpec(t, p, driver.Spec{DType: typ, Shape: []int{rows, columns}, Order: driver.Order(i % 2), MaxBytes: room(typ, rows*columns)}); c != nil && !c.lossy {
			src := data(typ, rows*columns, patterns[2+i%2], t.Seed())
			c.back(t, c.encode(t, src), src, len(src))
		}
	}
	if t.Effort() != conformance.Brief {
		e.large(t, e.params[0], 16<<20, []string{"ramp"}) // more than 2^24 bytes
		e.large(t, e.params[0], 8<<20, []string{"runs"})  // a decoder that looks at all of them for each run hangs
	}
}

// huge is the size of chunks that do not fit where smaller ones travel.
const huge = 64 << 20

func roundTripHuge(t conformance.T, e *Env) {
	e.large(t, e.params[0], huge, []string{"zeros", "ramp", "smooth"})
}

func roundTripHugeNoise(t conformance.T, e *Env) {
	e.large(t, e.params[0], huge, []string{"noise"})
}

// large checks chunks of these kinds of data.
func (e *Env) large(t conformance.T, params json.RawMessage, size int, kinds []string) {
	typ := e.first(t, 1000).in.DType
	n := size/int(room(typ, 1)) + 5
	c := e.open(t, params, typ, n)
	for _, pattern := range kinds {
		if c == nil || t.Failed() {
			return
		}
		src := data(typ, n, pattern, t.Seed())
		c.back(t, c.encode(t, src), src, len(src))
	}
}

func sizePromise(t conformance.T, e *Env) {
	for _, n := range e.effort.promise {
		e.each(t, n, func(c *opened) {
			if n > 10_000 && c.nth > 1 {
				return
			}
			src := data(c.in.DType, n, "noise", t.Seed())
			r := rand.New(rand.NewPCG(t.Seed(), 1))
			for i := range src {
				if c.in.DType.Fixed() && c.in.DType.Kind != dtype.Bool {
					src[i] = byte(r.Uint32())
				}
			}
			c.sized(t, src)
		})
	}
}

// sized encodes src, which the codec may refuse for a value that its encoded
// type cannot hold.
func (c *opened) sized(t conformance.T, src []byte) {
	dst, whole := guarded(int(c.out.MaxBytes))
	n, err := c.Encode(t.Context(), dst, src)
	if err != nil && ncerr.KindOf(err) != ncerr.ErrConvert || n > len(dst) {
		t.Errorf("encode %d bytes of %v with %s: %d bytes, %s", len(src), c.in.DType, c.params, n, outcome(err))
	}
	if !whole() {
		t.Errorf("encode writes outside its output")
	}
}

func ceilingEncode(t conformance.T, e *Env) {
	e.each(t, 500, func(c *opened) {
		src := data(c.in.DType, 500, "smooth", t.Seed())
		full := len(c.encode(t, src))
		for _, room := range []int{0, 1, full / 2, full - 1} {
			if room < 0 || room >= full {
				continue
			}
			dst, whole := guarded(room)
			n, err := c.Encode(t.Context(), dst, src)
			if err == nil && n <= room { // another, shorter encoding is right too
				c.back(t, dst[:n], src, len(src))
			} else if ncerr.KindOf(err) != ncerr.ErrShortBuffer {
				t.Errorf("%d of %d bytes of room: want ErrShortBuffer, got %s", room, full, outcome(err))
			}
			if !whole() {
				t.Errorf("%d of %d bytes of room: bytes outside were written", room, full)
			}
		}
	})
}

func ceilingDecode(t conformance.T, e *Env) {
	e.each(t, 500, func(c *opened) {
		src := data(c.in.DType, 500, "smooth", t.Seed())
		enc := c.encode(t, src)
		src = e.value(t, c, src)
		for _, room := range []int{0, 1, len(src) / 2, len(src) - 1} {
			dst, whole := guarded(room)
			if _, err := c.Decode(t.Context(), dst, enc); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
				t.Errorf("%d of %d bytes of room: want ErrShortBuffer, got %s", room, len(src), outcome(err))
			}
			if !whole() {
				t.Errorf("%d of %d bytes of room: bytes outside were written", room, len(src))
			}
		}
	})
}

func roomy(t conformance.T, e *Env) {
	for _, n := range []int{300, 0} {
		e.roomy(t, n)
	}
}

func (e *Env) roomy(t conformance.T, n int) {
	e.each(t, n, func(c *opened) {
		src := data(c.in.DType, n, "smooth", t.Seed())
		enc := c.encode(t, src)
		src = e.value(t, c, src)
		for _, more := range []int{1, 13, 5000} {
			c.back(t, enc, src, len(src)+more)
		}
	})
}

func source(t conformance.T, e *Env) {
	e.each(t, 300, func(c *opened) {
		src := data(c.in.DType, 300, "smooth", t.Seed())
		keep := bytes.Clone(src)
		enc := c.encode(t, src)
		if !bytes.Equal(keep, src) {
			t.Errorf("encode changes its input")
		}
		keepEnc := bytes.Clone(enc)
		c.back(t, enc, e.value(t, c, keep), len(keep))
		if !bytes.Equal(keepEnc, enc) {
			t.Errorf("decode changes its input")
		}
	})
}

// decodedSize asks codecs that tell the size of a value from its head. Bytes
// that nobody has encoded may have any size, but they do not break anything.
func decodedSize(t conformance.T, e *Env) {
	for _, n := range []int{0, 300, 5000} {
		e.each(t, n, func(c *opened) {
			sizer, ok := c.Codec.(driver.DecodedSizer)
			if !ok {
				return
			}
			src := data(c.in.DType, n, "smooth", t.Seed())
			enc := c.encode(t, src)
			size, err := sizer.DecodedSize(enc)
			if err != nil || size != 0 && size < int64(len(src)) || c.in.DType.Fixed() && size > int64(len(src)) {
				t.Errorf("the size of %d bytes of %v with %s: want it, or 0 where it is not told, got %d, %s", len(src), c.in.DType, c.params, size, outcome(err))
			}
			r := rand.New(rand.NewPCG(t.Seed(), 4))
			for i := range min(len(enc), 40) {
				bad := bytes.Clone(enc)
				bad[i] ^= byte(1 + r.IntN(255))
				for _, p := range [][]byte{enc[:i:i], bad} {
					if size, err := safeSize(sizer, p); errors.Is(err, errPanic) || err == nil && size < 0 {
						t.Errorf("the size of damaged input, %s: %d, %s", abbreviated(p), size, outcome(err))
					}
				}
			}
		})
	}
}

func safeSize(s driver.DecodedSizer, src []byte) (n int64, err error) {
	defer recovered(&err)
	return s.DecodedSize(src)
}

// lastingCalls encodes and decodes so often that counters, tables and pools of
// a codec are used again and again.
func lastingCalls(t conformance.T, e *Env) {
	c := e.first(t, 200)
	for i := 0; i < 1200 && !t.Failed(); i++ {
		src := c.data(200, patterns[i%len(patterns)], uint64(i))
		c.back(t, c.encode(t, src), e.value(t, c, src), len(src))
	}
	c = e.first(t, smallest)
	src := c.data(smallest, "smooth", t.Seed())
	enc, value := c.encode(t, src), e.value(t, c, src)
	for i := 0; i < e.effort.tiny && !t.Failed(); i++ {
		if again := c.encode(t, src); !bytes.Equal(again, enc) {
			t.Errorf("the same bytes are encoded in another way after %d times", i+1)
		}
		c.back(t, enc, value, len(src))
	}
}

// lastingMemory opens for other and other shapes, encodes and decodes in batches,
// large chunks and many small ones, also into too small buffers, and measures.
func lastingMemory(t conformance.T, e *Env) {
	const calls, size = 64, 1 << 20
	typ := e.first(t, 1000).in.DType
	n := size / int(room(typ, 1))
	c, small := e.open(t, e.params[0], typ, n), e.open(t, e.params[0], typ, 50)
	src, little := data(typ, n, "smooth", t.Seed()), data(typ, 50, "smooth", t.Seed())
	enc, value, littleValue := c.encode(t, src), e.value(t, c, src), e.value(t, small, little)
	var medium []*opened // what is lost may be what could not be made shorter, or of damaged input
	var noise, encoded [][]byte
	for _, n := range []int{4 << 10, 16 << 10, 64 << 10} {
		n /= int(room(typ, 1))
		m := e.open(t, e.params[0], typ, n)
		medium, noise = append(medium, m), append(noise, m.data(n, "noise", t.Seed()))
		encoded = append(encoded, m.encode(t, noise[len(noise)-1]))
	}
	shapes, tight := 0, make([]byte, 1<<10) // too little even for the first of medium
	short := func(c *opened, dst, src, enc []byte) {
		_, _ = c.Encode(t.Context(), dst[:min(len(dst), len(enc)/2)], src) // codec.ceiling checks what comes of it
		_, _ = c.Decode(t.Context(), dst[:min(len(dst), len(src)/2)], enc)
	}
	memory, descriptors, at, err := leak.Find(func() bool {
		for i := range calls {
			c.back(t, enc, value, len(src))
			if i%16 == 0 {
				c.encode(t, src)
			}
			for k := range 12 { // what is lost with each is little
				enc := small.encode(t, little)
				small.back(t, enc, littleValue, len(little))
				if k%2 == 0 {
					short(small, tight, little, enc)
				}
				cut := len(enc) * k / 12 // not even a head may be left
				small.bad(t, "cut short", enc[:cut:cut])
			}
			shapes++
			e.open(t, e.params[0], typ, n+shapes)
			for k, m := range medium {
				m.encode(t, noise[k])
				m.bad(t, "cut short", encoded[k][:len(encoded[k])/2:len(encoded[k])/2])
				short(m, tight, noise[k], encoded[k])
			}
		}
		return !t.Failed()
	}, e.target.Usage, calls/2)
	if err != nil {
		t.Fatalf("measure: %v", err)
	}
	if memory {
		t.Errorf("each %d times, opening a codec and calls for %d bytes and for little take more memory: %+v", calls, size, at)
	}
	if descriptors {
		t.Errorf("each %d times, opening a codec and calling it take more descriptors: %+v", calls, at)
	}
}

func deterministic(t conformance.T, e *Env) {
	var later []func()
	e.each(t, 2000, func(a *opened) {
		b := e.openSpec(t, a.params, a.in)
		for _, pattern := range []string{"smooth", "bits"} {
			src := data(a.in.DType, 2000, pattern, t.Seed())
			want, err := a.tryEncode(t, src)
			if err != nil && a.lossy && pattern == "bits" {
				continue // it need not take every value
			}
			a.encode(t, a.data(2000, "noise", t.Seed()))
			again := func() {
				for _, c := range []*opened{a, b} {
					if got := c.encode(t, src); !bytes.Equal(want, got) {
						t.Errorf("%v with %s: the same bytes are encoded in two ways", a.in.DType, a.params)
					}
				}
			}
			again()
			later = append(later, again)
		}
	})
	if t.Effort() == conformance.Brief {
		return
	}
	time.Sleep(1100 * time.Millisecond) // another second, for what has the time in it
	for _, again := range later {
		again()
	}
}

// concurrent uses a codec from several goroutines, for every set of parameters and
// for elements of one byte and of more: scratch memory may be for some of them only.
func concurrent(t conformance.T, e *Env) {
	wide := "" // the last parameters for which elements of more than a byte were used
	e.each(t, 20_000, func(c *opened) {
		more := room(c.in.DType, 1) > 1
		if c.nth > 0 && (!more || wide == string(c.params)) {
			return
		}
		if more {
			wide = string(c.params)
		}
		e.crowd(t, c)
	})
}

// crowd encodes and decodes with c from eight goroutines, damaged input too.
func (e *Env) crowd(t conformance.T, c *opened) {
	var sources, wants [8][len(patterns)][]byte
	for g := range sources {
		for k, pattern := range patterns {
			sources[g][k] = c.data(20_000, pattern, uint64(g))
			wants[g][k] = e.value(t, c, sources[g][k])
		}
	}
	var wg sync.WaitGroup
	for g := range sources {
		wg.Go(func() {
			for i := range 20 {
				k := (g + i) % len(patterns)
				src, want := sources[g][k], wants[g][k]
				enc, dst := make([]byte, c.out.MaxBytes), make([]byte, len(want))
				n, err := c.Encode(t.Context(), enc, src)
				if err == nil {
					if i%2 == 0 { // what comes of it the checks of damaged input look at
						_, _ = c.safely(t.Context(), make([]byte, len(want)), bytes.Clone(enc[:n/2]))
					}
					n, err = c.Decode(t.Context(), dst, enc[:n])
				}
				switch {
				case err != nil:
					t.Errorf("beside other goroutines, %v with %s: %v", c.in.DType, c.params, err)
				case !bytes.Equal(want, dst[:n]):
					t.Errorf("beside other goroutines, %v with %s decodes to another value", c.in.DType, c.params)
				default:
					continue
				}
				return
			}
		})
	}
	wg.Wait()
}

func cancelled(t conformance.T, e *Env) {
	e.cancelled(t, 200_000) // of less a codec need not look at the context
	if t.Effort() != conformance.Brief {
		e.cancelled(t, 3<<20)
	}
}

func (e *Env) cancelled(t conformance.T, n int) {
	c := e.first(t, n)
	src := data(c.in.DType, n, "smooth", t.Seed())
	enc, value := c.encode(t, src), e.value(t, c, src)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dst := make([]byte, len(src))
	k, err := c.Decode(ctx, dst, enc)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("decode: want a cancellation, got %v", err)
	}
	if err == nil && !bytes.Equal(value, dst[:k]) {
		t.Errorf("decode ends without an error and with other bytes")
	}
	enc2 := make([]byte, c.out.MaxBytes)
	k, err = c.Encode(ctx, enc2, src)
	switch {
	case err == nil:
		c.back(t, enc2[:k], value, len(src))
	case !errors.Is(err, context.Canceled):
		t.Errorf("encode: want a cancellation, got %v", err)
	}
	c.back(t, enc, value, len(src))
}

func pipeline(t conformance.T, e *Env) {
	c := e.first(t, 700)
	opener, ok := e.target.Provider.(driver.PipelineOpener)
	if !ok {
		t.Fatalf("the provider opens no runs")
	}
	run, specs, err := opener.OpenPipeline(t.Context(), []driver.Step{{ID: e.target.ID, Params: c.params}}, c.in)
	if err != nil {
		t.Fatalf("open a run: %v", err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if len(specs) != 1 || specs[0].MaxBytes != c.out.MaxBytes {
		t.Errorf("the run gives other specs than the step: %+v", specs)
	}
	jobs := make([]driver.Job, 9)
	plain, want := make([][]byte, len(jobs)), make([][]byte, len(jobs))
	for i := range jobs {
		src := c.data(700, patterns[i%len(patterns)], uint64(i))
		plain[i], want[i] = e.value(t, c, src), c.encode(t, src)
		jobs[i] = driver.Job{Src: src, Limit: c.out.MaxBytes}
	}
	batch(t, "encode", run.EncodeMany, jobs, want)
	for i := range jobs {
		jobs[i] = driver.Job{Src: want[i], Limit: c.in.MaxBytes}
		if i%2 == 0 {
			jobs[i].Dst = make([]byte, c.in.MaxBytes)
		}
	}
	batch(t, "decode", run.DecodeMany, jobs, plain)
}

// batch does jobs and compares their results.
func batch(t conformance.T, what string, do func(context.Context, []driver.Job, driver.Sink) error, jobs []driver.Job, want [][]byte) {
	seen := make([]int, len(jobs))
	err := do(t.Context(), jobs, func(i int, out []byte, err error) {
		seen[i]++
		if err != nil {
			t.Errorf("%s: job %d: %v", what, i, err)
		} else if !bytes.Equal(want[i], out) {
			t.Errorf("%s: job %d gives other bytes than the step: %s", what, i, other(want[i], out))
		}
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("%s: the sink was called %d times for job %d", what, n, i)
		}
	}
}
