package plugin

import (
	"runtime"
	"testing"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 100, 8 << 20: 100, 9 << 20: 50, 17 << 20: 25, 1 << 40: 25} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d bytes: want %d, got %d", live, want, got)
		}
	}
}

// TestAdaptGC checks that the percentage follows the live memory.
func TestAdaptGC(t *testing.T) {
	t.Parallel()
	changes := make(chan int, 1)
	adaptGC(func(percent int) {
		select {
		case changes <- percent:
		default: // the test has ended, or has not yet taken the value before
		}
	})
	await := func(ok func(percent int) bool) {
		for {
			runtime.GC()
			select {
			case got := <-changes:
				if ok(got) {
					return
				}
			default:
				runtime.Gosched()
			}
		}
	}
	large := make([]byte, 64<<20)
	await(func(percent int) bool { return percent == 25 })
	runtime.KeepAlive(large)
	await(func(percent int) bool { return percent > 25 })
}
