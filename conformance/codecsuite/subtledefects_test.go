package codecsuite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// call is Encode or Decode.
type call = func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error)

// subtleDefects returns codecs with defects that a round trip does not detect, each
// with the check that must fail.
func subtleDefects() map[string]struct {
	id    string
	wrong wrong
	want  string
} {
	type defect = struct {
		id    string
		wrong wrong
		want  string
	}
	all := map[string]defect{
		"reverses the encoded bytes": {"shuffle", mirrored(), "codec.examples.known"},
		"reverses the format":        {"zlib", mirrored(), "codec.examples.known"},
		"reverses the bytes of the checksum": {"crc32", wrong{
			encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				n, err := c.Encode(ctx, dst, src)
				if err == nil {
					slices.Reverse(dst[:4])
				}
				return n, err
			},
			decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				src = bytes.Clone(src)
				slices.Reverse(src[:min(4, len(src))])
				return c.Decode(ctx, dst, src)
			},
		}, "codec.examples.known"},
		"ignores the checksum": {"crc32", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err != nil && len(src) >= 4 && len(src)-4 <= len(dst) {
				return copy(dst, src[4:]), nil
			}
			return n, err
		}}, "codec.input.detected"},
		"confuses a distance of 65536 with 0": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			const distance = 1 << 16
			n, err := c.Decode(ctx, dst, src)
			if n > distance+64 && bytes.Equal(dst[:64], dst[distance:distance+64]) && bytes.Count(dst[:distance], []byte{0}) > distance/2 && dst[0] != 0 {
				clear(dst[distance : distance+64])
			}
			return n, err
		}}, "codec.roundtrip.distances"},
		"returns the last value for the same header": {"zlib", remembering(), "codec.stateless"},
		"counts the bytes of a string in 16 bits": {"vlen-utf8", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if bytes.Contains(src, bytes.Repeat([]byte("i"), 1<<16)) {
				src = bytes.ReplaceAll(src, []byte("ii"), []byte("i "))
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.roundtrip.edges"},
		"decodes the whole value first": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if ncerr.KindOf(err) == ncerr.ErrShortBuffer && len(src) > 100_000 {
				runtime.KeepAlive(make([]byte, 128<<20))
			}
			return n, err
		}}, "codec.ceiling.memory"},
		"ignores the checksum of small values": {"crc32", unchecked(func(n int) bool { return n <= 8 }), "codec.input.detected"},
		"ignores the checksum of large values": {"crc32", unchecked(func(n int) bool { return n > 1<<16 }), "codec.input.detected"},
		"hangs on a zero length": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err != nil && len(src) > 24 && bytes.Contains(src[24:], make([]byte, 4)) {
				<-ctx.Done()
			}
			return n, err
		}}, "codec.input.overwritten"},
		"hangs on megabytes of one repeated byte": {"shuffle", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if len(src) > 1<<20 && len(bytes.Trim(src, "\x10")) == 0 {
				<-ctx.Done()
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.input.large"},
		"hangs on one repeated byte": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if len(src) > 1 && len(bytes.Trim(src, "\x01")) == 0 {
				<-ctx.Done()
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.input.overwritten"},
	}
	for name, w := range keeping() {
		all[name] = defect{"zlib", w, "codec.released"}
	}
	return all
}

// unchecked returns a crc32 codec that ignores the checksum of values for whose length skip
// returns true.
func unchecked(skip func(length int) bool) wrong {
	return wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		n, err := c.Decode(ctx, dst, src)
		if err != nil && len(src) >= 4 && len(src)-4 <= len(dst) && skip(len(src)-4) {
			return copy(dst, src[4:]), nil
		}
		return n, err
	}}
}

// mirrored returns a codec that reverses its encoded bytes.
func mirrored() wrong {
	return wrong{
		encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Encode(ctx, dst, src)
			if err == nil {
				slices.Reverse(dst[:n])
			}
			return n, err
		},
		decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			src = bytes.Clone(src)
			slices.Reverse(src)
			return c.Decode(ctx, dst, src)
		},
	}
}

// remembering returns a codec that decodes input with the same first 12 bytes as the
// previous input to the previous value.
func remembering() wrong {
	const header = 12
	var mu sync.Mutex
	var start, value []byte
	return wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(src) > header && bytes.Equal(src[:header], start) && len(value) <= len(dst) {
			return copy(dst, value), nil
		}
		n, err := c.Decode(ctx, dst, src)
		if err == nil && len(src) > header {
			start, value = bytes.Clone(src[:header]), bytes.Clone(dst[:n])
		}
		return n, err
	}}
}

// keeping returns codecs that keep references to memory of their callers.
func keeping() map[string]wrong {
	var mu sync.Mutex
	locked := func(f call) call {
		return func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return f(c, ctx, dst, src)
		}
	}
	type pair struct{ enc, src []byte }
	var last, where pair
	var old []byte
	return map[string]wrong{
		"keeps a reference to the value": {
			encode: locked(func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				n, err := c.Encode(ctx, dst, src)
				if err == nil {
					last = pair{bytes.Clone(dst[:n]), src}
				}
				return n, err
			}),
			decode: locked(func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
				if last.enc != nil && bytes.Equal(src, last.enc) && len(dst) >= len(last.src) {
					return copy(dst, last.src), nil
				}
				return c.Decode(ctx, dst, src)
			}),
		},
		"identifies a value by its address": {encode: locked(func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if len(src) > 0 && len(where.src) == len(src) && &src[0] == &where.src[0] && len(dst) >= len(where.enc) {
				return copy(dst, where.enc), nil
			}
			n, err := c.Encode(ctx, dst, src)
			if err == nil && len(src) > 0 {
				where = pair{bytes.Clone(dst[:n]), src}
			}
			return n, err
		})},
		"clears output in the next call": {decode: locked(func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			clear(old)
			n, err := c.Decode(ctx, dst, src)
			if old = nil; err == nil && n > 200 {
				old = dst[n-1 : n]
			}
			return n, err
		})},
	}
}

// TestSubtleDefectsAreCaught checks that each defect fails the check written for it.
func TestSubtleDefectsAreCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range subtleDefects() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 10 * time.Minute
			if strings.HasPrefix(name, "hangs") {
				limit = 2 * time.Second
			}
			tg := target(wrongProvider{builtin.Provider(), tc.wrong}, tc.id)
			r := conformance.Run(t.Context(), codecsuite.Suite(), tg, &conformance.Options{Select: []string{tc.want}, Seed: 5, Limit: limit})
			if len(r.Results) != 1 || r.Results[0].Status != conformance.StatusFail || r.Results[0].Hung != strings.HasPrefix(name, "hangs") {
				t.Errorf("%s: want a failure, got %+v", tc.want, r.Results)
			}
		})
	}
}

// TestHangIsOneFailure checks that a decoder that never returns fails only the check in
// which it hangs.
func TestHangIsOneFailure(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	stuck := wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		if len(src) == 1000 {
			<-end
		}
		return c.Decode(ctx, dst, src)
	}}
	r := conformance.Run(t.Context(), codecsuite.Suite(), &codecsuite.Target{Provider: wrongProvider{builtin.Provider(), stuck}, ID: "zlib"}, &conformance.Options{
		Select: []string{"codec.input.overwritten", "codec.source", "codec.examples.known", "codec.describe"}, Effort: conformance.Brief, Limit: 2 * time.Second,
	})
	for _, x := range r.Results {
		switch hung := x.ID == "codec.input.overwritten"; {
		case hung && (x.Status != conformance.StatusFail || !x.Hung || !strings.Contains(x.Message, "last call: decode one repeated byte")):
			t.Errorf("want a hung check, got %+v", x)
		case strings.Contains(x.Message, "not run"):
			t.Errorf("%s was not run", x.ID)
		}
	}
}

// TestDetects checks that codec.input.detected fails for a codec that declares a checksum but
// has none, and passes for one that has a checksum.
func TestDetects(t *testing.T) {
	t.Parallel()
	tg := &codecsuite.Target{Provider: builtin.Provider(), ID: "shuffle", Detects: true}
	mustFail(t, tg, "codec.input.detected")
	tg.ID, tg.Params = "zstd", []json.RawMessage{json.RawMessage(`{"checksum":true}`)}
	if r := conformance.Run(t.Context(), codecsuite.Suite(), tg, &conformance.Options{Select: []string{"codec.input.detected"}, Limit: 10 * time.Minute}); r.Totals.Pass != 1 {
		t.Errorf("a codec with a checksum fails: %+v", r.Results)
	}
}

// TestExamples checks that correct examples pass codec.examples.given, that wrong examples fail
// it, and that files with malformed examples are rejected.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "value.raw"), []byte{1, 0, 2, 0, 3, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(text string) ([]codecsuite.Example, error) {
		path := filepath.Join(dir, "examples.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return codecsuite.ReadExamples(path)
	}
	for text, passes := range map[string]bool{
		`[{"codec": {"id": "shuffle", "elementsize": 2}, "dtype": "<i2", "decoded_file": "value.raw", "encoded": "010203 000000", "unique": true}]`:                          true,
		`[{"codec": {"id": "shuffle", "elementsize": 2}, "dtype": "<i2", "shape": [3, 1], "order": "F", "decoded_file": "value.raw", "encoded": "010203000000"}]`:            true,
		`[{"codec": {"id": "shuffle", "elementsize": 2}, "decoded": "01000200 0300", "encoded": "010203000000"}]`:                                                            true,
		`[{"codec": {"id": "shuffle", "elementsize": 2}, "dtype": "<i2", "decoded_file": "value.raw", "encoded": "010203000001"}]`:                                           false,
		`[{"codec": {"id": "shuffle", "elementsize": 2}, "dtype": "<i2", "decoded_file": "value.raw", "encoded": "0102030000"}]`:                                             false,
		`[{"codec": {"id": "shuffle", "elementsize": 2, "no": 1}, "dtype": "<i2", "decoded_file": "value.raw", "encoded": "010203000000"}]`:                                  false,
		`[{"codec": {"id": "shuffle", "elementsize": 2}, "dtype": "<i2", "decoded_file": "value.raw", "source": "0100020003ff", "encoded": "010203000000", "unique": true}]`: false,
	} {
		examples, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		tg := &codecsuite.Target{Provider: builtin.Provider(), ID: "shuffle", Examples: examples}
		r := conformance.Run(t.Context(), codecsuite.Suite(), tg, &conformance.Options{Select: []string{"codec.examples.given"}, Limit: 10 * time.Minute})
		if want := map[bool]conformance.Status{true: conformance.StatusPass, false: conformance.StatusFail}[passes]; r.Results[0].Status != want {
			t.Errorf("%s: want %s, got %+v", text, want, r.Results[0])
		}
	}
	for _, text := range []string{
		`{}`, `[{}]`, `[{"codec": {}, "decoded": "", "encoded": ""}]`, `[{"codec": {"id": "x"}, "decoded": "", "encoded": "0"}]`,
		`[{"codec": {"id": "x"}, "decoded": ""}]`, `[{"codec": {"id": "x"}, "decoded": "", "encoded": "", "more": 1}]`,
		`[{"codec": {"id": "x"}, "decoded": "", "decoded_file": "value.raw", "encoded": ""}]`,
		`[{"codec": {"id": "x"}, "dtype": "<q9", "decoded": "", "encoded": ""}]`, `[{"codec": {"id": "x"}, "dtype": "<i2", "decoded": "00", "encoded": ""}]`,
		`[{"codec": {"id": "x"}, "dtype": "<i2", "order": "K", "decoded": "0000", "encoded": ""}]`,
		`[{"codec": {"id": "x"}, "dtype": "<i2", "shape": [2], "decoded": "0000", "encoded": ""}]`,
		`[{"codec": {"id": "x"}, "dtype": "|O", "shape": [1], "decoded": "0000000001000000", "encoded": ""}]`,
		`[{"codec": {"id": "x"}, "decoded_file": "none.raw", "encoded": ""}]`,
	} {
		if examples, err := read(text); err == nil {
			t.Errorf("%s: want an error, got %+v", text, examples)
		}
	}
}
