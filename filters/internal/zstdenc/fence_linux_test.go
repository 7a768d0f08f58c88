package zstdenc_test

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// TestStaysInside encodes content between inaccessible pages, so that a load outside it
// crashes the test.
func TestStaysInside(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	room := 4 * block
	m, err := syscall.Mmap(-1, 0, room+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
	for _, forbidden := range [][]byte{m[:page], m[page+room:]} {
		if err := syscall.Mprotect(forbidden, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	inside := m[page : page+room : page+room]
	for name, src := range inputs(rand.New(rand.NewPCG(testseed.New(t), 16))) {
		for _, level := range []int{quick, 3, 6} {
			e := newEncoder(level, false)
			for _, n := range []int{1, 8, 9, 10, 11, 17, 100, 5000, block - 1, block + 1, block + 9, block + 10, room} {
				n = min(n, len(src))
				copy(inside, src[:n])
				check(t, e, level, false, inside[:n:n])
				copy(inside[room-n:], src[len(src)-n:])
				check(t, e, level, false, inside[room-n:])
			}
			if t.Failed() {
				t.Fatalf("the input is %q", name)
			}
		}
	}
}
