package docs_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the text of every Markdown page, indexed by its path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", path))
		out[path] = string(text)
		return err
	})
	if err != nil || len(out) < 10 {
		t.Fatalf("%d pages, %v", len(out), err)
	}
	return out
}

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// quoted matches a path of this tree in back quotes.
	quoted = regexp.MustCompile("`((?:core|drivers|filters|conformance|cmd|docs)/[A-Za-z0-9_./-]+|\\.ci/[a-z]+)`")
	// named matches a test in back quotes, after the file that contains it.
	named = regexp.MustCompile("`([a-z][A-Za-z0-9_/]*_test\\.go)`,? `(Test[A-Za-z0-9]+|Fuzz[A-Za-z0-9]+)`")
	host  = regexp.MustCompile(`(^|[\s"'(=:])/(work|root|home)/`)
)

func TestLinks(t *testing.T) {
	t.Parallel()
	for path, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(path), target)); err != nil {
				t.Errorf("%s: broken link to %s", path, m[1])
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for path, text := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join("..", m[1]))
			if err != nil { // an example may name a path of its own module
				_, err = os.Stat(filepath.Join("..", filepath.Dir(path), m[1]))
			}
			if err != nil {
				t.Errorf("%s: %s does not exist", path, m[1])
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			source, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil || !strings.Contains(string(source), "func "+m[2]+"(") {
				t.Errorf("%s: %s not found in %s", path, m[2], m[1])
			}
		}
		if m := host.FindString(text); m != "" {
			t.Errorf("%s: path %q exists only on one machine", path, m)
		}
	}
}

// TestCorrectness checks that the page on correctness names a test for every
// fault. TestNames checks that these tests exist.
func TestCorrectness(t *testing.T) {
	t.Parallel()
	rows := 0
	for line := range strings.Lines(pages(t)["docs/explanation/correctness.md"]) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| fault |") {
			continue
		}
		rows++
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) != 4 || !named.MatchString(cells[3]) {
			t.Errorf("row does not have four columns or names no test: %s", line)
		}
	}
	if rows < 40 {
		t.Errorf("page has only %d faults", rows)
	}
}

// TestMap checks that docs/README.md links to every page.
func TestMap(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path := range all {
		rest, ok := strings.CutPrefix(path, "docs/")
		if ok && rest != "README.md" && !strings.HasPrefix(rest, "adr/0") && !strings.HasPrefix(rest, "examples/") &&
			!strings.Contains(all["docs/README.md"], "]("+rest+")") {
			t.Errorf("docs/README.md does not link to %s", path)
		}
	}
}

// TestPublicPackage checks that the public package imports neither os/exec, nor
// the plugin packages, nor the AWS SDK.
func TestPublicPackage(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "github.com/seed-695719ce/nczarr").Output()
	if err != nil || len(out) < 1000 {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	if bad := regexp.MustCompile(`(?m)^(os/exec|plugin|testing|.*/core/plugin.*|google\.golang\.org/.*|github\.com/(aws|hashicorp)/.*)$`).FindAllString(string(out), -1); bad != nil {
		t.Errorf("the public package imports %q", bad)
	}
}

// TestDependencies compares the page on dependencies with the direct requirements.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]bool{}, map[string]bool{}
	for _, r := range mod.Require {
		if !r.Indirect {
			want[r.Path] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ([a-z][^ ]*[./][^ ]*) \|`).FindAllStringSubmatch(pages(t)["docs/reference/dependencies.md"], -1) {
		got[m[1]] = true
	}
	if !maps.Equal(want, got) {
		t.Errorf("want %v\ngot  %v", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// frame turns a snippet into a complete program.
func frame(snippet string) string {
	switch {
	case strings.HasPrefix(snippet, "package "):
		return snippet
	case strings.Contains(snippet, "tape.New()"):
		return `package main

import (
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

type opener struct{}

func (opener) New() driver.Opener { return nil }

var tape opener

` + snippet
	}
	return `package main

import (
	"context"

	"github.com/seed-695719ce/nczarr"
)

func main() {
	ctx := context.Background()
` + snippet + `
	_, _ = values, err
}
`
}

// TestSnippets compiles every Go code block of every page.
func TestSnippets(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir, n := t.TempDir(), 0
	replace := map[string]string{}
	args := []string{"list", "-export", "-overlay", filepath.Join(dir, "overlay.json")} // compiles, but does not link
	for path, text := range pages(t) {
		for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
			n++
			name := fmt.Sprintf("snippet%d", n)
			file := filepath.Join(dir, name+".go")
			if err := os.WriteFile(file, []byte("// From "+path+".\n"+frame(m[1])), 0o600); err != nil {
				t.Fatal(err)
			}
			replace[filepath.Join(root, "docs", name, "main.go")] = file
			args = append(args, "./docs/"+name)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil || n < 4 {
		t.Fatalf("%d snippets, %v", n, err)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
