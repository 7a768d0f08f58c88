package codecsuite

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

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
			c.encodeSized(t, src)
		})
	}
}

// encodeSized encodes src into a buffer of the promised size. The codec may refuse a
// value that its encoded type cannot hold.
func (c *opened) encodeSized(t conformance.T, src []byte) {
	dst, whole := guarded(int(c.out.MaxBytes))
	n, err := c.Encode(t.Context(), dst, src)
	if err != nil && ncerr.KindOf(err) != ncerr.ErrConvert || n > len(dst) {
		t.Errorf("encode %d bytes of %v with %s: got %d bytes, %s", len(src), c.in.DType, c.params, n, outcome(err))
	}
	if !whole() {
		t.Errorf("encode writes outside its output buffer")
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
			if err == nil && n <= room { // a different, shorter encoding is correct too
				c.checkDecode(t, dst[:n], src, len(src))
			} else if ncerr.KindOf(err) != ncerr.ErrShortBuffer {
				t.Errorf("encode into a buffer of %d bytes, but %d are needed: want ErrShortBuffer, got %s", room, full, outcome(err))
			}
			if !whole() {
				t.Errorf("encode into a buffer of %d bytes, but %d are needed: the call writes outside the buffer", room, full)
			}
			if again := c.encode(t, src); len(again) != full {
				t.Errorf("encode after a call with a buffer of %d bytes: want %d bytes, got %d", room, full, len(again))
			}
			if most := c.out.MaxBytes; most < 1<<20 { // a library might use the capacity of its output buffer
				dst, whole := guarded(int(most) + room)
				clear(dst[room:])
				_, _ = c.Encode(t.Context(), dst[:room], src) // the call above has checked the result
				if !whole() || bytes.Count(dst[room:], []byte{0}) < int(most) {
					t.Errorf("encode into the first %d bytes of a larger buffer, but %d are needed: the call writes to the rest of the buffer or outside it", room, full)
				}
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
				t.Errorf("decode into a buffer of %d bytes, but %d are needed: want ErrShortBuffer, got %s", room, len(src), outcome(err))
			}
			if !whole() {
				t.Errorf("decode into a buffer of %d bytes, but %d are needed: the call writes outside the buffer", room, len(src))
			}
		}
	})
}

// ceilingMemory decodes a value of 128 MiB into a small buffer. It tests only codecs that
// compress zeros well. A codec in a separate process is measured in a fresh process.
func ceilingMemory(t conformance.T, e *Env) {
	const size, ratio, room = 128 << 20, 64, 1000
	typ := e.first(t, 1000).in.DType
	if !typ.Fixed() {
		t.Skipf("the elements have variable length")
	}
	try := e.open(t, e.params[0], typ, 1<<20/typ.Size)
	if try == nil || len(try.encode(t, make([]byte, try.in.MaxBytes))) > 1<<20/ratio {
		t.Skipf("the codec does not compress zeros to 1/%d of their size", ratio)
	}
	c := e.open(t, e.params[0], typ, size/typ.Size)
	if c == nil {
		t.Skipf("the codec refuses chunks of %d bytes", size)
	}
	enc := c.encode(t, make([]byte, c.in.MaxBytes))
	if e.target.Usage != nil && e.target.Restart != nil {
		t.Step("restart")
		if err := e.target.Restart(); err != nil {
			t.Fatalf("restart: %v", err)
		}
	}
	c = e.open(t, e.params[0], typ, len(enc)/typ.Size+1)
	small := c.encode(t, make([]byte, c.in.MaxBytes))
	c.checkDecode(t, small, make([]byte, c.in.MaxBytes), int(c.in.MaxBytes))
	most := uint64(maxDecodeMemory)
	memory := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	if e.target.Usage != nil {
		most = 2 * maxDecodeMemory
		memory = func() uint64 {
			u, err := e.target.Usage()
			if err != nil {
				t.Fatalf("measure resource usage: %v", err)
			}
			return uint64(max(0, u.Memory))
		}
	}
	least := uint64(math.MaxUint64)
	for round := range 20 { // other goroutines may allocate too
		t.Step("decode", strconv.Itoa(size), "bytes into a small buffer")
		before := memory()
		n, err := c.safeDecode(t.Context(), make([]byte, room), enc)
		if err == nil || ncerr.KindOf(err) != ncerr.ErrShortBuffer && ncerr.KindOf(err) != ncerr.ErrCorrupt {
			t.Errorf("decode into a buffer of %d bytes, but %d are needed: want ErrShortBuffer, got %d bytes, %s", room, size, n, outcome(err))
			return
		}
		after := memory()
		least = min(least, max(after, before)-before)
		if least <= most || e.target.Usage != nil { // later calls of another process reuse memory
			break
		}
		time.Sleep(time.Duration(round) * time.Millisecond) // let other goroutines finish
	}
	if least > most {
		t.Errorf("decoding %d bytes, which decode to %d bytes, into a buffer of %d bytes allocates %d MiB", len(enc), size, room, least>>20)
	}
}

// largerBuffer decodes arrays and unstructured bytes, also constant ones, which a codec may
// encode differently.
func largerBuffer(t conformance.T, e *Env) {
	const n, more = 300, 5000
	e.each(t, n, func(c *opened) {
		e.largerBuffer(t, c, n, more)
		if !c.in.DType.Fixed() || c.in.DType.Kind == dtype.Bool || c.lossy {
			return
		}
		blob, err := e.tryOpen(c.params, driver.Spec{Kind: driver.Blob, DType: c.in.DType, MaxBytes: c.in.MaxBytes + more})
		if err == nil { // codec.open.kinds checks the error
			e.largerBuffer(t, blob, n, more)
		}
	})
	e.each(t, 0, func(c *opened) { e.largerBuffer(t, c, 0, more) })
}

// largerBuffer decodes n elements into buffers that are up to more bytes longer.
func (e *Env) largerBuffer(t conformance.T, c *opened, n, more int) {
	for _, pattern := range []string{"smooth", "zeros"} {
		src := data(c.in.DType, n, pattern, t.Seed())
		enc, want := c.encode(t, src), e.value(t, c, src)
		for _, more := range []int{1, 13, more} {
			c.checkDecode(t, enc, want, len(want)+more)
		}
	}
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
		c.checkDecode(t, enc, e.value(t, c, keep), len(keep))
		if !bytes.Equal(keepEnc, enc) {
			t.Errorf("decode changes its input")
		}
	})
}

// decodedSize checks codecs that compute the decoded size from the encoded bytes. They
// may return any size for damaged input, but must not panic or return a negative size.
func decodedSize(t conformance.T, e *Env) {
	computes := false
	for _, n := range []int{0, 300, 5000} {
		e.each(t, n, func(c *opened) {
			sizer, ok := c.Codec.(driver.DecodedSizer)
			if !ok {
				return
			}
			computes = true
			src := data(c.in.DType, n, "smooth", t.Seed())
			enc := c.encode(t, src)
			size, err := sizer.DecodedSize(enc)
			if err != nil || size != 0 && size < int64(len(src)) || c.in.DType.Fixed() && size > int64(len(src)) {
				t.Errorf("DecodedSize for %d bytes of %v with %s: want that size, 0 or, for elements of variable length, an upper bound; got %d, %s", len(src), c.in.DType, c.params, size, outcome(err))
			}
			if size >= int64(len(src)) && size <= c.in.MaxBytes { // a buffer of the claimed size is large enough
				c.checkDecode(t, enc, e.value(t, c, src), int(size))
			}
			r := rand.New(rand.NewPCG(t.Seed(), 4))
			for i := range min(len(enc), 40) {
				bad := bytes.Clone(enc)
				bad[i] ^= byte(1 + r.IntN(255))
				for _, p := range [][]byte{enc[:i:i], bad} {
					if size, err := safeSize(sizer, p); errors.Is(err, errPanic) || err == nil && size < 0 {
						t.Errorf("DecodedSize of damaged input, %s: want an error or a size, got %d, %s", abbreviated(p), size, outcome(err))
					}
				}
			}
		})
	}
	if !computes {
		t.Skipf("the codec does not implement DecodedSizer, or runs in another process")
	}
}

func safeSize(s driver.DecodedSizer, src []byte) (n int64, err error) {
	defer recovered(&err)
	return s.DecodedSize(src)
}
