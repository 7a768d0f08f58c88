package codecsuite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

var wasted atomic.Pointer[[]byte] // memory that a defect allocates

// TestSecondTrialDefectsAreCaught checks that the suite detects defects of the filters of a
// second trial, each in the check written for it.
func TestSecondTrialDefectsAreCaught(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		id    string
		wrong wrong
		want  string
	}{
		"removes byte order marks": {"vlen-utf8", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			return c.Encode(ctx, dst, bytes.ReplaceAll(src, []byte("\ufeff"), []byte("   ")))
		}}, "codec.roundtrip"},
		"ignores a byte after the last string": {"vlen-utf8", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if ncerr.KindOf(err) == ncerr.ErrCorrupt && len(src) > 0 {
				return c.Decode(ctx, dst, src[:len(src)-1])
			}
			return n, err
		}}, "codec.input.truncated"},
		"asks for a larger buffer for much damaged input": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if ncerr.KindOf(err) == ncerr.ErrCorrupt && len(src)%2 == 0 {
				err = driver.ShortBuffer("", len(dst))
			}
			return n, err
		}}, "codec.input.truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(wrongProvider{builtin.Provider(), tc.wrong}, tc.id), tc.want)
		})
	}
	for name, tc := range map[string]struct {
		id       string
		describe func(*driver.Description)
		open     func(json.RawMessage) json.RawMessage
		want     string
	}{
		"cuts off a fraction":                  {"zlib", nil, replacing(`"level":8.5`, `"level":8`), "codec.params.described"},
		"ignores the case of a choice":         {"crc32", nil, replacing("START", "start"), "codec.params.described"},
		"does not describe that it takes text": {"vlen-utf8", func(d *driver.Description) { d.Objects = driver.NoObjects }, nil, "codec.open.kinds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(describing{builtin.Provider(), tc.describe, tc.open}, tc.id), tc.want)
		})
	}
	t.Run("has another default that only long runs show", func(t *testing.T) {
		t.Parallel()
		absent := func(params json.RawMessage, _ driver.Spec) bool { return !strings.Contains(string(params), `"level"`) }
		mustFail(t, &codecsuite.Target{Provider: someProvider{builtin.Provider(), absent, wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Encode(ctx, dst, src)
			if err == nil && len(src) > 1000 && bytes.Count(src, []byte{0}) == len(src) { // another level in the header, with a correct check
				dst[1] = (dst[1] ^ 0x80) &^ 31
				dst[1] |= byte(31 - (int(dst[0])<<8|int(dst[1]))%31)
			}
			return n, err
		}}}, ID: "zlib"}, "codec.params.described")
	})
}

// TestWastedMemory checks that the suite detects a decoder that allocates many times the size of
// the value.
func TestWastedMemory(t *testing.T) { //nolint:paralleltest // the defect would disturb checks that measure the memory of the process
	mustFail(t, target(wrongProvider{builtin.Provider(), wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
		memory := make([]byte, 64*len(dst))
		wasted.Store(&memory)
		return c.Decode(ctx, dst, src)
	}}}, "zlib"), "codec.input.memory")
}

// TestDamagedExamples checks that codec.examples.given fails if a codec accepts an example that
// is declared as damaged, or refuses it with another kind than ErrCorrupt.
func TestDamagedExamples(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "examples.json")
	kind := func(change func(error) error) driver.Provider {
		return wrongProvider{builtin.Provider(), wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			return n, change(err)
		}}}
	}
	for _, tc := range []struct {
		encoded  string
		provider driver.Provider
		want     conformance.Status
	}{
		{"00000000 010203", builtin.Provider(), conformance.StatusPass}, // a wrong checksum
		{"1d80bc55 010203", builtin.Provider(), conformance.StatusFail}, // not damaged
		{"00000000 010203", kind(func(error) error { return ncerr.ErrFilter }), conformance.StatusFail},
	} {
		if err := os.WriteFile(path, []byte(`[{"codec": {"id": "crc32"}, "decoded": "010203", "encoded": "`+tc.encoded+`", "corrupt": true}]`), 0o600); err != nil {
			t.Fatal(err)
		}
		examples, err := codecsuite.ReadExamples(path)
		if err != nil {
			t.Fatal(err)
		}
		tg := &codecsuite.Target{Provider: tc.provider, ID: "crc32", Examples: examples}
		r := conformance.Run(t.Context(), codecsuite.Suite(), tg, &conformance.Options{Select: []string{"codec.examples.given"}, Limit: 10 * time.Minute})
		if r.Results[0].Status != tc.want {
			t.Errorf("%s: want %s, got %+v", tc.encoded, tc.want, r.Results[0])
		}
	}
}
