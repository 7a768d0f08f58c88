package place_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/place"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// left returns the names in a directory, separated by spaces.
func left(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("a/sub/x"), "1")
	write(t, at("b/x.zip"), "1")
	if err := os.Link(at("b/x.zip"), at("hard.zip")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", at("soft")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("b/x.zip", at("soft.zip")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("a/sub"), at("b/deep")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to string
		want     place.Relation
	}{
		{"a", "a", place.Same},
		{"a", "soft", place.Same},
		{"soft", "b/../a/.", place.Same},
		{"hard.zip", "b/x.zip", place.Same},
		{"soft.zip", "hard.zip", place.Same},
		{"b/deep", "a/sub", place.Same},
		{"a", "a/new", place.Below},
		{"a", "soft/new/deep", place.Below},
		{"a", "b/deep/new", place.Below},
		{"soft", "a/sub", place.Below},
		{"b/x.zip", "b", place.Above},
		{"soft.zip", "b", place.Above},
		{"b/deep", "a", place.Above},
		{"a/sub/x", ".", place.Above},
		{"a", "new", place.Disjoint},
		{"a", "aa", place.Disjoint},
		{"a", "b/x.zip", place.Disjoint},
		{"hard.zip", "b", place.Disjoint},
		{"not/here", "not/here", place.Same},
		{"not/here", "not/here/below", place.Below},
		{"not/here", "nor/there", place.Disjoint},
	} {
		if got := place.Compare(at(c.from), at(c.to)); got != c.want {
			t.Errorf("from %q to %q: want %d, got %d", c.from, c.to, c.want, got)
		}
	}
}

// TestCommit checks that Commit replaces the old store with the new one and leaves no other
// files.
func TestCommit(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"directory", "file"} {
		dir := t.TempDir()
		final := filepath.Join(dir, "x")
		in := func(root string) string {
			if kind == "file" {
				return root
			}
			return filepath.Join(root, "sub", "f")
		}
		write(t, in(final), "old")
		s, err := place.NewStage(final, place.StageOptions{Directory: kind == "directory", Check: func(old string) error {
			if got := read(t, in(old)); got != "old" {
				t.Errorf("%s: the old store contains %q", kind, got)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		write(t, in(s.Path), "new")
		if got := read(t, in(final)); got != "old" {
			t.Errorf("%s: before Commit: got %q, want old", kind, got)
		}
		if err := s.Commit(); err != nil {
			t.Error(err)
		}
		if got, names := read(t, in(final)), left(t, dir); got != "new" || names != "x" {
			t.Errorf("%s: after Commit: got %q and the entries %s, want new and x", kind, got, names)
		}
	}
}

// TestCommitRefused checks that a Commit that fails does not change anything.
func TestCommitRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	final := filepath.Join(dir, "x")
	write(t, final+"/f", "old")
	no := errors.New("no")
	s, err := place.NewStage(final, place.StageOptions{Directory: true, Check: func(string) error { return no }})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.Path+"/f", "new")
	if err := s.Commit(); !errors.Is(err, no) {
		t.Errorf("want the error of Check, got %v", err)
	}
	if got, names := read(t, final+"/f"), left(t, dir); got != "old" || names != "x" {
		t.Errorf("after the failure: got %q and the entries %s, want old and x", got, names)
	}
	if s, err = place.NewStage(final, place.StageOptions{Directory: true}); err != nil {
		t.Fatal(err)
	}
	write(t, s.Path+"/f", "new")
	if err := os.Rename(final, final+"2"); err != nil {
		t.Fatal(err)
	}
	write(t, final+"/f", "another's")
	if err := s.Commit(); err == nil {
		t.Error("Commit replaced the store of another process")
	}
	if got, names := read(t, final+"/f"), left(t, dir); got != "another's" || names != "x x2" {
		t.Errorf("after the failure: got %q and the entries %s, want another's and x x2", got, names)
	}
}

// TestSweep checks that Sweep visits exactly the directories that contain the mark and are not
// locked.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const prefix = "tmp-"
	live, err := place.NewTemp(dir, prefix, "")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := place.NewTemp(dir, prefix, "/x")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dead.Dir+"/f", "1")
	if err := dead.Keep(); err != nil { // Keep has the same effect as the end of the process
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, prefix+"2024-results", "out.csv"), "1")
	write(t, filepath.Join(dir, prefix+"AAAAAAAAAA", "out.csv"), "1")
	write(t, filepath.Join(dir, prefix+"BBBBBBBBBB", ".nczarr-temporary"), "my own notes")
	write(t, filepath.Join(dir, prefix+"CCCCCCCCCC", ".nczarr-temporary"), "")
	write(t, filepath.Join(dir, prefix+"CCCCCCCCCC", "f"), "1")
	if err := os.Symlink(filepath.Join(dir, prefix+"AAAAAAAAAA"), filepath.Join(dir, prefix+"DDDDDDDDDD")); err != nil {
		t.Skip(err)
	}
	before := left(t, dir)
	found, err := place.Find(dir, prefix)
	if err != nil || len(found) != 2 || left(t, dir) != before {
		t.Fatalf("Find: got %+v, %v, want two directories", found, err)
	}
	var swept []string
	place.Sweep(dir, prefix, func(f place.Found) {
		swept = append(swept, f.Dir+f.Mark.Target)
		if _, err := place.Clean(f); err != nil {
			t.Error(err)
		}
	})
	if want := []string{dead.Dir + "/x"}; !slices.Equal(swept, want) {
		t.Errorf("want %q swept, got %q", want, swept)
	}
	want := strings.TrimSpace(strings.Replace(" "+before, " "+filepath.Base(dead.Dir), "", 1))
	if got := left(t, dir); got != want {
		t.Errorf("want %q left, got %q", want, got)
	}
	if err := live.Remove(); err != nil {
		t.Error(err)
	}
}
