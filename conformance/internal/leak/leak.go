// Package leak decides from measurements whether a process leaks memory or descriptors.
// Packages mapsuite and codecsuite use it.
package leak

import (
	"runtime"

	"github.com/seed-695719ce/nczarr/conformance"
)

// Find always runs minBatches batches of work. While the number of descriptors grows,
// it runs up to descriptorBatches; while memory grows, up to memoryBatches. The memory
// of a garbage-collected process grows for a while before it stabilizes. Memory grows if
// the low point of the last batches is above that of the batches before, so one batch
// that shows the opposite ends the search.
const minBatches, descriptorBatches, memoryBatches = 4, 8, 24

// leakPerBatch is the growth in bytes per batch that Find reports as a leak. Memory
// fluctuates by more than that, but its low points do not rise.
const leakPerBatch = 2 << 20

// memoryHeadroom and maxMemoryGrowth limit memory. Find stops and reports a leak when the
// memory of a process exceeds four times its memory after the first batch, or that memory
// and maxMemoryGrowth, by more than memoryHeadroom, because memory might run out.
const memoryHeadroom, maxMemoryGrowth = 256 << 20, 4 << 30

// maxDescriptors limits descriptors. Find reports a leak when a process has more than
// this many above the initial number. Checking for growth is not sufficient, because a
// process may reach its own limit in the first batch.
const maxDescriptors = 500

// Find runs batch repeatedly and measures after each run. It reports whether memory grows
// and whether the number of descriptors grows by at least minDescriptors with each batch,
// and returns the measurements. It stops when batch returns false.
func Find(batch func() bool, measure func() (conformance.Usage, error), minDescriptors int) (memory, descriptors bool, at []conformance.Usage, err error) {
	descriptors = true
	const half = (descriptorBatches + memoryBatches) / 2
	for b := 0; b <= minBatches || descriptors && b <= descriptorBatches || memory && b <= memoryBatches; b++ {
		if b > 0 && !batch() {
			return false, false, at, nil
		}
		runtime.GC() // lets other processes free what they keep for collected objects
		u, err := measure()
		if err != nil {
			return false, false, at, err
		}
		if at = append(at, u); b >= 2 && b <= descriptorBatches { // the first batch may fill caches
			descriptors = descriptors && u.Descriptors-at[b-1].Descriptors >= minDescriptors
		}
		if u.Descriptors > at[0].Descriptors+maxDescriptors {
			return false, true, at, nil
		}
		if b >= 2 && u.Memory > at[1].Memory+min(3*at[1].Memory, maxMemoryGrowth)+memoryHeadroom {
			return true, false, at, nil
		}
		if b == minBatches {
			memory = u.Memory-lowest(at[1:b]) >= leakPerBatch
		}
		if memory && b > half {
			memory = lowest(at[half+1:])-lowest(at[descriptorBatches+1:half+1]) >= (memoryBatches-half)/2*leakPerBatch
		}
	}
	return memory, descriptors, at, nil
}

func lowest(at []conformance.Usage) int64 {
	low := at[0].Memory
	for _, u := range at {
		low = min(low, u.Memory)
	}
	return low
}
