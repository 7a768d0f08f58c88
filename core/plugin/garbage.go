package plugin

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// garbageRoom is the garbage in bytes that a filter process may have before it collects,
// rounded down to at least half of it, if a quarter of its live memory is less. Large
// processes collect at a quarter because most of their memory is a few large buffers,
// which a collection does not visit. Small ones would then collect after every megabyte.
const garbageRoom = 8 << 20

// gcPercent returns the value of GOGC for live bytes of memory: between 25 and 200, in
// powers of two, so that it rarely changes.
func gcPercent(live uint64) int {
	percent := 200
	for percent > 25 && live*uint64(percent) > garbageRoom*100 {
		percent /= 2
	}
	return percent
}

// adaptGC calls set after every garbage collection with the value of gcPercent, if it
// has changed. It never ends.
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
