package refs_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/refs"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

var limits = refs.Limits{MaxKeys: 1000, MaxDocument: 1 << 16}

// same resolves each reference to itself.
type same struct{}

func (same) Resolve(_ context.Context, ref string) (*zmap.Map, string, error) { return nil, ref, nil }

// TestParse parses files of both versions, and locates their chunks.
func TestParse(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"version 0": `{".zgroup": "{\"zarr_format\": 2}", "v/.zarray": {"fill_value": NaN, "shape": [9]}, "v/0": "text\n\u00e9", "v/1": "base64:AAECww==",
			"v/2": ["http://h/a"], "v/3": ["b.nc", 10, 20], "v/5": {"a":[1, NaN]}, "v/x": 1, "v/10": ["outside", 0, 1], "version": "a chunk of the root", "w/0": ["other", 0, 1]}`,
		"version 1": "\ufeff" + `{"version": 1, "templates": {"u": "b", "": "a", "x y": "http://h"}, "gen": [], "more": 1, "refs": {
			".zgroup": {"zarr_format": 2}, "v/.zarray": "{\"fill_value\": NaN, \"shape\": [9]}", "v\/0": "text\n\u00e9", "v/1": "base64:AAECww==",
			"v/2": ["{{x y}}/{{}}"], "v/3": ["lost", 1, 2], "v/3": ["{{ u }}.nc", 10, 20], "v/5": "{\"a\":[1, NaN]}", "w/0": ["other", 0, 1]}}`,
	} {
		f, err := refs.Parse([]byte(text), limits)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		docs := f.Documents()
		if keys := slices.Sorted(maps.Keys(docs)); !slices.Equal(keys, []string{".zgroup", "v/.zarray"}) || string(docs[".zgroup"]) != `{"zarr_format": 2}` || string(docs["v/.zarray"]) != `{"fill_value": NaN, "shape": [9]}` {
			t.Errorf("%s: documents %q", name, docs)
		}
		table := f.Table("v/", chunk.Keys{Separator: '.'}, []int64{9}, same{}, budget.NewShare(1<<20), 1<<20)
		out := make([]manifest.Location, 6)
		if err := table.Locate(t.Context(), [][]int64{{0}, {1}, {2}, {3}, {4}, {5}}, out); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		part := zmap.Range{Offset: 10, Length: 20}
		if string(out[0].Inline) != "text\né" || string(out[1].Inline) != "\x00\x01\x02\xc3" || out[2].Key != "http://h/a" || out[2].Range != nil || !out[2].Required ||
			out[3].Key != "b.nc" || out[3].Range == nil || *out[3].Range != part || !out[3].Required || !out[4].Absent || string(out[5].Inline) != `{"a":[1, NaN]}` {
			t.Errorf("%s: got %+v", name, out)
		}
		sizes := map[int64]int64{}
		for ch, err := range table.Chunks(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			sizes[ch.Index[0]] = ch.Size
		}
		if want := map[int64]int64{0: 7, 1: 4, 2: -1, 3: 20, 5: 14}; !maps.Equal(sizes, want) {
			t.Errorf("%s: want chunks %v, got %v", name, want, sizes)
		}
	}
}

// TestParseErrors checks that invalid files are refused, and that an invalid value of a chunk is
// an error about this chunk only.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]ncerr.Kind{
		``:                               ncerr.ErrNotZarr,
		`[]`:                             ncerr.ErrNotZarr,
		`"x"`:                            ncerr.ErrNotZarr,
		`{"a": ["b", 0, 1]`:              ncerr.ErrNotZarr,
		`{"a": "` + "\xff" + `"}`:        ncerr.ErrNotZarr,
		`{"version": 1}`:                 ncerr.ErrNotZarr,
		`{"version": 1, "refs": []}`:     ncerr.ErrNotZarr,
		`{"version": 2, "refs": {}}`:     ncerr.ErrUnsupported,
		`{"version": "1.1", "refs": {}}`: ncerr.ErrUnsupported,
		`{"version": 1, "gen": [{"key": "a"}], "refs": {}}`: ncerr.ErrUnsupported,
		`{"../a": "b"}`:                     ncerr.ErrMetadata,
		`{"/a": "b"}`:                       ncerr.ErrMetadata,
		`{"a//b": "b"}`:                     ncerr.ErrMetadata,
		`{"": "b"}`:                         ncerr.ErrMetadata,
		`{".zgroup": 1}`:                    ncerr.ErrMetadata,
		`{".zgroup": null}`:                 ncerr.ErrMetadata,
		`{".zgroup": ["http://h/.zgroup"]}`: ncerr.ErrUnsupported,
		`{".zgroup": "base64:!"}`:           ncerr.ErrCorrupt,
		`{".zgroup": "` + strings.Repeat(" ", 1<<16+1) + `"}`: ncerr.ErrLimit,
		`{` + strings.Repeat(`"a": "",`, 1000) + `"b": ""}`:   ncerr.ErrLimit,
		strings.Repeat("[", 1000):                             ncerr.ErrNotZarr,
	} {
		if _, err := refs.Parse([]byte(text), limits); ncerr.KindOf(err) != kind {
			t.Errorf("%.100s: want %v, got %v", text, kind, err)
		}
	}
	for _, value := range []string{
		`1`, `null`, `true`, `[]`, `[null]`, `[null, 0, 1]`, `[1]`, `[""]`, `["a", 1]`, `["a", 1, 2, 3]`, `["a", "1", 2]`, `["a", 1.5, 2]`, `["a", 0, null]`, `["a", -1, 2]`, `["a", 1, -1]`, `["a", 1, -2]`,
		`["a", 9223372036854775807, 1]`, `["a", 9223372036854775808, 1]`, `["a", 1, 1e30]`, `"base64:A"`, `"base64:!!!!"`,
		`["{{none}}"]`, `["{{u"]`, `["{{f(c='x')}}"]`, `["{{f}}"]`, `["` + strings.Repeat("x", 17<<10) + `"]`, `["` + strings.Repeat("{{long}}", 100) + `"]`,
	} {
		text := `{"version": 1, "templates": {"u": "x", "f": "{{c}}", "long": "` + strings.Repeat("y", 1000) + `"}, "refs": {"0": ` + value + `, "1": ["good"]}}`
		f, err := refs.Parse([]byte(text), limits)
		if err != nil {
			t.Errorf("%.100s: %v", value, err)
			continue
		}
		table := f.Table("", chunk.Keys{Separator: '.'}, []int64{2}, same{}, budget.NewShare(1<<20), 1<<20)
		out := make([]manifest.Location, 1)
		if err := table.Locate(t.Context(), [][]int64{{0}}, out); err == nil || !strings.Contains(err.Error(), "chunk [0]") {
			t.Errorf("%.100s: got %+v, %v", value, out, err)
		}
		if err := table.Locate(t.Context(), [][]int64{{1}}, out); err != nil || out[0].Key != "good" {
			t.Errorf("the chunk after %.100s: %v", value, err)
		}
	}
}

// TestOtherSeparator checks that an array does not read as fill if its chunks have keys with the
// other separator.
func TestOtherSeparator(t *testing.T) {
	t.Parallel()
	f, err := refs.Parse([]byte(`{"v/0/1": "a", "w/0.1": "a", "w/0/1": "b", "u/5/5": "c"}`), limits)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, kind := range map[string]ncerr.Kind{"v/": ncerr.ErrMetadata, "w/": 0, "u/": 0, "none/": 0} {
		table := f.Table(prefix, chunk.Keys{Separator: '.'}, []int64{2, 2}, same{}, budget.NewShare(1<<20), 1<<20)
		err := table.Locate(t.Context(), [][]int64{{0, 1}}, make([]manifest.Location, 1))
		if ncerr.KindOf(err) != kind {
			t.Errorf("%s: want %v, got %v", prefix, kind, err)
		}
	}
}

// TestSniff checks which files look like reference files.
func TestSniff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"version": 1, "refs": {".zgroup": "x"`:       true,
		"\ufeff \n{\n \"version\" : 1, \"templates\":": true,
		`{"refs": {}`:                                   true,
		`{".zgroup": "{}"`:                              true,
		`{"a\/b/.zarray": "{}"`:                         true,
		`{"zarr.json": "{}"`:                            true,
		`{"version": 1, "title": "attributes"}`:         false,
		`{"metadata": {".zgroup": {}, "v/.zarray": {}}`: false,
		`{"zarr_consolidated_format": 1, "metadata": {`: false,
		`{"zarr_format": 3, "node_type": "group"`:       false,
		`["version", "refs"]`:                           false,
		`{`:                                             false,
		``:                                              false,
		`{"version`:                                     false,
	} {
		if got := refs.Sniff([]byte(text)); got != want {
			t.Errorf("%s: got %t", text, got)
		}
	}
}

// FuzzParse checks that no file makes Parse or the tables of a file panic, or use much more
// memory than the file.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{".zgroup": "{\"zarr_format\": 2}", "v/0.0": ["a", 0, 1], "v/0.1": "base64:AA==", "v/1/1": {"x": NaN}}`,
		`{"version": 1, "templates": {"u": "s3://b/k"}, "refs": {"v/.zarray": {"shape": [2]}, "v/0.0": ["{{u}}", 1, 2], "v/0.1": ["{{u}}"], "v/1.1": "t"}}`,
		`{"version": 1, "gen": [], "refs": {"v/0.1": ["{{u", 9223372036854775807, 9223372036854775807], "v/0.1": [[], {}, null]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := refs.Parse(text, limits)
		if err != nil {
			if k := ncerr.KindOf(err); k == ncerr.ErrIO || k == ncerr.ErrInternal {
				t.Errorf("unexpected kind of %v", err)
			}
			return
		}
		size := 0
		for _, doc := range file.Documents() {
			size += len(doc)
		}
		if size > len(text) {
			t.Errorf("%d bytes of documents in a file of %d bytes", size, len(text))
		}
		table := file.Table("v/", chunk.Keys{Separator: '.'}, []int64{2, 2}, same{}, budget.NewShare(1<<20), 1<<24)
		listed := map[[2]int64]bool{}
		for ch, err := range table.Chunks(t.Context(), nil) {
			if err == nil {
				listed[[2]int64(ch.Index)] = true
			}
		}
		out := make([]manifest.Location, 1)
		for _, index := range [][]int64{{0, 0}, {0, 1}, {1, 0}, {1, 1}} {
			err := table.Locate(t.Context(), [][]int64{index}, out)
			if r := out[0].Range; err == nil && r != nil && (r.Offset < 0 || r.Length < 0 || r.Offset+r.Length < 0) {
				t.Errorf("chunk %v: %+v", index, *r)
			}
			if err == nil && !out[0].Absent && !listed[[2]int64(index)] {
				t.Errorf("chunk %v is not listed", index)
			}
		}
	})
}
