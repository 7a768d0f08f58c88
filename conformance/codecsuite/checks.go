package codecsuite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func describe(t conformance.T, e *Env) {
	for _, d := range e.target.Provider.Describe() {
		if d.ID == e.target.ID || d.V3 != "" && d.V3 == e.target.ID {
			if d.Summary == "" || !d.Encode && !d.Decode {
				t.Errorf("%q has no summary or no direction: %+v", d.ID, d)
			}
			return
		}
	}
	t.Errorf("%q is not described", e.target.ID)
}

func unknown(t conformance.T, e *Env) {
	for _, id := range []string{"no-such-codec", "", e.target.ID + "x"} {
		c := e.first(t, 100)
		_, _, err := e.target.Provider.Open(id, nil, c.in)
		if ncerr.KindOf(err) != ncerr.ErrNoFilter {
			t.Errorf("id %q: want ErrNoFilter, got %v", id, err)
		}
	}
}

func invalid(t conformance.T, e *Env) {
	c := e.first(t, 100)
	for _, p := range e.target.Invalid {
		if _, _, err := e.target.Provider.Open(e.target.ID, p, c.in); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("parameters %s: want ErrInvalid, got %v", p, err)
		}
	}
}

func notJSON(t conformance.T, e *Env) {
	c := e.first(t, 100)
	for _, p := range []string{"[]", "{", "3", `"text"`, "\x00"} {
		if _, _, err := e.target.Provider.Open(e.target.ID, json.RawMessage(p), c.in); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("parameters %q: want ErrInvalid, got %v", p, err)
		}
	}
}

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
			for k, p := range patterns {
				// All for the first type; for each other what its bits may be, and one by turns.
				if c.nth > 0 && k != (i+c.nth)%4 && (p != "bits" && p != "special" || n > 0 && n < 30) {
					continue
				}
				src := data(c.in.DType, n, p, t.Seed())
				c.back(t, c.encode(t, src), src, len(src))
			}
		})
	}
}

// roundTripEdges has lengths around those at which buffers and counters of 16
// bits end.
func roundTripEdges(t conformance.T, e *Env) {
	for _, p := range e.params[:1] {
		for _, typ := range e.types {
			size := int(room(typ, 1))
			for n, pattern := range map[int]string{e.effort.edges/size - 1: "ramp", e.effort.edges / size: "bits", e.effort.edges/size + 1: "zeros"} {
				if c := e.open(t, p, typ, n); c != nil {
					src := data(typ, n, pattern, t.Seed())
					c.back(t, c.encode(t, src), src, len(src))
				}
			}
		}
	}
}

func roundTripLarge(t conformance.T, e *Env) {
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
		t.Errorf("encode %d bytes of %v with %s: %d bytes, %v", len(src), c.in.DType, c.params, n, err)
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
				t.Errorf("%d of %d bytes of room: want ErrShortBuffer, got %v", room, full, err)
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
		for _, room := range []int{0, 1, len(src) / 2, len(src) - 1} {
			dst, whole := guarded(room)
			if _, err := c.Decode(t.Context(), dst, enc); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
				t.Errorf("%d of %d bytes of room: want ErrShortBuffer, got %v", room, len(src), err)
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
		c.back(t, enc, keep, len(keep))
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
				t.Errorf("the size of %d bytes of %v with %s: want it, or 0 where it is not told, got %d, %v", len(src), c.in.DType, c.params, size, err)
			}
			r := rand.New(rand.NewPCG(t.Seed(), 4))
			for i := range min(len(enc), 40) {
				bad := bytes.Clone(enc)
				bad[i] ^= byte(1 + r.IntN(255))
				for _, p := range [][]byte{enc[:i:i], bad} {
					if size, err := safeSize(sizer, p); errors.Is(err, errPanic) || err == nil && size < 0 {
						t.Errorf("the size of damaged input: %d, %v", size, err)
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
		src := data(c.in.DType, 200, patterns[i%len(patterns)], uint64(i))
		c.back(t, c.encode(t, src), src, len(src))
	}
}

// lastingMemory decodes chunks of a mebibyte in batches, and measures.
func lastingMemory(t conformance.T, e *Env) {
	const batches, calls, size = 4, 64, 1 << 20
	typ := e.first(t, 1000).in.DType
	c := e.open(t, e.params[0], typ, size/int(room(typ, 1)))
	src := data(typ, size/int(room(typ, 1)), "smooth", t.Seed())
	enc := c.encode(t, src)
	var at [batches + 1]int64
	for b := range at {
		for i := 0; b > 0 && i < calls; i++ {
			c.back(t, enc, src, len(src))
			if i%16 == 0 {
				c.encode(t, src)
			}
		}
		var err error
		if at[b], err = e.target.Memory(); err != nil {
			t.Fatalf("measure: %v", err)
		}
	}
	for b := 2; b <= batches; b++ { // the first may fill pools
		if at[b]-at[b-1] < calls*size/2 {
			return
		}
	}
	t.Errorf("each %d calls for %d bytes take more memory: %d", calls, size, at)
}

func deterministic(t conformance.T, e *Env) {
	for _, p := range e.params {
		typ := e.first(t, 1000).in.DType
		a, b := e.open(t, p, typ, 2000), e.open(t, p, typ, 2000)
		src := data(typ, 2000, "smooth", t.Seed())
		want := a.encode(t, src)
		a.encode(t, data(typ, 2000, "noise", t.Seed()))
		for _, c := range []*opened{a, b} {
			if got := c.encode(t, src); !bytes.Equal(want, got) {
				t.Errorf("%s: the same bytes are encoded in two ways", p)
			}
		}
	}
}

func concurrent(t conformance.T, e *Env) {
	c := e.first(t, 3000)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				src := data(c.in.DType, 3000, patterns[(g+i)%len(patterns)], uint64(g))
				enc, dst := make([]byte, c.out.MaxBytes), make([]byte, len(src))
				n, err := c.Encode(t.Context(), enc, src)
				if err != nil {
					t.Errorf("encode: %v", err)
					return
				}
				if n, err = c.Decode(t.Context(), dst, enc[:n]); err != nil || !bytes.Equal(src, dst[:n]) {
					t.Errorf("goroutine %d gets other bytes back: %v", g, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func cancelled(t conformance.T, e *Env) {
	c := e.first(t, 1000)
	src := data(c.in.DType, 1000, "smooth", t.Seed())
	enc := c.encode(t, src)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dst := make([]byte, len(src))
	n, err := c.Decode(ctx, dst, enc)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("decode: want a cancellation, got %v", err)
	}
	if err == nil && !bytes.Equal(src, dst[:n]) {
		t.Errorf("decode ends without an error and with other bytes")
	}
	if _, err := c.Encode(ctx, make([]byte, c.out.MaxBytes), src); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("encode: want a cancellation, got %v", err)
	}
	c.back(t, enc, src, len(src))
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
		plain[i] = data(c.in.DType, 700, patterns[i%len(patterns)], uint64(i))
		want[i] = c.encode(t, plain[i])
		jobs[i] = driver.Job{Src: plain[i], Limit: c.out.MaxBytes}
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
		if err != nil || !bytes.Equal(want[i], out) {
			t.Errorf("%s: job %d gives other bytes than the step: %v", what, i, err)
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
