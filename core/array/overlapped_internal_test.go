package array

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
)

// TestOverlapped compares overlapped with a count over many positions.
func TestOverlapped(t *testing.T) {
	t.Parallel()
	for n := int64(1); n <= 12; n++ {
		for m := int64(1); m <= 12; m++ {
			want := int64(0)
			for start := int64(0); start < n*m; start += n {
				want = max(want, (start+n-1)/m-start/m+1)
			}
			if got := overlapped(chunk.Regular([]int64{n, 5}), chunk.Regular([]int64{m, 5})); got != float64(want) {
				t.Errorf("units of %d over shards of %d: want %d, got %v", n, m, want, got)
			}
		}
	}
}
