package codecsuite_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestSixthTrialDefectsAreCaught checks that the suite detects defects of filters that it
// missed.
func TestSixthTrialDefectsAreCaught(t *testing.T) {
	t.Parallel()
	var stale atomic.Pointer[[]byte] // the output of a call that was canceled
	for name, tc := range map[string]struct {
		id    string
		wrong wrong
		want  string
	}{
		"fills its buffer with a constant": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if err == nil && n > 200 && len(bytes.Trim(dst[:n], "\x00")) == 0 {
				clear(dst)
				n = len(dst)
			}
			return n, err
		}}, "codec.ceiling.roomy"},
		"puts a kind around the error of the context": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			if err := ctx.Err(); err != nil {
				return 0, ncerr.New(ncerr.ErrFilter, "decode", "", err)
			}
			return c.Decode(ctx, dst, src)
		}}, "codec.cancel"},
		"writes after a canceled call": {"zlib", wrong{decode: func(c driver.Codec, ctx context.Context, dst, src []byte) (int, error) {
			n, err := c.Decode(ctx, dst, src)
			if old := stale.Swap(nil); old != nil && n > 0 {
				(*old)[0] ^= 1
			}
			if n < 200_000 { // smaller values than those of canceled calls
				return n, err
			}
			select {
			case <-ctx.Done(): // half of the time that a call takes is far from its end, also on a busy machine
				stale.Store(&dst)
				return 0, ctx.Err()
			case <-time.After(200 * time.Millisecond):
				return n, err
			}
		}}, "codec.released"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFail(t, target(wrongProvider{builtin.Provider(), tc.wrong}, tc.id), tc.want)
		})
	}
	var latest driver.Codec
	mustFail(t, target(latestProvider{builtin.Provider(), &latest}, "shuffle"), "codec.stateless")
}
