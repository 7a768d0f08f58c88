package plugin

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageRoom is the garbage in bytes up to which a filter process with little live memory
// does not collect; gcPercent rounds it down, to no less than half. Most of a large filter
// process is a few large buffers, which a collection does not visit, so that collecting at
// a quarter of the live memory costs little. A small one would then collect after every
// megabyte.
const garbageRoom = 8 << 20

// gcPercent returns the value of GOGC for live bytes of memory: 25, 50 or 100.
func gcPercent(live uint64) int {
	percent := 100
	for percent > 25 && live*uint64(percent) > garbageRoom*100 {
		percent /= 2
	}
	return percent
}

// adaptGC arranges that set is called after a garbage collection, on the goroutine of
// finalizers, if the value of gcPercent has changed. The first value is 100.
func adaptGC(set func(percent int)) {
	last := 100
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var collected func(*[16]byte)
	collected = func(mark *[16]byte) {
		metrics.Read(live)
		if p := gcPercent(live[0].Value.Uint64()); p != last {
			last = p
			set(p)
		}
		runtime.SetFinalizer(mark, collected)
	}
	runtime.SetFinalizer(new([16]byte), collected)
}

// adaptProcessGC applies adaptGC to this process, whose GOGC is 100.
func adaptProcessGC() { adaptGC(func(percent int) { debug.SetGCPercent(percent) }) }
