package main_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the pages instead of comparing them")

// TestDrift checks that the generated pages are up to date.
func TestDrift(t *testing.T) {
	t.Parallel()
	reference := filepath.Join("..", "reference")
	dir := t.TempDir()
	if *update {
		dir = reference
	}
	if out, err := exec.Command("go", "run", ".", "-o", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pages, err := os.ReadDir(dir)
	if err != nil || len(pages) < 4 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		want, err := os.ReadFile(filepath.Join(dir, p.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(reference, p.Name()))
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("docs/reference/%s is out of date (%v): run make gen", p.Name(), err)
		}
	}
}
