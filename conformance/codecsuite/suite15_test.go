package codecsuite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime"
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

// someProvider opens defective codecs for the parameters and types for which affected returns
// true.
type someProvider struct {
	driver.Provider
	affected func(params json.RawMessage, in driver.Spec) bool
	wrong    wrong
}

func (p someProvider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c, out, err := p.Provider.Open(id, params, in)
	if err == nil && p.affected(params, in) {
		w := p.wrong
		w.Codec = c
		c = &w
	}
	return c, out, err
}

// TestSuite15DefectsAreCaught checks that the suite finds defects that its version 1.5 did not
// find.
func TestSuite15DefectsAreCaught(t *testing.T) {
	t.Parallel()
	unsigned := wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		if len(src) > 100 && bytes.Count(src, []byte{0}) == len(src)-1 && bytes.Count(src, []byte{0x80}) == 1 {
			src = make([]byte, len(src))
		}
		return c.Encode(ctx, dst, src)
	}}
	var encodes atomic.Int64
	var damaged atomic.Bool
	shared := sharing()
	for name, tc := range map[string]struct {
		id       string
		affected func(in driver.Spec) bool
		wrong    wrong
		want     string
	}{
		"corrupts values of 20,480 bytes":      {"zstd", nil, changing(10 * 2048), "codec.roundtrip.distances"},
		"corrupts large rows of wide elements": {"zstd", nil, changing(2 * 513 * 1025), "codec.roundtrip.large"},
		"fails for many runs": {"zlib", nil, wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			runs := 0
			for at := 0; at+8 <= n && n > 5<<20; at += 8 {
				if bytes.Count(dst[at:at+8], dst[at:at+1]) == 8 {
					runs++
				}
			}
			if runs > 1000 && runs < n/9 {
				return 0, ncerr.ErrCorrupt
			}
			return n, err
		}}, "codec.roundtrip.large"},
		"loses a single negative zero":                {"zstd", func(in driver.Spec) bool { return in.DType.Kind == dtype.Float && in.DType.Size == 8 }, unsigned, "codec.roundtrip"},
		"loses a negative zero among fill values":     {"zstd", func(in driver.Spec) bool { return len(in.Fill) == 8 }, unsigned, "codec.roundtrip"},
		"loses the end of long strings":               {"zstd", func(in driver.Spec) bool { return in.DType.Size == 20 }, unsigned, "codec.open.kinds"},
		"corrupts big-endian Unicode strings":         {"zstd", func(in driver.Spec) bool { return in.DType.Kind == dtype.Unicode && in.DType.Order == dtype.Big }, changing(700 * 12), "codec.open.kinds"},
		"trims a trailing NUL":                        {"vlen-utf8", nil, truncating("a\x00"), "codec.roundtrip"},
		"caches values by their first and last bytes": {"zstd", nil, endsOnly(), "codec.stateless"},
		"shares memory after damaged input": {"zstd", nil, wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if damaged.Load() {
				return shared(c, ctx, dst, src)
			}
			n, err := c.Decode(ctx, dst, src)
			if err != nil {
				damaged.Store(true)
			}
			return n, err
		}}, "codec.concurrent"},
		"depends on the previous content of the output buffer": {"zstd", nil, wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			before := dst[0]
			n, err := c.Encode(ctx, dst, src)
			if len(src) == 4099 && before != 0xC5 {
				dst[n-1]++
			}
			return n, err
		}}, "codec.roundtrip"},
		"returns the previous content of the buffer for damaged input": {"shuffle", nil, wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			before := bytes.Clone(dst[:min(1, len(dst))])
			n, err := c.Decode(ctx, dst, src)
			if len(src) < 16 && n > 0 {
				copy(dst, before)
			}
			return n, err
		}}, "codec.input.truncated"},
		"returns an error that depends on the output buffer": {"zstd", nil, wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			before := bytes.Clone(dst[:min(1, len(dst))])
			n, err := c.Decode(ctx, dst, src)
			if err != nil && len(src) > 2 && bytes.Equal(before, []byte{0x3A}) {
				return 0, driver.ShortBuffer("", 1)
			}
			return n, err
		}}, "codec.input.flipped"},
		"corrupts the 65,537th value": {"zstd", nil, wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Encode(ctx, dst, src)
			if encodes.Add(1) == 1<<16+1 {
				dst[n-1]++
			}
			return n, err
		}}, "codec.lasting.calls"},
		"panics for large damaged input": {"zlib", nil, wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err != nil && len(src) > 1<<20 {
				panic("index out of range")
			}
			return n, err
		}}, "codec.input.large"},
		"ignores the checksum of values of megabytes": {"crc32", nil, unchecked(func(n int) bool { return n > 1<<20 }), "codec.input.detected"},
		"allocates a size claimed after the first 100 bytes": {"zstd", nil, wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			for at := 100; at+4 <= min(200, len(src)); at++ {
				if claim := binary.LittleEndian.Uint32(src[at:]); claim == 256<<20 {
					runtime.KeepAlive(make([]byte, claim))
				}
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.input.memory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			affected := func(_ json.RawMessage, in driver.Spec) bool { return tc.affected == nil || tc.affected(in) }
			mustFail(t, &codecsuite.Target{Provider: someProvider{builtin.Provider(), affected, tc.wrong}, ID: tc.id}, tc.want)
		})
	}
	t.Run("uses the byte order opened last", func(t *testing.T) {
		t.Parallel()
		mustFail(t, &codecsuite.Target{Provider: lastOrder{builtin.Provider(), new(atomic.Uint32)}, ID: "zstd"}, "codec.stateless")
	})
}

// TestSpecsAreCaught checks that the suite detects a Spec whose kind or type differs from the
// description.
func TestSpecsAreCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id   string
		spec func(in driver.Spec, out *driver.Spec)
	}{
		"returns bytes although described as an array": {"delta", func(_ driver.Spec, out *driver.Spec) {
			*out = driver.Spec{Kind: driver.Blob, DType: out.DType, MaxBytes: out.MaxBytes}
		}},
		"returns an array although described as bytes": {"shuffle", func(in driver.Spec, out *driver.Spec) { *out = in }},
		"returns the other byte order": {"bitround", func(_ driver.Spec, out *driver.Spec) {
			if out.DType.Order != dtype.OrderNone {
				out.DType.Order = dtype.Little + dtype.Big - out.DType.Order
			}
		}},
		"returns another type of the same size": {"fixedscaleoffset", func(_ driver.Spec, out *driver.Spec) {
			if out.DType.Size == 4 {
				out.DType.Kind = dtype.Float
			}
		}},
		"returns bytes of another type": {"zlib", func(_ driver.Spec, out *driver.Spec) {
			out.DType = dtype.Type{Kind: dtype.Uint, Size: 1}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(wrongProvider{builtin.Provider(), wrong{spec: tc.spec}}, tc.id), "codec.open.spec")
		})
	}
}

// truncating returns a codec that drops the last byte of values that end with end.
func truncating(end string) wrong {
	return wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		n, err := c.Decode(ctx, dst, src)
		if err == nil && bytes.HasSuffix(dst[:n], []byte(end)) {
			n--
		}
		return n, err
	}}
}

// endsOnly returns a codec that encodes a value like the previous one if their length,
// first 64 and last 64 bytes are equal.
func endsOnly() wrong {
	const end = 64
	var mu sync.Mutex
	var last driver.Codec
	var value, encoded []byte
	return wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if n := len(src); c == last && n > 2*end && n == len(value) && bytes.Equal(src[:end], value[:end]) && bytes.Equal(src[n-end:], value[n-end:]) && len(dst) >= len(encoded) {
			return copy(dst, encoded), nil
		}
		n, err := c.Encode(ctx, dst, src)
		if err == nil {
			last, value, encoded = c, bytes.Clone(src), bytes.Clone(dst[:n])
		}
		return n, err
	}}
}

// lastOrder opens codecs that decode wrong values after a codec for the other byte
// order was opened.
type lastOrder struct {
	driver.Provider
	last *atomic.Uint32
}

func (p lastOrder) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c, out, err := p.Provider.Open(id, params, in)
	own := uint32(in.DType.Order)
	p.last.Store(own)
	return &wrong{Codec: c, decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		n, err := c.Decode(ctx, dst, src)
		if n > 0 && p.last.Load()+own == uint32(dtype.Little+dtype.Big) {
			dst[0]++
		}
		return n, err
	}}, out, err
}

// TestClaimsInAnotherProcess checks that the suite detects a process that allocates any size
// that the input claims.
func TestClaimsInAnotherProcess(t *testing.T) {
	t.Parallel()
	var most atomic.Int64
	mustFail(t, &codecsuite.Target{
		Provider: wrongProvider{builtin.Provider(), wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if claim, _ := binary.Uvarint(src[min(2, len(src)):]); claim <= 1<<30 {
				most.Store(max(most.Load(), int64(claim)))
			}
			return c.Decode(ctx, dst, src)
		}}},
		ID: "zstd", Usage: func() (conformance.Usage, error) { return conformance.Usage{Memory: most.Load()}, nil },
	}, "codec.input.memory")
}

// TestMessages checks that the message of a failed check contains the first line of a
// panic and the input that caused the panic, and lists the unsupported types once.
func TestMessages(t *testing.T) {
	t.Parallel()
	stuck := wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		if len(src) == 13 {
			panic("no room\ngoroutine 1 [running]")
		}
		return c.Decode(ctx, dst, src)
	}}
	r := conformance.Run(t.Context(), codecsuite.Suite(), &codecsuite.Target{Provider: wrongProvider{builtin.Provider(), stuck}, ID: "vlen-utf8"}, &conformance.Options{
		Select: []string{"codec.input.truncated"}, Limit: 10 * time.Minute,
	})
	text := r.Results[0].Message
	if !strings.Contains(text, "truncated input, 13 bytes: ") || !strings.Contains(text, "panic: no room") || strings.Contains(text, "goroutine") {
		t.Errorf("want the input and the first line of the panic, got %s", text)
	}
	if n := strings.Count(text, "unsupported types: |u1, <i2, "); n != 1 || strings.Count(text, "unsupported types") != 1 {
		t.Errorf("want one line of unsupported types, got %s", text)
	}
}

// TestParamsAreSeparateForWideTypes checks that the suite detects a process that uses the first
// parameters for all codecs of elements of at least 4 bytes.
func TestParamsAreSeparateForWideTypes(t *testing.T) {
	t.Parallel()
	var first json.RawMessage
	p := stickyProvider{builtin.Provider(), &first, 4}
	mustFail(t, &codecsuite.Target{
		Provider: p, ID: "zlib", Params: []json.RawMessage{json.RawMessage(`{"level":9}`), json.RawMessage(`{"level":0}`)},
		Restart: func() error { first = nil; return nil },
	}, "codec.params.apart")
}

// TestLeaksForShortBuffers checks that the suite detects processes that leak a little memory
// for each call that fails with ErrShortBuffer, or for each shape.
func TestLeaksForShortBuffers(t *testing.T) {
	t.Parallel()
	for name, each := range map[string]int64{"short": 4000, "shape": 64 << 10} {
		var mu sync.Mutex
		kept := map[string]int64{}
		shapes := map[string]bool{}
		w := wrong{
			encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				n, err := c.Encode(ctx, dst, src)
				if ncerr.KindOf(err) == ncerr.ErrShortBuffer {
					mu.Lock()
					kept["short"]++
					mu.Unlock()
				}
				return n, err
			},
			open: func(_ json.RawMessage, in driver.Spec) error {
				mu.Lock()
				defer mu.Unlock()
				shapes[fmt.Sprint(in.Shape)] = true
				kept["shape"] = int64(len(shapes))
				return nil
			},
		}
		mustFail(t, &codecsuite.Target{
			Provider: wrongProvider{builtin.Provider(), w}, ID: "crc32", Usage: func() (conformance.Usage, error) {
				mu.Lock()
				defer mu.Unlock()
				return conformance.Usage{Memory: each * kept[name]}, nil
			},
		}, "codec.lasting.memory")
	}
}
