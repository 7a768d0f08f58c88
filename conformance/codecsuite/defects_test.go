package codecsuite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// wrong is a codec with one defect, which one of its functions adds.
type wrong struct {
	driver.Codec
	in     dtype.Type
	value  func(t dtype.Type, bits uint64) uint64 // replaces a number of 2, 4 or 8 bytes before it is encoded
	encode func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error)
	decode func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error)
	open   func(params json.RawMessage, in driver.Spec) error
	size   func(c driver.DecodedSizer, src []byte) (int64, error)
	spec   func(in driver.Spec, out *driver.Spec)
}

func (w *wrong) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if w.encode != nil {
		return w.encode(w.Codec, ctx, dst, src)
	}
	if w.value == nil || w.in.Order == dtype.Big || w.in.Size != 2 && w.in.Size != 4 && w.in.Size != 8 || len(src)%w.in.Size != 0 {
		return w.Codec.Encode(ctx, dst, src)
	}
	changed := make([]byte, len(src))
	for i := 0; i < len(src); i += w.in.Size {
		switch w.in.Size {
		case 2:
			v := w.value(w.in, uint64(binary.LittleEndian.Uint16(src[i:])))
			binary.LittleEndian.PutUint16(changed[i:], uint16(v))
		case 4:
			v := w.value(w.in, uint64(binary.LittleEndian.Uint32(src[i:])))
			binary.LittleEndian.PutUint32(changed[i:], uint32(v))
		default:
			binary.LittleEndian.PutUint64(changed[i:], w.value(w.in, binary.LittleEndian.Uint64(src[i:])))
		}
	}
	return w.Codec.Encode(ctx, dst, changed)
}

func (w *wrong) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if w.decode != nil {
		return w.decode(w.Codec, ctx, dst, src)
	}
	return w.Codec.Decode(ctx, dst, src)
}

func (w *wrong) DecodedSize(src []byte) (int64, error) {
	sizer := w.Codec.(driver.DecodedSizer) // zstd implements it
	if w.size != nil {
		return w.size(sizer, src)
	}
	return sizer.DecodedSize(src)
}

type wrongProvider struct {
	driver.Provider
	wrong wrong
}

func (p wrongProvider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if p.wrong.open != nil {
		if err := p.wrong.open(params, in); err != nil {
			return nil, driver.Spec{}, err
		}
	}
	c, out, err := p.Provider.Open(id, params, in)
	w := p.wrong
	w.Codec, w.in = c, in.DType
	if w.spec != nil {
		w.spec(in, &out)
	}
	return &w, out, err
}

// asFloat returns a function that applies f to floats of 4 and 8 bytes, given as bits,
// and returns other values unchanged.
func asFloat(f func(float64) float64) func(dtype.Type, uint64) uint64 {
	return func(t dtype.Type, bits uint64) uint64 {
		switch {
		case t.Kind != dtype.Float:
			return bits
		case t.Size == 2:
			return bits
		case t.Size == 4:
			return uint64(math.Float32bits(float32(f(float64(math.Float32frombits(uint32(bits)))))))
		}
		return math.Float64bits(f(math.Float64frombits(bits)))
	}
}

// TestDefectsAreCaught checks that each defect fails the check written for it.
func TestDefectsAreCaught(t *testing.T) {
	t.Parallel()
	failing := func(cause error) func(driver.Codec, context.Context, []byte, []byte) (int, error) {
		return func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if ncerr.KindOf(err) == ncerr.ErrCorrupt && err != nil {
				err = cause
			}
			return n, err
		}
	}
	var calls atomic.Int64
	for name, tc := range map[string]struct {
		wrong wrong
		want  string
	}{
		"truncates floats to integers": {wrong{value: asFloat(math.Trunc)}, "codec.roundtrip"},
		"clears the low 32 bits of doubles": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Float && t.Size == 8 {
				return bits &^ (1<<32 - 1)
			}
			return bits
		}}, "codec.roundtrip"},
		"truncates 64-bit integers to 32 bits": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Int && t.Size == 8 {
				return uint64(int64(int32(bits)))
			}
			return bits
		}}, "codec.roundtrip"},
		"converts unsigned integers to doubles": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Uint && t.Size == 8 && bits < 1<<63 {
				return uint64(float64(bits))
			}
			return bits
		}}, "codec.roundtrip"},
		"loses the sign of negative zero": {wrong{value: asFloat(func(f float64) float64 { return f + 0 })}, "codec.roundtrip"},
		"replaces NaN payloads": {wrong{value: asFloat(func(f float64) float64 {
			if math.IsNaN(f) {
				return math.NaN()
			}
			return f
		})}, "codec.roundtrip"},
		"flushes subnormal numbers to zero": {wrong{value: asFloat(func(f float64) float64 {
			if math.Abs(f) < 1e-307 {
				return 0
			}
			return f
		})}, "codec.roundtrip"},
		"replaces the payloads of 16-bit NaNs": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Float && t.Size == 2 && bits&0x7C00 == 0x7C00 && bits&0x3FF != 0 {
				return 0x7E00
			}
			return bits
		}}, "codec.roundtrip"},
		"replaces NaT with the epoch": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Datetime && bits == 1<<63 {
				return 0
			}
			return bits
		}}, "codec.roundtrip"},
		"clears the top bit of 32-bit unsigned integers": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Uint && t.Size == 4 {
				return bits &^ (1 << 31)
			}
			return bits
		}}, "codec.roundtrip"},
		"replaces a fill value with zero": {wrong{value: func(t dtype.Type, bits uint64) uint64 {
			if t.Kind == dtype.Int && t.Size == 2 && bits == 0x8001 {
				return 0
			}
			return bits
		}}, "codec.roundtrip"},
		"corrupts values of 1025 bytes":                     {changing(1025), "codec.roundtrip"},
		"corrupts blobs of 1001 bytes":                      {changing(1001), "codec.roundtrip.blob"},
		"corrupts values of 168 bytes":                      {changing(40 + 128), "codec.roundtrip.runs"},
		"corrupts repetitions after 32 KiB":                 {changing(1<<15 + 700), "codec.roundtrip.distances"},
		"corrupts values of more than 16 MiB":               {changing(1<<24 + 5), "codec.roundtrip.large"},
		"reuses a table for values with the same beginning": {wrong{encode: reusingTable()}, "codec.stateless.tables"},
		"includes an unwritten byte in its output": {wrong{
			encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				n, err := c.Encode(ctx, dst, src)
				return min(n+1, len(dst)), err
			},
			decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				return c.Decode(ctx, dst, src[:max(0, len(src)-1)])
			},
		}, "codec.open.kinds"},
		"allocates the size that the input claims": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if claim, _ := binary.Uvarint(src[min(2, len(src)):]); claim >= 128<<20 && claim < 512<<20 {
				runtime.KeepAlive(make([]byte, claim))
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.input.memory"},
		"rejects blobs as invalid": {wrong{open: func(_ json.RawMessage, in driver.Spec) error {
			if in.Kind == driver.Blob {
				return ncerr.ErrInvalid
			}
			return nil
		}}, "codec.open.kinds"},
		"rejects empty parameters": {wrong{open: func(params json.RawMessage, _ driver.Spec) error {
			if len(params) == 0 {
				return ncerr.ErrInvalid
			}
			return nil
		}}, "codec.open.forms"},
		"rejects parameters with an id": {wrong{open: func(params json.RawMessage, _ driver.Spec) error {
			if bytes.Contains(params, []byte(`"id"`)) {
				return ncerr.ErrInvalid
			}
			return nil
		}}, "codec.open.forms"},
		"declares the wrong element size": {wrong{spec: func(in driver.Spec, out *driver.Spec) {
			*out = driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 1}, Shape: in.Shape, MaxBytes: 3 * in.MaxBytes}
		}}, "codec.open.spec"},
		"declares too few output bytes": {wrong{spec: func(in driver.Spec, out *driver.Spec) { *out = in }}, "codec.open.spec"},
		"fails for scalars": {wrong{open: func(_ json.RawMessage, in driver.Spec) error {
			if in.Kind == driver.Array && len(in.Shape) == 0 {
				return ncerr.ErrInternal
			}
			return nil
		}}, "codec.open.kinds"},
		"modifies the caller's shape": {wrong{open: func(_ json.RawMessage, in driver.Spec) error {
			for i := range in.Shape[:max(0, len(in.Shape)-1)] {
				in.Shape[i] = 1
			}
			return nil
		}}, "codec.open.kinds"},
		"corrupts values of 490 bytes": {changing(70 * 7), "codec.open.kinds"},
		"writes beyond its output": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			clear(dst[len(dst):min(cap(dst), len(dst)+8)])
			return n, err
		}}, "codec.roundtrip"},
		"encodes half of a large value after cancellation": {wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if ctx.Err() != nil && len(src) > 100_000 {
				return c.Encode(context.WithoutCancel(ctx), dst, src[:len(src)/2])
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.cancel"},
		"caches values by length and first 1000 bytes": {wrong{decode: caching()}, "codec.stateless"},
		"shares one buffer between calls":              {wrong{decode: sharing()}, "codec.concurrent"},
		"encodes half a value after cancellation": {wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if ctx.Err() != nil {
				return c.Encode(context.WithoutCancel(ctx), dst, src[:len(src)/2])
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.cancel"},
		"fails beyond 2 MB": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if n > 2_000_000 && len(src) < n/4 {
				return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the stream is cut")
			}
			return n, err
		}}, "codec.roundtrip.large"},
		"corrupts values beyond 5 MiB": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if n > 5<<20 {
				dst[5<<20]++
			}
			return n, err
		}}, "codec.roundtrip.huge"},
		"corrupts values of 65536 bytes": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if n == 65536 {
				dst[n-1]++
			}
			return n, err
		}}, "codec.roundtrip.edges"},
		"returns one byte for an empty value": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if n == 0 && err == nil && len(dst) > 0 {
				return 1, nil
			}
			return n, err
		}}, "codec.ceiling.roomy"},
		"needs more room than DecodedSize claims": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err == nil && n == len(dst) {
				return 0, driver.ShortBuffer("", len(dst))
			}
			return n, err
		}}, "codec.size.decoded"},
		"returns truncated input as the value": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if ncerr.KindOf(err) == ncerr.ErrCorrupt && err != nil && len(src) > 20 && len(dst) > len(src) {
				return copy(dst, src), nil
			}
			return n, err
		}}, "codec.input.truncated"},
		"decodes empty input to an empty value": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if len(src) == 0 {
				return 0, nil
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.input.truncated"},
		"reports long truncated input as a short buffer": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err != nil && len(src) > 8 {
				err = driver.ShortBuffer("", len(dst))
			}
			return n, err
		}}, "codec.input.truncated"},
		"reports a recovered panic":               {wrong{decode: failing(ncerr.Errorf(ncerr.ErrFilter, "", "", "panic: index out of range"))}, "codec.input.truncated"},
		"reports damaged input as a short buffer": {wrong{decode: failing(driver.ShortBuffer("", 1))}, "codec.input.truncated"},
		"reports damaged input as absence":        {wrong{decode: failing(ncerr.ErrNotFound)}, "codec.input.garbage"},
		"returns half the decoded size": {wrong{size: func(c driver.DecodedSizer, src []byte) (int64, error) {
			n, err := c.DecodedSize(src)
			return n / 2, err
		}}, "codec.size.decoded"},
		"panics in DecodedSize": {wrong{size: func(c driver.DecodedSizer, src []byte) (int64, error) {
			return int64(src[0]) + int64(src[4]), nil
		}}, "codec.size.decoded"},
		"corrupts every 1000th call": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if calls.Add(1)%1000 == 0 && n > 0 {
				dst[0]++
			}
			return n, err
		}}, "codec.lasting.calls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, &codecsuite.Target{Provider: wrongProvider{builtin.Provider(), tc.wrong}, ID: "zstd"}, tc.want)
		})
	}
}

// lossyProvider describes all its codecs as lossy.
type lossyProvider struct{ driver.Provider }

func (p lossyProvider) Describe() []driver.Description {
	all := p.Provider.Describe()
	for i := range all {
		all[i].Lossy = true
	}
	return all
}

// TestLossyDefectsAreCaught checks that the suite detects defects other than lost
// precision in lossy codecs.
func TestLossyDefectsAreCaught(t *testing.T) {
	t.Parallel()
	var calls, opens atomic.Int64
	for name, tc := range map[string]struct {
		wrong wrong
		want  string
	}{
		"shares one buffer between calls": {wrong{decode: sharing()}, "codec.concurrent"},
		"corrupts every 1000th call": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if calls.Add(1)%1000 == 0 && n > 0 {
				dst[0]++
			}
			return n, err
		}}, "codec.lasting.calls"},
		"returns the length of the buffer": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			_, err := c.Decode(ctx, dst, src)
			return len(dst), err
		}}, "codec.ceiling.roomy"},
		"truncates values to the buffer": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if ncerr.KindOf(err) == ncerr.ErrShortBuffer {
				return len(dst), nil
			}
			return n, err
		}}, "codec.ceiling.decode"},
		"writes to the capacity of its buffer": {wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Encode(ctx, dst[:cap(dst)], src)
			if err != nil {
				return c.Encode(ctx, dst, src)
			}
			if n > len(dst) {
				return 0, driver.ShortBuffer("encode", len(dst))
			}
			return n, err
		}}, "codec.ceiling.encode"},
		"modifies its input": {wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			src[0]++
			return n, err
		}}, "codec.source"},
		"clears output in the next call": {keeping()["clears output in the next call"], "codec.released"},
		"encodes half a value after cancellation": {wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if ctx.Err() != nil {
				return c.Encode(context.WithoutCancel(ctx), dst, src[:len(src)/2])
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.cancel"},
		"returns different data in each codec": {wrong{
			open: func(json.RawMessage, driver.Spec) error { opens.Add(1); return nil },
			decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				n, err := c.Decode(ctx, dst, src)
				if n > 0 {
					dst[0] += byte(opens.Load())
				}
				return n, err
			},
		}, "codec.stateless"},
		"": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := &codecsuite.Target{Provider: lossyProvider{wrongProvider{builtin.Provider(), tc.wrong}}, ID: "zstd"}
			if tc.want != "" {
				mustFail(t, target, tc.want)
			} else if r := conformance.Run(t.Context(), codecsuite.Suite(), target, &conformance.Options{Limit: 10 * time.Minute}); !r.OK() {
				t.Errorf("a correct codec fails: %+v", r.Results)
			}
		})
	}
}

// changing returns a codec that changes the last byte of decoded values of n bytes.
func changing(n int) wrong {
	return wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		got, err := c.Decode(ctx, dst, src)
		if got == n {
			dst[n-1]++
		}
		return got, err
	}}
}

// reusingTable returns an Encode that corrupts values that are longer than the previous
// value and start with the same 1000 bytes.
func reusingTable() func(driver.Codec, context.Context, []byte, []byte) (int, error) {
	var mu sync.Mutex
	var before []byte
	return func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		n, err := c.Encode(ctx, dst, src)
		if err == nil && n > 0 && len(src) > len(before) && len(before) > 1000 && bytes.HasPrefix(src, before[:1000]) {
			dst[n-1]++
		}
		before = bytes.Clone(src)
		return n, err
	}
}

// TestNumbersAsStrings checks that the suite detects a filter that rejects numbers in
// strings.
func TestNumbersAsStrings(t *testing.T) {
	t.Parallel()
	mustFail(t, &codecsuite.Target{
		Provider: wrongProvider{builtin.Provider(), wrong{open: func(params json.RawMessage, _ driver.Spec) error {
			if bytes.Contains(params, []byte(`"5"`)) {
				return ncerr.ErrInvalid
			}
			return nil
		}}},
		ID: "zstd", Params: []json.RawMessage{json.RawMessage(`{"level":5}`)},
	}, "codec.open.forms")
}

// caching returns a Decode that, for values of at least 4096 bytes, returns an earlier
// value with the same length and the same first 1000 bytes.
func caching() func(driver.Codec, context.Context, []byte, []byte) (int, error) {
	var mu sync.Mutex
	seen := map[string][]byte{}
	return func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		n, err := c.Decode(ctx, dst, src)
		if err != nil || n < 4096 {
			return n, err
		}
		mu.Lock()
		defer mu.Unlock()
		key := strconv.Itoa(n) + string(dst[:1000])
		if seen[key] == nil {
			seen[key] = bytes.Clone(dst[:n])
		}
		return copy(dst, seen[key]), nil
	}
}

// sharing returns a Decode that copies its input to a buffer shared by all calls.
func sharing() func(driver.Codec, context.Context, []byte, []byte) (int, error) {
	var mu sync.Mutex
	var buffer []byte
	return func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		mu.Lock()
		buffer = append(buffer[:0], src...)
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		return c.Decode(ctx, dst, buffer)
	}
}

// TestConcurrentParams checks that the suite detects scratch memory that calls share, even if
// only codecs with the second parameters and multi-byte elements use it.
func TestConcurrentParams(t *testing.T) {
	t.Parallel()
	mustFail(t, &codecsuite.Target{
		Provider: someProvider{
			builtin.Provider(), func(params json.RawMessage, in driver.Spec) bool { return len(params) > 2 && in.DType.Size > 1 }, wrong{decode: sharing()},
		},
		ID:     "zstd",
		Params: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"level":9}`)},
	}, "codec.concurrent")
}

// TestParamsAreSeparate checks that the suite detects a process that uses the parameters of
// the codec opened first or last for all codecs.
func TestParamsAreSeparate(t *testing.T) {
	t.Parallel()
	var first json.RawMessage
	sticky := stickyProvider{builtin.Provider(), &first, 0}
	target := &codecsuite.Target{
		Provider: sticky, ID: "zlib", Params: []json.RawMessage{json.RawMessage(`{"level":9}`), json.RawMessage(`{"level":0}`)},
		Restart: func() error { first = nil; return nil },
	}
	mustFail(t, target, "codec.params.apart")
	target.Provider = latestProvider{builtin.Provider(), new(driver.Codec)}
	mustFail(t, target, "codec.params.apart")
	var level json.RawMessage
	mustFail(t, &codecsuite.Target{
		Provider: describing{builtin.Provider(), nil, func(params json.RawMessage) json.RawMessage {
			switch {
			case !bytes.Contains(params, []byte(`"level":9`)):
				return params
			case level == nil:
				level = params
			}
			return level // ignores the parameter "checksum" of later sets
		}},
		ID: "zstd", Params: []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{"checksum":true,"level":9}`)},
		Restart: func() error { level = nil; return nil },
	}, "codec.params.apart")
	target.Provider = builtin.Provider()
	if r := conformance.Run(t.Context(), codecsuite.Suite(), target, &conformance.Options{Select: []string{"codec.params.apart"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
		t.Errorf("a correct codec fails: %+v", r.Results)
	}
}

// stickyProvider opens all codecs with the parameters of the first one.
type stickyProvider struct {
	driver.Provider
	first   *json.RawMessage
	minSize int // minimum size of the elements of affected types
}

func (p stickyProvider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if in.DType.Size < p.minSize {
		return p.Provider.Open(id, params, in)
	}
	if *p.first == nil {
		*p.first = params
	}
	return p.Provider.Open(id, *p.first, in)
}

// latestProvider opens codecs that all behave like the latest one.
type latestProvider struct {
	driver.Provider
	latest *driver.Codec
}

func (p latestProvider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c, out, err := p.Provider.Open(id, params, in)
	if err == nil {
		*p.latest = c
	}
	return latestCodec{p.latest}, out, err
}

type latestCodec struct{ latest *driver.Codec }

func (c latestCodec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return (*c.latest).Encode(ctx, dst, src)
}

func (c latestCodec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return (*c.latest).Decode(ctx, dst, src)
}

// TestSmallLeaks checks that the suite detects processes that leak a little memory per call,
// per opened codec or per encoded byte of noise, or a descriptor per call or per damaged
// input.
func TestSmallLeaks(t *testing.T) {
	t.Parallel()
	for name, leak := range map[string]conformance.Usage{"call": {Memory: 3000}, "open": {Memory: 64 << 10}, "descriptor": {Descriptors: 1}, "noise": {Memory: 1}, "damage": {Descriptors: 1}} {
		var calls, opens, noise, damage atomic.Int64
		target := &codecsuite.Target{
			Provider: wrongProvider{builtin.Provider(), wrong{
				decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
					calls.Add(1)
					n, err := c.Decode(ctx, dst, src)
					if err != nil {
						damage.Add(1)
					}
					return n, err
				},
				encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
					n, err := c.Encode(ctx, dst, src)
					if len(src) > 4000 && len(src) < 100_000 {
						noise.Add(int64(n))
					}
					return n, err
				},
				open: func(json.RawMessage, driver.Spec) error { opens.Add(1); return nil },
			}},
			ID: "crc32", Usage: func() (conformance.Usage, error) {
				n := map[string]*atomic.Int64{"open": &opens, "noise": &noise, "damage": &damage}[name]
				if n == nil {
					n = &calls
				}
				return conformance.Usage{Memory: n.Load() * leak.Memory, Descriptors: int(n.Load()) * leak.Descriptors}, nil
			},
		}
		mustFail(t, target, "codec.lasting.memory")
	}
}

// TestMemoryLeak checks that the suite detects a process that keeps everything it has decoded,
// and accepts a cache of limited size.
func TestMemoryLeak(t *testing.T) {
	t.Parallel()
	var kept atomic.Int64
	target := &codecsuite.Target{
		Provider: wrongProvider{builtin.Provider(), wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			kept.Add(int64(n))
			return n, err
		}}},
		ID: "crc32", Usage: func() (conformance.Usage, error) { return conformance.Usage{Memory: kept.Load()}, nil },
	}
	mustFail(t, target, "codec.lasting.memory")
	target.Usage = func() (conformance.Usage, error) { return conformance.Usage{Memory: min(kept.Load(), 100<<20)}, nil } // a cache
	r := conformance.Run(t.Context(), codecsuite.Suite(), target, &conformance.Options{Select: []string{"codec.lasting.memory"}, Limit: 10 * time.Minute})
	if !r.OK() {
		t.Errorf("a cache of limited size fails: %+v", r.Results)
	}
}

func mustFail(t *testing.T, target *codecsuite.Target, want string) {
	t.Helper()
	r := conformance.Run(t.Context(), codecsuite.Suite(), target, &conformance.Options{Select: []string{want}, Seed: 5, Effort: conformance.Thorough, Limit: 10 * time.Minute})
	if len(r.Results) != 1 || r.Results[0].Status != conformance.StatusFail {
		t.Errorf("%s: want a failure, got %+v", want, r.Results)
		return
	}
	if strings.Contains(r.Results[0].Message, "<nil>") {
		t.Errorf("%s: message contains <nil>: %s", want, r.Results[0].Message)
	}
	t.Logf("%.200s", r.Results[0].Message)
}
