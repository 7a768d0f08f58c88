package docs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// shell is a block of commands that is to work as it is printed.
var shell = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestCommands runs the commands of the README and of the tutorials as they are
// printed, one page after the other, in a directory that is empty at first.
func TestCommands(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no POSIX shell")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	settings := filepath.Join(dir, ".none", "nczarr") // a plugin may take its time to start on a busy machine
	if err := errors.Join(os.MkdirAll(settings, 0o777), os.WriteFile(filepath.Join(settings, "config.toml"), []byte("[plugins]\nstart_timeout = \"5m\"\n"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "nczctl"), "../cmd/nczctl").CombinedOutput(); err != nil {
		t.Fatalf("build nczctl: %v\n%s", err, out)
	}
	env := append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "NCZARR="+root,
		"XDG_CONFIG_HOME="+dir+"/.none", "XDG_DATA_HOME="+dir+"/.none", "NCZARR_CONFIG=", "NCZARR_PLUGIN_PATH=")
	for _, page := range []string{"README.md", "docs/tutorial/first-dataset.md", "docs/tutorial/1-open.md", "docs/tutorial/2-write.md", "docs/tutorial/3-filter-plugin.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := shell.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s: no commands to run", page)
		}
		for _, block := range blocks {
			cmd := exec.CommandContext(t.Context(), sh, "-e", "-c", block[1])
			cmd.Dir, cmd.Env = dir, env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s\n%s", page, err, block[1], out)
			}
			if page == "docs/tutorial/first-dataset.md" && strings.Contains(block[1], "printf") && !strings.Contains(string(out), "exit code 13") {
				t.Errorf("%s: the damaged chunk was not told: %s", page, out)
			}
		}
	}
}
