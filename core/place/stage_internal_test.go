package place

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		t.Fatal(err)
	}
}

// TestTwoRenames checks that Interrupted finds the old store and Clean moves it back, if the
// system cannot exchange two names and a process died between the renames.
func TestTwoRenames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	final := filepath.Join(dir, "x")
	put(t, final+"/f", "old")
	stage := func() *Stage {
		s, err := NewStage(final, StageOptions{Directory: true})
		if err != nil {
			t.Fatal(err)
		}
		s.sys.exchange = func(string, string) error { return errors.ErrUnsupported }
		put(t, s.Path+"/f", "new")
		return s
	}
	s := stage()
	if err := os.Rename(final, filepath.Join(s.temp.Dir, oldName)); err != nil {
		t.Fatal(err)
	}
	_ = s.temp.Keep() // the process dies
	if got := Interrupted(final); got != s.temp.Dir {
		t.Errorf("Interrupted: want %q, got %q", s.temp.Dir, got)
	}
	found, err := Find(dir, StagePrefix)
	if err != nil || len(found) != 1 || found[0].InUse {
		t.Fatalf("Find: got %+v, %v, want one directory that is not in use", found, err)
	}
	if restored, err := Clean(found[0]); err != nil || !restored {
		t.Errorf("Clean: got %t, %v, want true", restored, err)
	}
	if text, err := os.ReadFile(final + "/f"); err != nil || string(text) != "old" {
		t.Errorf("after Clean: got %q, %v, want old", text, err)
	}
	if err := stage().Commit(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(final + "/f"); err != nil || string(text) != "new" {
		t.Errorf("after Commit: got %q, %v, want new", text, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("after Commit: got the entries %v, %v, want only the store", names, err)
	}
}

// TestSyncedInOrder checks that Commit syncs the new store before the exchange, and syncs the
// exchange before it removes the old store.
func TestSyncedInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	final := filepath.Join(dir, "x")
	put(t, final+"/f", "old")
	s, err := NewStage(final, StageOptions{Directory: true})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, name := range []string{"", "/a", "/a/f", "/a/b", "/a/b/g"} {
		want[s.newPath()+name] = true
	}
	put(t, s.Path+"/a/f", "new")
	put(t, s.Path+"/a/b/g", "new")
	var mu sync.Mutex
	swapped := false
	synced := func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		delete(want, name)
		return nil
	}
	s.sys.syncFile, s.sys.syncDir = synced, synced
	s.sys.exchange = func(a, b string) error {
		if len(want) > 0 {
			t.Errorf("Commit did not sync before the exchange: %v", want)
		}
		swapped = true
		want = map[string]bool{dir: true, s.temp.fdPath(): true}
		return exchange(a, b)
	}
	s.sys.remove = func(path string) error {
		if !swapped || len(want) > 0 {
			t.Errorf("Commit did not sync before it removed the old store: %v", want)
		}
		return Remove(path)
	}
	if err := s.Commit(); err != nil {
		t.Error(err)
	}
}

// TestForeignMark checks Clean if the mark is forged or the file system was mounted elsewhere.
// Clean must move the old store only into the directory that contains the stage, or leave the
// old store in the stage.
func TestForeignMark(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ target, back string }{
		{"elsewhere/x", "x"}, {"elsewhere/there", "there"}, {"elsewhere/..", ""}, {"/", ""}, {"", ""},
	} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "elsewhere", "there"), "another's")
		target := c.target
		if target != "" && target != "/" {
			target = dir + "/" + target
		}
		temp, err := NewTemp(filepath.Join(dir, "elsewhere", ".."), StagePrefix, target)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(temp.Dir, oldName), "old")
		if err := temp.Keep(); err != nil { // the process dies
			t.Fatal(err)
		}
		Sweep(dir, StagePrefix, func(f Found) {
			if restored, err := Clean(f); restored != (c.back != "") || restored != (err == nil) {
				t.Errorf("target %q: Clean returned %t, %v", c.target, restored, err)
			}
		})
		at := filepath.Join(dir, c.back)
		if c.back == "" {
			at = filepath.Join(temp.Dir, oldName)
		}
		if text, err := os.ReadFile(at); err != nil || string(text) != "old" {
			t.Errorf("target %q: the old store contains %q, %v", c.target, text, err)
		}
		if names, err := os.ReadDir(filepath.Join(dir, "elsewhere")); err != nil || len(names) != 1 {
			t.Errorf("target %q: the directory elsewhere has the entries %v, %v", c.target, names, err)
		}
	}
}
