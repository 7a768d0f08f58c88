package main

import (
	"bufio"
	"errors"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// full is a writer that accepts left bytes and then fails.
type full struct{ left int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestDumpJSONLongRow checks that a row with more values than memory can hold is dumped
// in pieces, and that the dump stops if its writer fails.
func TestDumpJSONLongRow(t *testing.T) {
	t.Parallel()
	opener := memmap.NewOpener()
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: "row", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	for key, body := range map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		"v/.zarray": `{"zarr_format": 2, "shape": [1, 1099511627776], "chunks": [1, 1048576], "dtype": "|u1", "fill_value": 1, "order": "C", "filters": null, "compressor": null}`,
	} {
		if _, err := m.Put(t.Context(), key, driver.Bytes(body), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := open.Open(t.Context(), "mem:row#mode=zarr", &dataset.Options{Registry: registry.New([]driver.Opener{opener})})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ds.Root().Var("v")
	if err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{}
	d := &jsonDumper{ctx: t.Context(), ds: ds, w: bufio.NewWriter(&full{left: 1 << 20}), opts: &cdl.WriteOptions{OnProblem: func(p dataset.Problem) { out.WriteString(p.Path) }}}
	d.data(v)
	if err := d.w.Flush(); !errors.Is(err, errFull) || out.Len() > 0 {
		t.Errorf("want the error of the writer and no problems, got %v and %q", err, out)
	}
}
