package driver_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestTransferTime checks that the time is never negative, grows with the length, and can
// be added to another duration without overflow.
func TestTransferTime(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for _, n := range []int64{math.MinInt64, -1, 0, 32 << 10, 1 << 40, math.MaxInt64/int64(time.Second)*(32<<10) - 1, math.MaxInt64} {
		d := driver.TransferTime(n)
		if d < last || d+24*time.Hour < d {
			t.Errorf("TransferTime(%d) is %v, but %v for fewer bytes", n, d, last)
		}
		last = d
	}
	if d := driver.TransferTime(96 << 10); d != 3*time.Second {
		t.Errorf("TransferTime of 96 KiB: got %v, want 3s", d)
	}
}
