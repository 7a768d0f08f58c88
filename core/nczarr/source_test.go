package nczarr_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// table is a Source with fixed locations of the chunks of a one-dimensional array.
type table []manifest.Location

func (s table) Locate(_ context.Context, indexes [][]int64, out []manifest.Location) error {
	for i, index := range indexes {
		out[i] = s[index[0]]
	}
	return nil
}

func (s table) Chunks(context.Context, []int64) iter.Seq2[manifest.Chunk, error] {
	return func(yield func(manifest.Chunk, error) bool) {
		for i := range s {
			if !s[i].Absent && !yield(manifest.Chunk{Index: []int64{int64(i)}, Key: s[i].Key, Size: 8}, nil) {
				return
			}
		}
	}
}

func (table) Found()                                                 {}
func (table) Forget(bool)                                            {}
func (table) SeparatorKnown() bool                                   { return true }
func (table) CheckMissing(context.Context, [][]int64, []int64) error { return nil }

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
	part := func(from, n int64) *driver.Range { return &driver.Range{Offset: from, Length: n} }
	for name, c := range map[string]struct {
		at   manifest.Location
		want string // two elements, or part of the error
		kind ncerr.Kind
	}{
		"whole":                   {manifest.Location{Map: elsewhere, Key: "whole"}, "[1 2]", 0},
		"of the version":          {manifest.Location{Map: elsewhere, Key: "whole", Version: infos["whole"].Version}, "[1 2]", 0},
		"a part":                  {manifest.Location{Map: elsewhere, Key: "many", Range: part(4, 9)}, "[3 4]", 0},
		"a part of the version":   {manifest.Location{Map: elsewhere, Key: "many", Range: part(4, 9), Version: infos["many"].Version}, "[3 4]", 0},
		"inline":                  {manifest.Location{Inline: []byte(encoded(7, 8))}, "[7 8]", 0},
		"without its filter":      {manifest.Location{Map: elsewhere, Key: "raw", FilterMask: 1}, "[5 6]", 0},
		"inline, without filter":  {manifest.Location{Inline: []byte("\x05\x00\x00\x00\x06\x00\x00\x00"), FilterMask: 1}, "[5 6]", 0},
		"absent":                  {manifest.Location{Absent: true}, "[9 9]", 0},
		"no object":               {manifest.Location{Map: elsewhere, Key: "none"}, "[9 9]", 0},
		"promised, and no object": {manifest.Location{Map: elsewhere, Key: "none", Required: true}, "none", ncerr.ErrNoObject},
		"of another version":      {manifest.Location{Map: elsewhere, Key: "whole", Version: "other"}, "whole", ncerr.ErrConflict},
		"beyond the end":          {manifest.Location{Map: elsewhere, Key: "many", Range: part(10, 9)}, "many", ncerr.ErrCorrupt},
		"another part":            {manifest.Location{Map: elsewhere, Key: "many", Range: part(3, 9)}, "bad first byte", ncerr.ErrCorrupt},
		"inline, empty":           {manifest.Location{Inline: []byte{}}, "bad first byte", ncerr.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inMemory(invert{})
			store(t, o, "s", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"zarr_format": 2, "shape": [6], "chunks": [2], "dtype": "<i4", "order": "C", "fill_value": 9, "filters": null, "compressor": {"id": "invert"}}`})
			v := variable(t, update(t, "mem:s#mode=zarr", o), "v")
			v.SetSource(table{{Absent: true}, c.at, {Inline: []byte(encoded(11, 12))}})
			got, err := nczarr.Get[int32](t.Context(), v, v.All())
			switch {
			case c.kind != 0:
				if ncerr.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
					t.Errorf("want %v of %q, got %v", c.kind, c.want, err)
				}
			case err != nil || fmt.Sprint(got) != "[9 9 "+c.want[1:len(c.want)-1]+" 11 12]":
				t.Errorf("want %s, got %v, %v", c.want, got, err)
			}
			want := int64(2)
			if c.at.Absent {
				want = 1
			}
			if s, err := v.Stored(t.Context()); err != nil || s.Chunks != want {
				t.Errorf("stored: got %+v, %v", s, err)
			}
			one := chunk.Selection{Start: []int64{0}, Count: []int64{1}}
			if err := v.Write(t.Context(), one, []int32{1}); ncerr.KindOf(err) != ncerr.ErrReadOnly {
				t.Errorf("write: want ErrReadOnly, got %v", err)
			}
		})
	}
}
