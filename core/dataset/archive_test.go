package dataset_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Data before an archive is not part of the dataset. An update keeps it, and a
// replacement is refused because the new archive would lack it.
func TestDataInFrontOfAnArchive(t *testing.T) {
	t.Parallel()
	for _, stub := range []string{"#!/bin/sh\nunzip $0\n", "x"} {
		o, name := localOptions(), filepath.Join(t.TempDir(), "d.zip")
		url := name + "#mode=nczarr,zip"
		closeDataset(t, one(t, url, o, 1))
		body, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, append([]byte(stub), body...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		ds := update(t, url, o)
		setText(t, ds.Root().SetAttr, "title", "new")
		closeDataset(t, ds)
		inFront := func() bool {
			body, err := os.ReadFile(name)
			return err == nil && bytes.HasPrefix(body, []byte(stub+"PK"))
		}
		if !inFront() {
			t.Errorf("%q: the update lost the data before the archive", stub)
		}
		_, err = createURL(t.Context(), url, &dataset.CreateOptions{Options: *o})
		if ncerr.KindOf(err) != ncerr.ErrExists || !strings.Contains(err.Error(), "data before the archive") || !inFront() {
			t.Errorf("%q: replace: want ErrExists, got %v", stub, err)
		}
		expect(t, open(t, url, o), "v", []int32{1})
		ds, err = createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		if inFront() {
			t.Errorf("%q: with force: the data before the archive still exists", stub)
		}
	}
}

// Writing an archive creates a new file under its name. A warning says that other hard
// links keep the old file.
func TestArchiveWithTwoNames(t *testing.T) {
	t.Parallel()
	o, dir := localOptions(), t.TempDir()
	url, other := filepath.Join(dir, "d.zip"), filepath.Join(dir, "other.zip")
	closeDataset(t, one(t, url, o, 1))
	var text bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&text, nil))
	warned := func() bool {
		defer text.Reset()
		return strings.Contains(text.String(), "hard links") && strings.Contains(text.String(), "names=2")
	}
	for what, writing := range map[string]func(){
		"update":  func() { closeDataset(t, update(t, url, o)) },
		"replace": func() { closeDataset(t, one(t, url, o, 1)) },
	} {
		_ = os.Remove(other)
		text.Reset()
		writing()
		if warned() {
			t.Errorf("%s: got a warning for a file with one link", what)
		}
		if err := os.Link(url, other); err != nil {
			t.Fatal(err)
		}
		writing()
		if !warned() {
			t.Errorf("%s: got no warning for a file with two links", what)
		}
		expect(t, open(t, other, o), "v", []int32{1})
	}
}
