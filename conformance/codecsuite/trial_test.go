package codecsuite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// littleProvider opens codecs that treat big-endian elements as little-endian ones.
type littleProvider struct{ driver.Provider }

func (p littleProvider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	order := in.DType.Order
	if order == dtype.Big {
		in.DType.Order, in.Fill = dtype.Little, nil
	}
	c, out, err := p.Provider.Open(id, params, in)
	if order == dtype.Big {
		out.DType.Order = order
	}
	return c, out, err
}

// TestTrialDefectsAreCaught checks that the suite detects defects of filters written by an
// author who knew only the contract, each in the check written for it.
func TestTrialDefectsAreCaught(t *testing.T) {
	t.Parallel()
	var whole atomic.Int64 // the length of the value that was decoded last
	var firsts sync.Map    // the first value that each codec encoded
	for name, tc := range map[string]struct {
		id    string
		wrong wrong
		want  string
	}{
		"counts different strings in 16 bits": {"vlen-utf8", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if len(src) > 8<<20 {
				src = bytes.ReplaceAll(src, []byte("66000-"), []byte("464---")) // 66000 is 65536 + 464
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.roundtrip.edges"},
		"promises too little for many strings": {"vlen-utf8", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if len(src) > 8<<20 {
				return 0, driver.ShortBuffer("", len(dst))
			}
			return c.Encode(ctx, dst, src)
		}}, "codec.roundtrip.edges"},
		"returns the length of its buffer for bytes": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err == nil && len(dst) > 5000 && n < len(dst) {
				clear(dst[n:])
				n = len(dst)
			}
			return n, err
		}}, "codec.roundtrip.blob"},
		"decodes missing strings as empty ones": {"vlen-utf8", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err == nil {
				whole.Store(int64(n))
			}
			for more := 1; err != nil && ncerr.KindOf(err) == ncerr.ErrCorrupt && len(src) > 100 && more <= 700; more++ {
				n, err = c.Decode(ctx, dst, append(bytes.Clone(src), make([]byte, more)...))
				if err == nil && int64(n) == whole.Load() {
					err = ncerr.ErrCorrupt // part of a string is missing
					break
				}
			}
			return n, err
		}}, "codec.input.truncated"},
		"keeps a table of the first value": {"zlib", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			kept, _ := firsts.LoadOrStore(c, bytes.Clone(src))
			n, err := c.Encode(ctx, dst, src)
			if first := kept.([]byte); err == nil && n > 2 && len(first) > 0 && first[0]%2 == 1 { // firsts holds slices of bytes
				dst[1] ^= 0x80 // another level in the header, with a correct check
				dst[1] = dst[1]&^31 | byte(31-(int(dst[0])<<8|int(dst[1]&^31))%31)%31
			}
			return n, err
		}}, "codec.stateless.tables"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(wrongProvider{builtin.Provider(), tc.wrong}, tc.id), tc.want)
		})
	}
	rounding := []json.RawMessage{json.RawMessage(`{"keepbits":3}`), json.RawMessage(`{"keepbits":9}`)}
	for _, id := range []string{"quantize", "bitround"} {
		mustFail(t, target(littleProvider{builtin.Provider()}, id), "codec.open.orders")
	}
	mustFail(t, target(littleProvider{builtin.Provider()}, "delta"), "codec.open.orders")
	var latest driver.Codec
	mustFail(t, &codecsuite.Target{
		Provider: latestProvider{builtin.Provider(), &latest}, ID: "bitround", Params: rounding,
		Types: []dtype.Type{dtype.NCInt.Type(dtype.Little), dtype.NCInt64.Type(dtype.Little)}, Exact: true, // does not change integers
		Restart: func() error { return nil },
	}, "codec.params.apart")
	mustFail(t, target(describing{builtin.Provider(), nil, replacing(`"keepbits":-1`, `"keepbits":9`)}, "bitround"), "codec.params.described")
}
