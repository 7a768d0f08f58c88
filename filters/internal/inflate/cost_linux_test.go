package inflate_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
)

// TestManyMembersBeforePadding checks that the decoder does not read all of the padding
// after each member, which would take quadratic time. It decodes many empty members
// followed by inaccessible memory, so that such a read crashes. The last member is
// broken, so that nothing after it needs to be read.
func TestManyMembersBeforePadding(t *testing.T) {
	t.Parallel()
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	members := bytes.Repeat(one.Bytes(), 40_000)
	members[len(members)-1]++ // corrupts the length of the output
	page := os.Getpagesize()
	room := (len(members) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, room+1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	if err := syscall.Mprotect(mem[room:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	src := mem[room-len(members):]
	copy(src, members)
	if n, err := new(inflate.Decoder).Gzip(t.Context(), nil, src); n != 0 || !errors.Is(err, ncerr.ErrCorrupt) {
		t.Errorf("want an error for the broken member, got %d, %v", n, err)
	}
}
