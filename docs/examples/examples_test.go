// Package examples_test builds the example plugins in separate modules, as
// an external author would, and runs them under a host.
package examples_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxLines limits the lines of Go of an example plugin, not counting blank lines
// and comments.
const maxLines = 140

// build copies an example out of the tree and builds its command into dir.
func build(t *testing.T, example, command, dir string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	src := t.TempDir()
	if err := os.CopyFS(src, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err == nil {
		err = os.WriteFile(filepath.Join(src, "go.sum"), sums, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		cmd := exec.Command("go", args...)
		cmd.Dir = src
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOPROXY=off", "GOSUMDB=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("mod", "edit", "-replace", "github.com/seed-695719ce/nczarr="+root)
	name := command
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	run("build", "-ldflags=-s -w", "-o", filepath.Join(dir, name), "./cmd/"+command)
}

func newHost(t *testing.T, dir string) *host.Host {
	t.Helper()
	h, err := host.New(&host.Options{Dirs: []string{dir}, AllowUnpinned: true, Isolation: host.Process, StartTimeout: time.Minute, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h
}

// TestDriver runs the conformance suite on the example, briefly unless NCZARR_FULL is set.
func TestDriver(t *testing.T) {
	t.Parallel()
	plugins, stores := t.TempDir(), t.TempDir()
	build(t, "driver-onefile", "nczarr-driver-onefile", plugins)
	h := newHost(t, plugins)
	o, err := h.Driver("onefile")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	effort := conformance.Brief
	if os.Getenv("NCZARR_FULL") == "1" {
		effort = conformance.Normal
	}
	conformance.TestWith(t, mapsuite.Suite(), &mapsuite.Target{Opener: o, NewSpec: func() (driver.OpenSpec, func(), error) {
		return driver.OpenSpec{Path: filepath.Join(stores, fmt.Sprint(n.Add(1)))}, nil, nil
	}}, &conformance.Options{Effort: effort})
	var jobs int64
	for _, i := range h.Plugins() { // one process per store
		if jobs += i.Jobs; i.Version != "1.0.0" || i.PID == os.Getpid() {
			t.Errorf("got %+v", i)
		}
	}
	if jobs == 0 {
		t.Error("no process did any job")
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	plugins := t.TempDir()
	build(t, "filter-bitrev", "nczarr-filter-bitrev", plugins)
	h := newHost(t, plugins)
	p, err := h.Filter("bitrev")
	if err != nil {
		t.Fatal(err)
	}
	c, out, err := p.Open("bitrev", []byte(`{"id":"bitrev"}`), codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 3})
	if err != nil || out.MaxBytes != 3 {
		t.Fatalf("got %+v, %v", out, err)
	}
	src, want := []byte{0x01, 0xf0, 0xa5}, []byte{0x80, 0x0f, 0xa5}
	coded, back := make([]byte, 3), make([]byte, 3)
	if n, err := c.Encode(t.Context(), coded, src); err != nil || !bytes.Equal(coded[:n], want) {
		t.Errorf("want %x, got %x, %v", want, coded[:n], err)
	}
	if n, err := c.Decode(t.Context(), back, coded); err != nil || !bytes.Equal(back[:n], src) {
		t.Errorf("want %x, got %x, %v", src, back[:n], err)
	}
}

// TestShort limits the length of the example plugins.
func TestShort(t *testing.T) {
	t.Parallel()
	for _, example := range []string{"driver-onefile", "filter-bitrev"} {
		lines := 0
		err := filepath.WalkDir(example, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			text, err := os.ReadFile(path)
			n := 0
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
					n++
				}
			}
			if lines += n; strings.HasPrefix(filepath.ToSlash(path), example+"/cmd/") && n >= 30 {
				t.Errorf("%s has %d lines, want less than 30", path, n)
			}
			return err
		})
		if err != nil || lines >= maxLines {
			t.Errorf("%s has %d lines of Go, %v", example, lines, err)
		}
	}
}
