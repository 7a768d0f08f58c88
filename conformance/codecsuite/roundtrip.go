package codecsuite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// checkDecode decodes enc into a buffer of room bytes and compares the result with
// want.
func (c *opened) checkDecode(t conformance.T, enc, want []byte, room int) {
	t.Step("decode", strconv.Itoa(len(want)), "bytes of", c.in.DType.String(), "with", string(c.params))
	dst, whole := guarded(room)
	n, err := c.safeDecode(t.Context(), dst, enc)
	switch {
	case err != nil:
		t.Errorf("decode %d bytes of %v with %s: %v", len(want), c.in.DType, c.params, err)
	case n != len(want) || !bytes.Equal(want, dst[:n]):
		t.Errorf("%d bytes of %v with %s change in a round trip%s", len(want), c.in.DType, c.params, difference(want, dst[:max(0, min(n, len(dst)))], c.in.DType))
	}
	if !whole() {
		t.Errorf("decode writes outside its output buffer")
	}
}

// value returns the value that src has after encoding and decoding. It returns src
// itself or, if the codec is lossy, the result of a round trip with a newly opened
// codec.
func (e *Env) value(t conformance.T, c *opened, src []byte) []byte {
	if !c.lossy {
		return src
	}
	fresh := e.openSpec(t, c.params, c.in)
	enc, dst := fresh.encode(t, src), make([]byte, c.in.MaxBytes)
	n, err := fresh.Decode(t.Context(), dst, enc)
	if err != nil || n < 0 || n > len(dst) || c.in.DType.Fixed() && n != len(src) {
		t.Fatalf("decode %d bytes of %v with %s: got %d bytes, %s", len(src), c.in.DType, c.params, n, outcome(err))
	}
	return dst[:n]
}

// data returns n elements that c can encode. A lossy codec need not accept every value,
// so data returns smooth values for it, with fractions.
func (c *opened) data(n int, pattern string, seed uint64) []byte {
	if c.lossy && pattern != "zeros" {
		pattern = "fine"
	}
	return data(c.in.DType, n, pattern, seed)
}

// difference describes the first difference between got and want, or returns "" if they
// are equal.
func difference(want, got []byte, t dtype.Type) string {
	if len(want) != len(got) {
		return fmt.Sprintf(": got %d bytes", len(got))
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
				// The first type gets all patterns. Other types get one of the first four
				// patterns in turn and, except for 1 to 29 elements, "bits", "special" and
				// "signs".
				if c.nth > 0 && k != (i+c.nth)%4 && (k < 4 || n > 0 && n < 30) {
					continue
				}
				src := data(c.in.DType, n, p, t.Seed())
				enc := c.encode(t, src)
				c.encodeAgain(t, src, enc)
				c.checkDecode(t, enc, src, len(src))
			}
		})
	}
}

// roundTripEdges tries lengths around 64 KiB, where buffers and 16-bit counters overflow.
func roundTripEdges(t conformance.T, e *Env) {
	for _, p := range e.params[:1] {
		for _, typ := range e.types {
			if !typ.Fixed() {
				e.longTexts(t, p, typ)
				e.manyTexts(t, p, typ)
				continue
			}
			size := int(room(typ, 1))
			for n, pattern := range map[int]string{e.effort.edges/size - 1: "ramp", e.effort.edges / size: "bits", e.effort.edges/size + 1: "noise"} {
				if c := e.open(t, p, typ, n); c != nil && !c.lossy {
					src := data(typ, n, pattern, t.Seed())
					c.checkDecode(t, c.encode(t, src), src, len(src))
				}
			}
		}
	}
}

// longTexts tries strings of lengths just below and above the limits of 7, 8, 14 and 16
// bits.
func (e *Env) longTexts(t conformance.T, params json.RawMessage, typ dtype.Type) {
	lengths := []int{127, 128, 255, 256, 257, 1<<14 - 1, 1 << 14, 1<<16 - 1, 1 << 16, 1<<16 + 1, 0}
	for _, letters := range []string{"x", "abcdefghijk"} { // strings with a common start, then strings without
		src := make([]byte, driver.ValuesSize(len(lengths), 300_000))
		w, err := driver.NewValuesWriter(src, len(lengths))
		for i, n := range lengths {
			if err == nil {
				err = w.AddString(strings.Repeat(letters[i%len(letters):][:1], n))
			}
		}
		n := 0
		if err == nil {
			n, err = w.Done()
		}
		if err != nil {
			t.Fatalf("%v", err)
		}
		c := e.openSpec(t, params, driver.Spec{DType: typ, Shape: []int{len(lengths)}, MaxBytes: int64(n)})
		if c == nil || c.lossy {
			return
		}
		enc, err := c.tryEncode(t, src[:n])
		switch {
		case err == nil:
			c.checkDecode(t, enc, src[:n], n)
		case ncerr.KindOf(err) != ncerr.ErrConvert && ncerr.KindOf(err) != ncerr.ErrInvalid: // the codec may accept only listed strings
			t.Errorf("encode strings of up to %d bytes with %s: %v", slices.Max(lengths), params, err)
		}
	}
}

// manyTexts tries more different strings than 16 bits can number, each of which needs two
// bytes for its length, so that any table of strings and any bound for its size is large.
func (e *Env) manyTexts(t conformance.T, params json.RawMessage, typ dtype.Type) {
	const n, length = 1<<16 + 1000, 130
	src := make([]byte, driver.ValuesSize(n, n*length))
	w, err := driver.NewValuesWriter(src, n)
	for i := 0; i < n && err == nil; i++ {
		text := strconv.Itoa(i)
		err = w.AddString(text + strings.Repeat("-", length-len(text)))
	}
	if err == nil {
		_, err = w.Done()
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	c := e.openSpec(t, params, driver.Spec{DType: typ, Shape: []int{n}, MaxBytes: int64(len(src))})
	if c == nil || c.lossy {
		return
	}
	enc, err := c.tryEncode(t, src)
	switch {
	case err == nil:
		c.checkDecode(t, enc, src, len(src))
	case ncerr.KindOf(err) != ncerr.ErrConvert && ncerr.KindOf(err) != ncerr.ErrInvalid: // the codec may accept only listed strings
		t.Errorf("encode %d different strings of %d bytes with %s: %v", n, length, params, err)
	}
}

// roundTripBlob encodes blobs, the output of earlier codecs: bytes of any length, which
// need not be whole elements.
func roundTripBlob(t conformance.T, e *Env) {
	const most = 5003 // not a multiple of any element size above 1
	for _, p := range e.params {
		for _, typ := range e.types {
			if typ.Kind == dtype.Bool {
				continue // only the bytes 0 and 1 are valid
			}
			c := e.openSpec(t, p, driver.Spec{Kind: driver.Blob, DType: typ, MaxBytes: most})
			if c == nil || c.lossy {
				continue
			}
			for i, n := range []int{0, 1, 2, 3, 5, 7, 8, 9, 15, 64, 65, 255, 257, 1000, 1001, 4099, most} {
				src := data(dtype.NCUByte.Type(dtype.OrderNone), n, patterns[(i+2)%len(patterns)], t.Seed()) // the longest is incompressible
				enc, err := c.tryEncode(t, src)
				switch {
				case err == nil:
					c.checkDecode(t, enc, src, []int{len(src), most, len(src) + 1}[i%3]) // callers know only the largest size
				case !typ.Fixed() || n%typ.Size == 0 || ncerr.KindOf(err) == ncerr.ErrShortBuffer: // other lengths may be refused: they are not whole elements
					t.Errorf("encode %d bytes made of %v with %s: %v", n, typ, p, err)
				}
			}
		}
	}
}

// roundTripRuns places runs of every length up to 300 before and after incompressible
// bytes, because many formats count runs only up to 128 or 255.
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
				c.checkDecode(t, c.encode(t, src), src, len(src))
			}
		}
	}
}

// roundTripDistances repeats random bytes at distances around powers of two, where the
// windows and distance fields of formats end. The bytes between the repetitions are
// random, or mostly zero.
func roundTripDistances(t conformance.T, e *Env) {
	e.distances(t, e.params[0], e.first(t, 1000).in.DType, e.effort.distances)
}

// distances tries the distances around the given powers of two.
func (e *Env) distances(t conformance.T, params json.RawMessage, typ dtype.Type, powers []int) {
	if !typ.Fixed() || typ.Kind == dtype.Bool {
		return
	}
	for _, power := range powers {
		for distance := 1<<power - 1; distance <= 1<<power+1 && !t.Failed(); distance++ {
			tail := 700 // longer than the longest match of deflate
			if power <= 12 {
				tail = 9 * distance // matches that overlap their own output
			}
			n := (distance + tail) / typ.Size
			c := e.open(t, params, typ, n)
			if c == nil || c.lossy {
				return
			}
			r := rand.New(rand.NewPCG(t.Seed(), uint64(distance)))
			for _, fresh := range []int{distance, 64} { // if few bytes are random, even a small table of earlier positions still holds the first bytes
				src := make([]byte, n*typ.Size)
				for i := range src {
					if i < fresh {
						src[i] = byte(r.Uint32())
					} else if i >= distance {
						src[i] = src[i-distance]
					}
				}
				enc, err := c.tryEncode(t, src)
				if ncerr.KindOf(err) == ncerr.ErrInvalid {
					return // the parameters do not fit the length
				}
				if err != nil {
					t.Fatalf("encode %d bytes of %v with %s: %v", len(src), typ, params, err)
				}
				c.checkDecode(t, enc, src, len(src))
			}
		}
	}
}

func roundTripLarge(t conformance.T, e *Env) {
	wide := slices.DeleteFunc(slices.Clone(e.types), func(typ dtype.Type) bool { return typ.Size < 2 })
	for i, p := range e.params {
		size := e.effort.large
		if i > 0 && e.effort.large > 1<<20 { // other parameters do not need the full size
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
			c.checkDecode(t, c.encode(t, src), src, len(src))
		}
	}
	if t.Effort() != conformance.Brief {
		e.large(t, e.params[0], 16<<20, []string{"ramp"}) // more than 2^24 bytes
		e.large(t, e.params[0], 8<<20, []string{"runs"})  // too slow if the decoder scans the whole output for each run
	}
}

// huge is the size of a chunk that exceeds the limits of ordinary transports and buffers.
const huge = 64 << 20

func roundTripHuge(t conformance.T, e *Env) {
	e.large(t, e.params[0], huge, []string{"zeros", "ramp", "smooth"})
}

func roundTripHugeNoise(t conformance.T, e *Env) {
	e.large(t, e.params[0], huge, []string{"noise"})
}

// large checks the round trip of chunks of about size bytes, one for each pattern in
// kinds.
func (e *Env) large(t conformance.T, params json.RawMessage, size int, kinds []string) {
	typ := e.first(t, 1000).in.DType
	n := size/int(room(typ, 1)) + 5
	c := e.open(t, params, typ, n)
	for _, pattern := range kinds {
		if c == nil || t.Failed() {
			return
		}
		src := data(typ, n, pattern, t.Seed())
		c.checkDecode(t, c.encode(t, src), src, len(src))
	}
}
