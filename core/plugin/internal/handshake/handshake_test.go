package handshake_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

const askEnv = "HANDSHAKE_TEST_BUILD_ID"

func TestMain(m *testing.M) {
	if os.Getenv(askEnv) != "" {
		_, _ = os.Stdout.WriteString(handshake.BuildID())
		return
	}
	os.Exit(m.Run())
}

// buildID gives what the program at path says.
func buildID(t *testing.T, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), askEnv+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBuildID: processes of one image agree; those of a file that was changed
// say something else.
func TestBuildID(t *testing.T) {
	t.Parallel()
	own := handshake.BuildID()
	if len(own) != 32 || strings.Trim(own, "0123456789abcdef") != "" {
		t.Errorf("got %q", own)
	}
	image, err := handshake.Image()
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(image, "/proc/") { // through a name that the child sees too
		if image, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	if got := buildID(t, image); got != own {
		t.Errorf("the same image says %q, not %q", got, own)
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
		t.Error("another image says the same")
	}
}

// TestCeilings: a part, its frame and a batch fit in a message that every
// implementation of gRPC takes.
func TestCeilings(t *testing.T) {
	t.Parallel()
	if handshake.MaxMessage > 4<<20 || handshake.MaxPart*2 > handshake.MaxMessage || handshake.MaxBatch*256 > handshake.MaxPart {
		t.Error("ceilings do not fit into each other")
	}
}
