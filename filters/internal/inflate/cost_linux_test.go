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

// TestManyMembersBeforePadding decodes many empty members in front of padding
// that no access is allowed to: a decoder that looks at all of it after each
// member, whose work grows with the product of both, dies. The last member is
// broken, so that nothing behind it is to be read.
func TestManyMembersBeforePadding(t *testing.T) {
	t.Parallel()
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	members := bytes.Repeat(one.Bytes(), 40_000)
	members[len(members)-1]++ // a length of the output that is wrong
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
		t.Errorf("want the broken member told, got %d, %v", n, err)
	}
}
