package open_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
	"golang.org/x/sys/unix"
)

// Probe does not guess the kind of an unreadable file. The driver that its name selects
// opens the file and reports the error.
func TestProbeUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "x.zip")
	for _, err := range []error{os.WriteFile(name, []byte("PK\x05\x06"), 0), os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan ncurl.PathKind)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if os.Getuid() == 0 {
			_, _ = unix.SetfsuidRetUid(65534)
		}
		got <- open.Probe(name)
	}()
	if p := <-got; p != ncurl.NotProbed {
		t.Errorf("want %q, got %q", ncurl.NotProbed, p)
	}
}
