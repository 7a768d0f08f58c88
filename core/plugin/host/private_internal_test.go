package host

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestPrivateDirLimits checks the limits of private directories.
func TestPrivateDirLimits(t *testing.T) {
	t.Parallel()
	for want, fill := range map[string]func(dir string) error{
		"":         func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), make([]byte, 1<<16), 0o600) },
		"larger":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), make([]byte, 3<<20), 0o600) },
		"too deep": func(dir string) error { return os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 40)), 0o700) },
		"too many entries": func(dir string) error {
			for i := range privateEntries {
				if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		dir := t.TempDir()
		if err := fill(dir); err != nil {
			t.Fatal(err)
		}
		got := dirProblem(dir, 2<<20)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	if got := dirProblem(filepath.Join(t.TempDir(), "gone"), 1); got != "" {
		t.Errorf("a directory that does not exist: got %q", got)
	}
}
