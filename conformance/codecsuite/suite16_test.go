package codecsuite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
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

// describing is a Provider that changes the descriptions and the parameters passed to Open.
type describing struct {
	driver.Provider
	describe func(d *driver.Description)
	open     func(params json.RawMessage) json.RawMessage
}

func (p describing) Describe() []driver.Description {
	all := p.Provider.Describe()
	for i := range all {
		if p.describe != nil {
			all[i].Params = slices.Clone(all[i].Params)
			p.describe(&all[i])
		}
	}
	return all
}

func (p describing) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if p.open != nil {
		params = p.open(params)
	}
	return p.Provider.Open(id, params, in)
}

// replacing returns a function that replaces text in JSON parameters.
func replacing(from, to string) func(json.RawMessage) json.RawMessage {
	return func(params json.RawMessage) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(string(params), from, to))
	}
}

// TestUntrueDescriptions checks that the suite detects filters whose parameters do not match
// their description.
func TestUntrueDescriptions(t *testing.T) {
	t.Parallel()
	more := driver.Param{Name: "window", Type: driver.IntParam, Min: 10, Max: 16}
	level := func(lo, hi int64, text string) func(*driver.Description) {
		return func(d *driver.Description) {
			if p := d.Param("level"); p != nil {
				p.Min, p.Max, p.Default = lo, hi, text
			}
		}
	}
	for name, tc := range map[string]struct {
		id       string
		describe func(*driver.Description)
		open     func(json.RawMessage) json.RawMessage
		want     string
	}{
		"ignores unknown parameters":                  {"zlib", nil, replacing(`"no-such-parameter":1`, `"level":1`), "codec.params.described"},
		"describes a parameter that does not exist":   {"zlib", func(d *driver.Description) { d.Params = append(d.Params, more) }, nil, "codec.params.described"},
		"describes a wrong default":                   {"zlib", level(-1, 9, "9"), nil, "codec.params.described"},
		"ignores a number in a string":                {"zlib", nil, replacing(`"level":"9"`, `"level":1`), "codec.params.described"},
		"describes a name that it does not open":      {"zlib", func(d *driver.Description) { d.Aliases = append(slices.Clone(d.Aliases), "z") }, nil, "codec.open.forms"},
		"accepts values outside the described range":  {"zlib", level(0, 8, "1"), nil, "codec.params.described"},
		"accepts a choice that is not described":      {"crc32", nil, replacing("no-such-choice", "end"), "codec.params.described"},
		"requires no parameter":                       {"bitround", nil, replacing(`{}`, `{"keepbits":3}`), "codec.params.described"},
		"returns elements though bytes are described": {"delta", func(d *driver.Description) { d.Transform = driver.BytesToBytes }, nil, "codec.open.spec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tg := target(describing{builtin.Provider(), tc.describe, tc.open}, tc.id)
			mustFail(t, tg, tc.want)
		})
	}
	refusing := func(text string, kind ncerr.Kind) wrong {
		return wrong{open: func(params json.RawMessage, _ driver.Spec) error {
			if strings.Contains(string(params), text) {
				return kind
			}
			return nil
		}}
	}
	for name, tc := range map[string]struct {
		id       string
		wrong    wrong
		describe func(*driver.Description)
		open     func(json.RawMessage) json.RawMessage
	}{
		"refuses the highest level": {id: "gzip", wrong: refusing(`"level":9`, ncerr.ErrInvalid)},
		"refuses the lowest level":  {id: "gzip", wrong: refusing(`"level":-1`, ncerr.ErrUnsupported)},
		"refuses false":             {id: "zstd", wrong: refusing(`"checksum":false`, ncerr.ErrInvalid)},
		"refuses a choice":          {id: "blosc", wrong: refusing(`"cname":"snappy"`, ncerr.ErrInvalid)},
		"describes a choice that it refuses": {id: "crc32", describe: func(d *driver.Description) {
			if p := d.Param("location"); p != nil {
				p.Choices = []string{"start", "end", "middle"}
			}
		}},
		"accepts a value far above the range": {id: "zlib", open: replacing(`"level":109`, `"level":1`)},
		"accepts a value far below the range": {id: "zlib", open: replacing(`"level":-101`, `"level":6`)},
		"cuts large values to 32 bits":        {id: "zlib", open: replacing(`"level":1099511627785`, `"level":1`)},
		"treats a list as the default":        {id: "zlib", open: replacing(`"level":[]`, `"level":1`)},
		"treats a list as a choice":           {id: "crc32", open: replacing(`"location":[]`, `"location":"start"`)},
		"refuses a level for another reason":  {id: "lzma", wrong: refusing(`"preset":9`, ncerr.ErrInternal)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(describing{wrongProvider{builtin.Provider(), tc.wrong}, tc.describe, tc.open}, tc.id), "codec.params.described")
		})
	}
	for name, fail := range map[string]func(){"panics": func() { panic("index out of range") }, "fails": nil} {
		for id, text := range map[string]string{"zlib": `"level":9`, "gzip": `"level":4`, "blosc": `"cname":"zstd"`} {
			t.Run(name+" for an empty value with "+text, func(t *testing.T) {
				t.Parallel()
				affected := func(params json.RawMessage, _ driver.Spec) bool { return strings.Contains(string(params), text) }
				empty := wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
					if len(src) == 0 && fail != nil {
						fail()
					}
					if len(src) == 0 {
						return 0, ncerr.ErrFilter
					}
					return c.Encode(ctx, dst, src)
				}}
				mustFail(t, &codecsuite.Target{Provider: someProvider{builtin.Provider(), affected, empty}, ID: id}, "codec.params.described")
			})
		}
	}
	t.Run("corrupts data at the highest level", func(t *testing.T) {
		t.Parallel()
		highest := func(params json.RawMessage, _ driver.Spec) bool { return strings.Contains(string(params), `"level":9`) }
		mustFail(t, &codecsuite.Target{Provider: someProvider{builtin.Provider(), highest, changing(20_000)}, ID: "zlib"}, "codec.params.described")
	})
}

// TestSuite16DefectsAreCaught checks that the suite finds defects that its version 1.6 did not
// find.
func TestSuite16DefectsAreCaught(t *testing.T) {
	t.Parallel()
	checks := func(equal func(want, have []byte) bool) wrong { // crc32 with its own comparison of checksums
		return wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err == nil || len(src) < 4 || len(src)-4 > len(dst) {
				return n, err
			}
			whole := make([]byte, len(src))
			if _, err := c.Encode(ctx, whole, src[4:]); err != nil {
				return 0, err
			}
			if !equal(whole, src) {
				return n, err
			}
			return copy(dst, src[4:]), nil
		}}
	}
	for name, tc := range map[string]struct {
		id    string
		wrong wrong
		want  string
	}{
		"compares only 24 bits of the checksum": {"crc32", checks(func(want, have []byte) bool { return bytes.Equal(want[:3], have[:3]) }), "codec.input.detected"},
		"accepts zero as the checksum":          {"crc32", checks(func(_, have []byte) bool { return bytes.Equal(have[:4], make([]byte, 4)) }), "codec.input.detected"},
		"ignores the checksum of empty values":  {"crc32", unchecked(func(n int) bool { return n == 0 }), "codec.input.detected"},
		"excludes the last byte from the checksum": {"crc32", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if whole := 4 + (len(src)-4)&^7; err != nil && len(src) > 4096 && len(src)-4 <= len(dst) {
				good := make([]byte, len(src))
				for tail := range 1 << 8 { // accept the input if only the last byte is wrong
					body := append(bytes.Clone(src[4:len(src)-1]), byte(tail))
					if _, e := c.Encode(ctx, good, body); e == nil && whole < len(src) && bytes.Equal(good[:4], src[:4]) {
						return copy(dst, src[4:]), nil
					}
				}
			}
			return n, err
		}}, "codec.input.detected"},
		"drops errors in parts of large values": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			dst2 := make([]byte, len(dst))
			n, err := c.Decode(ctx, dst2, src)
			if whole := len(dst2) >= 2<<20 && dst2[1<<20] != 0; err != nil && whole {
				return copy(dst, dst2[:1<<20]) + len(dst) - 1<<20, nil
			}
			return copy(dst, dst2[:max(0, n)]), err
		}}, "codec.input.large"},
		"truncates strings of more than 65,535 bytes": {"vlen-utf8", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err == nil && bytes.Contains(dst[:n], bytes.Repeat([]byte("x"), 1<<16)) {
				n--
			}
			return n, err
		}}, "codec.roundtrip.edges"},
		"rejects scalars as invalid": {"zstd", wrong{open: func(_ json.RawMessage, in driver.Spec) error {
			if in.Kind == driver.Array && len(in.Shape) == 0 {
				return ncerr.ErrInvalid
			}
			return nil
		}}, "codec.open.kinds"},
		"writes the current time": {"zstd", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Encode(ctx, dst, src)
			if n+4 <= len(dst) && err == nil {
				binary.LittleEndian.PutUint32(dst[n:], uint32(time.Now().Unix()))
				n += 4
			}
			return n, err
		}}, "codec.deterministic"},
		"encodes a part of a huge value after cancellation": {"zstd", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if ctx.Err() != nil && len(src) > 1<<20 {
				return c.Encode(context.WithoutCancel(ctx), dst, src[:1<<20])
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.cancel"},
		"writes the end of large values in the next call": {"zstd", later(1 << 15), "codec.released"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, &codecsuite.Target{Provider: wrongProvider{builtin.Provider(), tc.wrong}, ID: tc.id}, tc.want)
		})
	}
}

// bytesForTexts decodes strings as if they were bytes, without checking UTF-8.
type bytesForTexts struct{ driver.Provider }

func (p bytesForTexts) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	c, out, err := p.Provider.Open(id, params, in)
	if err != nil {
		return nil, driver.Spec{}, err
	}
	in.DType = dtype.Type{Kind: dtype.VlenBytes}
	b, _, err := p.Provider.Open("vlen-bytes", nil, in)
	return &wrong{Codec: c, decode: func(_ driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		return b.Decode(ctx, dst, src)
	}}, out, err
}

func TestStringsAreUTF8(t *testing.T) {
	t.Parallel()
	mustFail(t, &codecsuite.Target{Provider: bytesForTexts{builtin.Provider()}, ID: "vlen-utf8"}, "codec.input.flipped")
}

// TestLeaksForDamagedHeaders checks that the suite detects a process that leaks a little
// memory for each input that is shorter than a header.
func TestLeaksForDamagedHeaders(t *testing.T) {
	t.Parallel()
	var kept atomic.Int64
	mustFail(t, &codecsuite.Target{
		Provider: wrongProvider{builtin.Provider(), wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err != nil && len(src) < 8 {
				kept.Add(16 << 10)
			}
			return n, err
		}}},
		ID: "crc32", Usage: func() (conformance.Usage, error) { return conformance.Usage{Memory: kept.Load()}, nil },
	}, "codec.lasting.memory")
}

// later returns a codec that writes the end of a large output again when the next call
// starts.
func later(large int) wrong {
	var mu sync.Mutex
	var last, end []byte
	return wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		copy(last, end)
		n, err := c.Encode(ctx, dst, src)
		if err == nil && n > large {
			last = dst[n-8 : n]
			end = bytes.Clone(last)
		}
		return n, err
	}}
}

// TestExactTypesDoNotExcludeOthers checks that a list of exact types does not exclude
// the other types from the checks.
func TestExactTypesDoNotExcludeOthers(t *testing.T) {
	t.Parallel()
	exact := []dtype.Type{{Kind: dtype.Int, Size: 4, Order: dtype.Little}}
	float := func(_ json.RawMessage, in driver.Spec) bool { return in.DType.Kind == dtype.Float }
	var calls atomic.Uint32
	dithered := wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		src = bytes.Clone(src)
		for i := range src {
			if src[i]&63 == 63 && i%4 == 0 { // the low byte of a float that holds a small integer does not match
				src[i] -= byte(calls.Add(1)) & 1
			}
		}
		return c.Encode(ctx, dst, src)
	}}
	for want, p := range map[string]driver.Provider{
		"codec.deterministic": lossyProvider{someProvider{builtin.Provider(), float, dithered}},
		"codec.roundtrip":     someProvider{builtin.Provider(), float, changing(4 * 33)},
	} {
		mustFail(t, &codecsuite.Target{Provider: p, ID: "zstd", Types: exact, Exact: true}, want)
	}
}

// TestUnusualSpecs checks that the suite detects filters that fail only for some
// combinations of parameters, shapes, orders, fill values and sizes.
func TestUnusualSpecs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id    string
		wrong wrong
		want  string
	}{
		"refuses scalars at the highest level": {"zlib", wrong{open: func(params json.RawMessage, in driver.Spec) error {
			if bytes.Contains(params, []byte(`"level":9`)) && in.Kind == driver.Array && len(in.Shape) == 0 {
				return ncerr.ErrInternal
			}
			return nil
		}}, "codec.params.described"},
		"loses the order of the output": {"bitround", wrong{spec: func(_ driver.Spec, out *driver.Spec) { out.Order = driver.C }}, "codec.open.spec"},
		"decodes what is longer than the array": {"delta", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			return c.Decode(ctx, dst, src[:len(src)/8*8])
		}}, "codec.input.truncated"},
		"promises too little for tight strings": {"vlen-utf8", wrong{spec: func(in driver.Spec, out *driver.Spec) {
			if in.MaxBytes > 200_000 && in.MaxBytes < 300_000 {
				out.MaxBytes -= 40
			}
		}}, "codec.roundtrip.edges"},
		"promises whole elements": {"zlib", wrong{spec: func(in driver.Spec, out *driver.Spec) {
			if in.Kind == driver.Blob && in.DType.Size > 1 && in.MaxBytes%int64(in.DType.Size) > 0 {
				out.MaxBytes = in.MaxBytes / int64(in.DType.Size) * int64(in.DType.Size)
			}
		}}, "codec.roundtrip.blob"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(wrongProvider{builtin.Provider(), tc.wrong}, tc.id), tc.want)
		})
	}
}

// TestCanceledCallGoesOn checks that the suite detects a filter whose calls return when their
// context is canceled, but whose process continues the work.
func TestCanceledCallGoesOn(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		var cpu atomic.Int64
		var canceled atomic.Bool
		slow := wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			cpu.Add(int64(time.Second))
			if _, ok := ctx.Deadline(); ok {
				canceled.Store(true)
			}
			return c.Encode(ctx, dst, src)
		}}
		r := conformance.Run(t.Context(), codecsuite.Suite(), &codecsuite.Target{
			Provider: wrongProvider{builtin.Provider(), slow}, ID: "zlib", Usage: func() (conformance.Usage, error) {
				if busy && canceled.Load() {
					cpu.Add(int64(time.Second))
				}
				return conformance.Usage{CPU: time.Duration(cpu.Load())}, nil
			},
		}, &conformance.Options{Select: []string{"codec.cancel"}, Effort: conformance.Brief, Limit: 10 * time.Minute})
		if len(r.Results) != 1 || (r.Results[0].Status == conformance.StatusFail) != busy {
			t.Errorf("busy after the call: %v: %+v", busy, r.Results)
		}
	}
}
