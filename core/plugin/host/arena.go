package host

import (
	"math/bits"
	"sync"
)

// Sizes of the smallest and the largest region, in bytes.
const (
	minRegion = 64 << 10
	maxRegion = 64 << 20
)

// arena allocates regions of one segment. Its state is in memory that the plugin cannot
// access. Region sizes are powers of two and regions are aligned to their size. The
// lowest free address is allocated first, so that few pages are used.
type arena struct {
	mu   sync.Mutex
	tree []uint8 // 1 + order of the largest free block below each node, as a binary heap; 0 if none is free
	top  int     // order of the root
	used int     // number of allocated regions
	high int64   // end of the highest region allocated since the last trim
	last uint32  // generation of the most recently allocated region
}

// region is an allocated part of a segment.
type region struct {
	off, size  int64  // in bytes
	generation uint32 // distinguishes the region from earlier ones at the same offset
	node       int    // index in arena.tree
}

// newArena returns the arena of a segment. size must be a power of two.
func newArena(size int64) *arena {
	top := bits.Len64(uint64(size/minRegion)) - 1
	a := &arena{top: top, tree: make([]uint8, 2<<top)} // node 1 is the root
	for i := 1; i < len(a.tree); i++ {
		a.tree[i] = uint8(top - bits.Len(uint(i)) + 2)
	}
	return a
}

// orderOf returns the order of the smallest region of at least n bytes. A region of
// order k has minRegion<<k bytes.
func orderOf(n int64) int {
	if n <= minRegion {
		return 0
	}
	return bits.Len64(uint64((n - 1) / minRegion))
}

// alloc returns a region of at least n bytes. It returns false if no such region is
// free.
func (a *arena) alloc(n int64) (region, bool) {
	want := orderOf(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > maxRegion || int(a.tree[1]) <= want {
		return region{}, false
	}
	node, order, off := 1, a.top, int64(0)
	for order > want {
		order--
		node *= 2
		if int(a.tree[node]) <= want {
			node++
			off += minRegion << order
		}
	}
	a.tree[node] = 0
	for i := node / 2; i > 0; i /= 2 {
		a.tree[i] = max(a.tree[2*i], a.tree[2*i+1])
	}
	a.used++
	a.last++
	r := region{off: off, size: minRegion << order, generation: a.last, node: node}
	a.high = max(a.high, r.off+r.size)
	return r, true
}

// free releases a region and reports whether no region remains in use.
func (a *arena) free(r region) (idle bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	order := uint8(bits.Len64(uint64(r.size / minRegion)))
	a.tree[r.node] = order
	for i := r.node / 2; i > 0; i /= 2 {
		l, right := a.tree[2*i], a.tree[2*i+1]
		if l == order && right == order {
			a.tree[i] = order + 1 // both halves are free
		} else {
			a.tree[i] = max(l, right)
		}
		order++
	}
	a.used--
	return a.used == 0
}

// trim calls f with the end of the part of the segment that was in use since the last
// trim. It does nothing if a region is in use. It blocks allocations during the call.
func (a *arena) trim(f func(n int64)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used == 0 && a.high > 0 {
		f(a.high)
		a.high = 0
	}
}

// peak returns the end of the part of the segment that was in use since the last trim.
func (a *arena) peak() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.high
}
