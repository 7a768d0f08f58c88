package dataset_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// entries holds the entries of a table of one page.
type entries []manifest.Entry

func (e entries) Page(context.Context, int64) ([]manifest.Entry, error) { return e, nil }

func (entries) Next(_ context.Context, n int64) (int64, error) { return n, nil }

// within resolves references to the keys of a Map.
type within struct{ *zmap.Map }

func (w within) Resolve(_ context.Context, ref string) (*zmap.Map, string, error) {
	return w.Map, ref, nil
}

// table returns the Source of the chunks of a one-dimensional array.
func table(m *zmap.Map, list ...manifest.Entry) manifest.Source {
	return manifest.NewTable(entries(list), []int64{int64(len(list))}, within{m}, budget.NewShare(1<<20), 1<<20)
}

// TestLocations reads chunks at Locations that use every state and field.
func TestLocations(t *testing.T) {
	t.Parallel()
	raw, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "elsewhere", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := zmap.New(raw, nil)
	t.Cleanup(func() { _ = elsewhere.Close(t.Context()) })
	// encoded returns a chunk of two elements as invert encodes it.
	encoded := func(a, b byte) string { return "\x5a" + string([]byte{^a, 255, 255, 255, ^b, 255, 255, 255}) }
	infos := map[string]zmap.Info{}
	for key, content := range map[string]string{"whole": encoded(1, 2), "many": "...." + encoded(3, 4) + "..", "raw": "\x05\x00\x00\x00\x06\x00\x00\x00"} {
		info, err := elsewhere.Put(t.Context(), key, driver.Bytes(content), nil)
		if err != nil {
			t.Fatal(err)
		}
		infos[key] = info
	}
	for name, c := range map[string]struct {
		at   manifest.Entry
		want string // two elements, or part of the error
		kind ncerr.Kind
	}{
		"whole":                   {manifest.Entry{Ref: "whole", Length: -1}, "[1 2]", 0},
		"of the version":          {manifest.Entry{Ref: "whole", Length: -1, Version: infos["whole"].Version}, "[1 2]", 0},
		"a part":                  {manifest.Entry{Ref: "many", Offset: 4, Length: 9}, "[3 4]", 0},
		"a part of the version":   {manifest.Entry{Ref: "many", Offset: 4, Length: 9, Version: infos["many"].Version}, "[3 4]", 0},
		"inline":                  {manifest.Entry{Inline: []byte(encoded(7, 8))}, "[7 8]", 0},
		"without its filter":      {manifest.Entry{Ref: "raw", Length: -1, FilterMask: 1}, "[5 6]", 0},
		"inline, without filter":  {manifest.Entry{Inline: []byte("\x05\x00\x00\x00\x06\x00\x00\x00"), FilterMask: 1}, "[5 6]", 0},
		"absent":                  {manifest.Entry{}, "[9 9]", 0},
		"no object":               {manifest.Entry{Ref: "none", Length: -1}, "[9 9]", 0},
		"promised, and no object": {manifest.Entry{Ref: "none", Length: -1, Required: true}, "none", ncerr.ErrNoObject},
		"of another version":      {manifest.Entry{Ref: "whole", Length: -1, Version: "other"}, "whole", ncerr.ErrConflict},
		"beyond the end":          {manifest.Entry{Ref: "many", Offset: 10, Length: 9}, "many", ncerr.ErrCorrupt},
		"another part":            {manifest.Entry{Ref: "many", Offset: 3, Length: 9}, "bad first byte", ncerr.ErrCorrupt},
		"inline, empty":           {manifest.Entry{Inline: []byte{}}, "bad first byte", ncerr.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inMemory(invert{})
			store(t, o, "s", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"zarr_format": 2, "shape": [6], "chunks": [2], "dtype": "<i4", "order": "C", "fill_value": 9, "filters": null, "compressor": {"id": "invert"}}`})
			v := variable(t, update(t, "mem:s#mode=zarr", o), "v")
			v.SetSource(table(elsewhere, manifest.Entry{}, c.at, manifest.Entry{Inline: []byte(encoded(11, 12))}))
			got, err := dataset.Get[int32](t.Context(), v, v.All())
			switch {
			case c.kind != 0:
				if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
					t.Errorf("want %v of %q, got %v", c.kind, c.want, err)
				}
			case err != nil || fmt.Sprint(got) != "[9 9 "+c.want[1:len(c.want)-1]+" 11 12]":
				t.Errorf("want %s, got %v, %v", c.want, got, err)
			}
			want := int64(2)
			if c.at.Absent() {
				want = 1
			}
			s, err := v.Stored(t.Context())
			if missing := c.at.Ref == "none"; missing != (ncerr.KindOf(err) == ncerr.ErrNotFound) || !missing && (err != nil || s.Chunks != want) {
				t.Errorf("stored: got %+v, %v", s, err)
			}
			one := chunk.Selection{Start: []int64{0}, Count: []int64{1}}
			if err := v.Write(t.Context(), one, []int32{1}); ncerr.KindOf(err) != ncerr.ErrReadOnly {
				t.Errorf("write: want ErrReadOnly, got %v", err)
			}
		})
	}
}
