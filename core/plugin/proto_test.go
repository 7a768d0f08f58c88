package plugin_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/plugin"
)

// TestVersion checks that the version and the limits in plugin.proto equal the constants
// of this package.
func TestVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("proto", "nczplugin", "v1", "plugin.proto"))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("// nczarr plugin protocol, version %d.%d\n", plugin.ProtocolMajor, plugin.ProtocolMinor)
	if !strings.HasPrefix(string(text), want) {
		t.Errorf("plugin.proto does not start with %q", want)
	}
	if pkg := fmt.Sprintf("package nczplugin.v%d;", plugin.ProtocolMajor); !strings.Contains(string(text), pkg) {
		t.Errorf("plugin.proto does not contain %q", pkg)
	}
	if part := fmt.Sprintf("at most %d MiB", plugin.MaxPart>>20); !strings.Contains(string(text), part) {
		t.Errorf("plugin.proto does not contain %q", part)
	}
	if message := fmt.Sprintf("longer than %d MiB", plugin.MaxMessage>>20); !strings.Contains(string(text), message) {
		t.Errorf("plugin.proto does not contain %q", message)
	}
}

// TestGenerated compiles the protocol again and compares the result with the checked-in
// files.
func TestGenerated(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiling the generators takes too long for -short")
	}
	dir := t.TempDir()
	tools, err := filepath.Abs(filepath.Join("..", "..", "tools.mod"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", "-modfile="+tools, "../protogen/main.go", dir)
	cmd.Dir = filepath.Join("internal", "pb")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "lookup ") {
			t.Skipf("the generators of tools.mod are not in the module cache and cannot be downloaded: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	if len(files) != 6 {
		t.Errorf("want 6 files, got %q", files)
	}
	for _, f := range files {
		want, _ := os.ReadFile(f)
		got, err := os.ReadFile(filepath.Join("internal", "pb", filepath.Base(f)))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is out of date, run go generate ./core/plugin/...: %v", filepath.Base(f), err)
		}
	}
}
