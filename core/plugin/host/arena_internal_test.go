package host

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
)

// TestArena allocates and frees random regions. It checks that regions do not overlap and
// stay inside the segment, that each is large enough and has a new generation, and that
// the whole segment is free at the end.
func TestArena(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	rapidseed.Check(t, func(t *rapid.T) {
		a := newArena(size)
		var held []region
		last := uint32(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				idle := a.free(held[i])
				held = append(held[:i], held[i+1:]...)
				if idle != (len(held) == 0) {
					t.Fatalf("free returned %t with %d regions allocated", idle, len(held))
				}
				continue
			}
			n := rapid.Int64Range(0, size+1).Draw(t, "bytes")
			r, ok := a.alloc(n)
			if !ok {
				if len(held) == 0 && n <= size {
					t.Fatalf("alloc(%d) failed in an empty arena", n)
				}
				continue
			}
			if r.size < n || r.off < 0 || r.off+r.size > size || r.off%r.size != 0 || r.generation <= last {
				t.Fatalf("alloc(%d) returned the invalid region %+v after generation %d", n, r, last)
			}
			last = r.generation
			for _, h := range held {
				if r.off < h.off+h.size && h.off < r.off+r.size {
					t.Fatalf("%+v overlaps %+v", r, h)
				}
			}
			held = append(held, r)
		}
		for _, r := range held {
			a.free(r)
		}
		if r, ok := a.alloc(size); !ok || r.off != 0 || r.size != size {
			t.Fatalf("the arena is not empty at the end: got %+v, %t", r, ok)
		}
	})
}

// TestArenaLimits checks that no region is larger than maxRegion, and that trim calls its
// function only if no region is in use and one was in use since the last trim.
func TestArenaLimits(t *testing.T) {
	t.Parallel()
	a := newArena(segmentSize)
	if _, ok := a.alloc(maxRegion + 1); ok {
		t.Error("alloc returned a region above the limit")
	}
	r, ok := a.alloc(maxRegion)
	if !ok || r.size != maxRegion {
		t.Errorf("got %+v, %t", r, ok)
	}
	calls := 0
	a.trim(func(int64) { calls++ })
	a.free(r)
	a.trim(func(n int64) {
		if calls++; n != maxRegion {
			t.Errorf("want a trim of %d bytes, got %d", maxRegion, n)
		}
	})
	a.trim(func(int64) { calls++ })
	if calls != 1 {
		t.Errorf("want one call of the trim function, got %d", calls)
	}
}
