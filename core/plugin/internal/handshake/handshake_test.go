package handshake_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

// printEnv is the environment variable that makes this program print its build id and exit.
const printEnv = "HANDSHAKE_TEST_BUILD_ID"

func TestMain(m *testing.M) {
	if os.Getenv(printEnv) != "" {
		_, _ = os.Stdout.WriteString(handshake.BuildID())
		return
	}
	os.Exit(m.Run())
}

// buildID returns the build id that the program at path prints.
func buildID(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), printEnv+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBuildID checks that processes of one executable have the same id, and that a
// changed executable has a different id.
func TestBuildID(t *testing.T) {
	t.Parallel()
	own := handshake.BuildID()
	if len(own) != 32 || strings.Trim(own, "0123456789abcdef") != "" {
		t.Errorf("want 32 hexadecimal digits, got %q", own)
	}
	image, err := handshake.Image()
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(image, "/proc/") { // use a path that refers to the same file in the child
		if image, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	if got := buildID(t, image); got != own {
		t.Errorf("the same executable has the id %q, want %q", got, own)
	}
	text, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), filepath.Base(image))
	if err := os.WriteFile(other, append(text, 0), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := buildID(t, other); got == own {
		t.Error("another executable has the same id")
	}
}

// TestCeilings checks that a part with its framing, and the other fields of a batch,
// fit in a message that every gRPC implementation accepts.
func TestCeilings(t *testing.T) {
	t.Parallel()
	if handshake.MaxMessage > 4<<20 || handshake.MaxPart*2 > handshake.MaxMessage || handshake.MaxBatch*256 > handshake.MaxPart {
		t.Error("the limits are inconsistent")
	}
}
