//go:build linux

package host_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestLentBodies checks that bodies in lent memory, parts of them and bodies in other memory
// are stored, also by a process other than the one that lent the memory, and that memory is
// not lent twice.
func TestLentBodies(t *testing.T) {
	t.Parallel()
	needSharedMemory(t)
	opts := levelOptions(host.Process)
	dir := t.TempDir()
	opts.Roots = []string{dir}
	h := newHost(t, opts)
	m := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(dir, "s"), Mode: driver.Create})
	lend := func(src []byte) (mem []byte, release func()) {
		t.Helper()
		mem, release = m.(driver.BodyLender).LendBody(int64(len(src)))
		if mem == nil {
			t.Fatal("LendBody returned no memory")
		}
		if len(mem) != len(src) {
			t.Fatalf("LendBody(%d) returned %d bytes", len(src), len(mem))
		}
		copy(mem, src)
		return mem, release
	}
	check := func(bodies ...[]byte) {
		t.Helper()
		reqs, want := make([]driver.PutRequest, len(bodies)), make([][]byte, len(bodies))
		for i, b := range bodies {
			reqs[i], want[i] = driver.PutRequest{Key: string(rune('a' + i)), Body: driver.Bytes(b)}, bytes.Clone(b)
		}
		putBatch(t, m, reqs, make([]error, len(reqs))...)
		for i := range reqs {
			if got, err := get(t.Context(), m, reqs[i].Key); err != nil || got != string(want[i]) {
				t.Errorf("object %q: %d bytes that differ from the body, or %v", reqs[i].Key, len(got), err)
			}
		}
	}
	first, release := lend(bytes.Repeat([]byte("lent"), 100_000))
	second, releaseSecond := lend(bytes.Repeat([]byte("more"), 30_000))
	if &first[0] == &second[0] {
		t.Fatal("LendBody returned the same memory twice")
	}
	check(first, second, first[:1000], first[4:1004], first[:0], []byte("other memory"))
	copy(first, "changed between two puts")
	check(first)
	if p, err := os.FindProcess(h.Plugins()[0].PID); err != nil || p.Kill() != nil {
		t.Fatal("the process cannot be killed")
	}
	check(first, second)
	release()
	releaseSecond()
	again, release := lend([]byte("lent by the new process"))
	defer release()
	check(again)
}
