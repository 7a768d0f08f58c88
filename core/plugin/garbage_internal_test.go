package plugin

import (
	"runtime"
	"testing"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 200, 1 << 20: 200, 4 << 20: 200, 5 << 20: 100, 10 << 20: 50, 17 << 20: 25, 1 << 40: 25} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes: want %d, got %d", live, want, got)
		}
	}
}

// TestAdaptGC checks that the percentage follows the live memory. It may change once more
// than expected, because other tests run in the same process.
func TestAdaptGC(t *testing.T) {
	t.Parallel()
	changes := make(chan int, 1000)
	adaptGC(func(percent int) { changes <- percent })
	await := func(want int) {
		t.Helper()
		for {
			runtime.GC()
			select {
			case got := <-changes:
				if got == want {
					return
				}
			default:
				runtime.Gosched()
			}
		}
	}
	await(200)
	large := make([]byte, 64<<20)
	await(25)
	runtime.KeepAlive(large)
	await(200)
}
