//go:build unix

package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemove removes what a plugin made so that it stays: deeper than a
// process may have descriptors, and closed to its owner.
func TestRemove(t *testing.T) { //nolint:paralleltest // it limits the process
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	const depth = 300
	low := limit
	low.Cur = min(limit.Cur, uint64(at)+depth/2)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
	for i := range depth {
		mode := uint32(0o700)
		if i%100 == 7 {
			mode = 0o300
		}
		var next int
		err := unix.Mkdirat(at, "d", 0o700)
		if err == nil {
			next, err = unix.Openat(at, "d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err == nil && i%100 == 0 {
			err = unix.Symlinkat("/", at, "link")
		}
		if err == nil {
			err = unix.Fchmodat(at, "d", mode, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := Remove(dir); err != nil {
		t.Errorf("what does not exist: %v", err)
	}
}
