//go:build unix

package host

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestPipeForPlugin checks that opening a named pipe as a plugin fails without
// blocking.
func TestPipeForPlugin(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nczarr-filter-x")
	if err := syscall.Mkfifo(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readImage(path); !errors.Is(err, ncerr.ErrPlugin) {
		t.Errorf("want ErrPlugin, got %v", err)
	}
}

// TestInterpreterOfScript checks that libraries finds the same interpreter of a script
// as the kernel.
func TestInterpreterOfScript(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		"#!/opt/x/python3 -u": "/opt/x/python3", "#! \t/opt/x/sh\t-e": "/opt/x/sh", "#!/\vopt/x": "/\vopt/x", "#!/\u00a0x": "/\u00a0x",
	} {
		img := image{head: []byte(head)}
		if got := img.libraries(); !slices.Contains(got, want) || slices.Contains(got, "/") {
			t.Errorf("%q: want %q, got %q", head, want, got)
		}
	}
}
