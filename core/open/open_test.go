package open_test

import (
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// tape is a driver of stores in memory with URL schemes of its own.
type tape struct {
	driver.Opener
	name    string
	schemes []string
}

func (t tape) Describe() driver.Description {
	return driver.Description{Name: t.name, Schemes: t.schemes, Siblings: true}
}

// TestDeclaredScheme creates, replaces and opens a dataset and one of its groups at a URL
// whose scheme only the driver knows.
func TestDeclaredScheme(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := dataset.Options{Registry: registry.New([]driver.Opener{tape{memmap.NewOpener(), "tape", []string{"tape", "reel"}}})}
	const url = "tape://robot-1/shelf/a%20b"
	for _, title := range []string{"old", "new"} {
		ds, err := open.Create(ctx, url+"#mode=nczarr", &dataset.CreateOptions{Options: o})
		if err != nil {
			t.Fatal(err)
		}
		if err := ds.Root().SetAttr(zarr.Attr{Name: "title", Type: dtype.NCChar, Value: title}); err != nil {
			t.Error(err)
		}
		if err := ds.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := open.Open(ctx, url, &o)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := ds.Root().Attr("title"); err != nil || a.Value != "new" {
		t.Errorf("got attribute %+v, %v", a, err)
	}
	if l := ds.Location(); l.Driver != "tape" || l.Path != "robot-1/shelf/a b" {
		t.Errorf("got location %+v", l)
	}
	if err := ds.Close(ctx); err != nil {
		t.Error(err)
	}
	m, err := open.Store(ctx, "REEL://robot-1/shelf/a%20b", &o)
	if err != nil {
		t.Fatal(err)
	}
	if there, err := m.Exists(ctx, ".zgroup"); !there || err != nil {
		t.Errorf("the store has no root document: %v", err)
	}
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestRefused checks the errors of locations that cannot be opened.
func TestRefused(t *testing.T) {
	t.Parallel()
	reg := registry.New([]driver.Opener{
		memmap.NewOpener(), tape{nil, "a", []string{"both", "mem"}}, tape{nil, "b", []string{"both"}}, tape{nil, "c", []string{"x", "MEM", "a:b"}},
	})
	for _, c := range []struct {
		url  string
		o    *dataset.Options
		kind ncerr.Kind
		text string
	}{
		{"mem:x", nil, ncerr.ErrInvalid, "Options.Registry"},
		{"mem:x", &dataset.Options{}, ncerr.ErrInvalid, "Options.Registry"},
		{"mem:x", &dataset.Options{Registry: reg}, ncerr.ErrNoDataset, "x"},
		{"both://x/y", &dataset.Options{Registry: reg}, ncerr.ErrInvalid, "a and b both declare the scheme both"},
		{"other://x/y", &dataset.Options{Registry: reg}, ncerr.ErrBadURL, "schemes are file, s3, gs3, http, https, both"},
		{"/d/x#mode=bytes", &dataset.Options{Registry: reg}, ncerr.ErrUnsupported, "byte-range access"},
	} {
		for name, f := range map[string]func() error{
			"Open":  func() error { _, err := open.Open(t.Context(), c.url, c.o); return err },
			"Store": func() error { _, err := open.Store(t.Context(), c.url, c.o); return err },
		} {
			if err := f(); ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s of %s: want %v with %q, got %v", name, c.url, c.kind, c.text, err)
			}
		}
	}
	if _, err := open.Create(t.Context(), "mem:x", nil); ncerr.KindOf(err) != ncerr.ErrInvalid {
		t.Errorf("Create without options: got %v", err)
	}
}
