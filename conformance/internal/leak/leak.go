// Package leak finds out from measurements whether a process keeps more and
// more. Both suites use it.
package leak

import (
	"runtime"

	"github.com/seed-695719ce/nczarr/conformance"
)

// few batches of work are always done; more if there are more descriptors after
// them, and most if there is more memory: a process that collects its garbage takes
// more for a while, until that pays.
const few, more, most = 4, 8, 24

// creep is how many bytes more for each batch are a leak. What a process takes
// goes up and down by more than that, but its low points do not rise.
const creep = 2 << 20

// No process of which the garbage is collected takes more than four times as much
// as at first, and plenty on top of it: it is a leak, and there might be no memory
// for the rest.
const plenty = 256 << 20

// A process that takes many more descriptors than at first leaks them, too. It may
// have reached the limit in the first batch, and take no more of them since.
const many = 500

// Find does a batch of work again and again, and measures after each. It
// reports whether memory grows, and whether the descriptors do by at least
// files with each batch; and what was measured. batch reports whether to go on.
func Find(batch func() bool, measure func() (conformance.Usage, error), files int) (memory, descriptors bool, at []conformance.Usage, err error) {
	descriptors = true
	for b := 0; b <= few || descriptors && b <= more || memory && b <= most; b++ {
		if b > 0 && !batch() {
			return false, false, at, nil
		}
		runtime.GC() // with what this process has no longer goes what another one keeps for it
		u, err := measure()
		if err != nil {
			return false, false, at, err
		}
		if at = append(at, u); b >= 2 && b <= more { // the first may fill caches
			descriptors = descriptors && u.Descriptors-at[b-1].Descriptors >= files
		}
		if u.Descriptors > at[0].Descriptors+many {
			return false, true, at, nil
		}
		if b >= 2 && u.Memory > 4*at[1].Memory+plenty {
			return true, false, at, nil
		}
		if b == few {
			memory = u.Memory-lowest(at[1:b]) >= creep
		}
	}
	if memory {
		const half = (more + most) / 2
		memory = lowest(at[half+1:])-lowest(at[more+1:half+1]) >= (most-half)/2*creep
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
