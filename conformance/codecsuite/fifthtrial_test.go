package codecsuite_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestFifthTrialDefectsAreCaught checks that the suite detects defects of filters that it
// missed.
func TestFifthTrialDefectsAreCaught(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	for name, tc := range map[string]struct {
		id    string
		wrong wrong
		want  string
	}{
		"encodes differently during another call": {"zlib", wrong{encode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			calls.Add(1)
			defer calls.Add(-1)
			for range 10 {
				runtime.Gosched()
			}
			n, err := c.Encode(ctx, dst, src)
			if err == nil && n > 2 && calls.Load() > 1 {
				dst[1] ^= 0x80 // another level in the header, with a correct check
				dst[1] = dst[1]&^31 | byte(31-(int(dst[0])<<8|int(dst[1]&^31))%31)%31
			}
			return n, err
		}}, "codec.concurrent"},
		"does not verify whole blocks": {"crc32", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if n := len(src) - 4; n > 0 && n%4096 == 0 && n <= len(dst) {
				return copy(dst, src[4:]), nil
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.input.detected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(wrongProvider{builtin.Provider(), tc.wrong}, tc.id), tc.want)
		})
	}
}
