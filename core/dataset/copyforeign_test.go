package dataset_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/blosc"
	"github.com/seed-695719ce/nczarr/filters/packbits"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// A scalar of an xarray dataset is compressed by blosc. netcdf-c refuses a whole NCZarr
// dataset that contains such a scalar, so the copy does not compress it.
func TestCopyOfAScalarWithBlosc(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider(), blosc.Provider())
	scalar := strings.ReplaceAll(document("<i4", "3", "C", "null"), "[2]", "[]")
	store(t, o, "src", map[string]string{
		".zgroup":   `{"zarr_format": 2}`,
		"v/.zarray": strings.ReplaceAll(scalar, `"compressor": null`, `"compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}`),
	})
	src := open(t, "mem:src#mode=zarr", o)
	for mode, want := range map[string]int{"nczarr": 0, "zarr": 1} {
		v := variable(t, copyOf(t, src, "mem:"+mode+"#mode="+mode, o, nil), "v")
		if got := v.Codecs(); len(got) != want {
			t.Errorf("%s: want %d codecs, got %v", mode, want, got)
		}
	}
}

// A new scalar of NCZarr on Zarr v2 gets no blosc either, with one warning.
func TestNewScalarWithBlosc(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"nczarr": 0, "nczarr,v3": 1, "zarr": 1} {
		var log bytes.Buffer
		o := memory(blosc.Provider())
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		ds, err := createURL(t.Context(), "mem:"+mode+"#mode="+mode, &dataset.CreateOptions{Options: *o})
		if err != nil {
			t.Fatal(err)
		}
		v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Codecs: []zarr.CodecSpec{{ID: "blosc"}}})
		if got, warned := v.Codecs(), strings.Count(log.String(), "stored without blosc"); len(got) != want || warned != 1-want {
			t.Errorf("%s: want %d codecs, got %v and the log %s", mode, want, got, log.String())
		}
		closeDataset(t, ds)
	}
}

// A _FillValue that does not fit its variable stays in copies to pure Zarr, whose readers
// treat it as any other attribute. NCZarr has no such attribute.
func TestCopyOfAMisfitFillValue(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`"bad"`, `1e10`, `null`, `[1,2]`, `300000`} {
		o := memory(vlen.Provider())
		store(t, o, "src", map[string]string{
			".zgroup":   `{"zarr_format": 2}`,
			"v/.zarray": document("<i2", "3", "C", "null"),
			"v/.zattrs": `{"units": "m", "_FillValue": ` + text + `}`,
		})
		src := open(t, "mem:src#mode=zarr", o)
		for mode, doc := range map[string]string{"zarr": "v/.zattrs", "zarr,v3": "v/zarr.json"} {
			if got := stored(t, copyOf(t, src, "mem:"+mode+"#mode="+mode, o, nil), doc); !strings.Contains(got, `"_FillValue":`+text) {
				t.Errorf("want the attribute %s in the copy with mode=%s, got %s", text, mode, got)
			}
		}
		v := variable(t, copyOf(t, src, "mem:netcdf#mode=nczarr", o, nil), "v")
		if attrs := v.Attrs(); len(attrs) != 1 || attr(t, attrs, "units") != "m" {
			t.Errorf("%s: want only the attribute units in the NCZarr copy, got %v", text, attrs)
		}
	}
}

// A copy from Zarr v2 to v3 keeps the objects in attributes that contain NaN, as bare
// words in the form of zarr-python.
func TestCopyOfObjectsWithNaNToV3(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	const attrs = `"o":{"x":NaN,"y":[Infinity,{"z":-Infinity}]},"l":[{"x":NaN},null]`
	store(t, o, "src", map[string]string{".zgroup": `{"zarr_format": 2}`, ".zattrs": "{" + attrs + "}", "v/.zarray": document("<i2", "3", "C", "null"), "v/.zattrs": "{" + attrs + "}"})
	ds := copyOf(t, open(t, "mem:src#mode=zarr", o), "mem:copy#mode=zarr,v3", o, nil)
	for _, doc := range []string{"zarr.json", "v/zarr.json"} {
		if got := stored(t, ds, doc); !strings.Contains(got, attrs) {
			t.Errorf("want the attributes %s in %s, got %s", attrs, doc, got)
		}
	}
}

// Pure Zarr can have a fill_value that differs from _FillValue. Copies keep both, except from
// Zarr v3 to v2, where only fill_value marks missing values.
func TestCopyKeepsTwoFillValues(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	store(t, o, "two", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.ReplaceAll(document("<i2", "3", "C", "null"), `"shape": [2]`, `"shape": [4]`), "v/.zattrs": `{"_FillValue": 7}`, "v/1": "\x01\x00\x07\x00"})
	url := "mem:two#mode=zarr"
	for i, c := range []struct {
		mode, mask string
		chunks     int
	}{{"zarr", "3 _FillValue 7", 1}, {"zarr,v3", "3 _FillValue 7", 1}, {"zarr,v3", "3 _FillValue 7", 1}, {"zarr,v2", "7 _FillValue 7", 2}} {
		to := fmt.Sprintf("mem:two%d", i)
		ds := copyOf(t, open(t, url, o), to+"#mode="+c.mode, o, nil)
		if got, chunks := maskOf(t, ds), bodies(t, to, o); got != c.mask || len(chunks) != c.chunks {
			t.Errorf("%d, mode=%s: want %s and %d chunks, got %s and %q", i, c.mode, c.mask, c.chunks, got, chunks)
		}
		url = to
	}
}

// zarr-python refuses a whole dataset of Zarr v3 in which packbits packs numbers. NCZarr has no
// bool, so the copy omits the codec.
func TestCopyOfPackedBools(t *testing.T) {
	t.Parallel()
	o := memory(packbits.Provider())
	store(t, o, "packed", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": document("|b1", "null", "C", `[{"id": "packbits"}]`), "v/0": "\x06\x80"})
	src := open(t, "mem:packed#mode=zarr", o)
	for mode, want := range map[string]int{"nczarr": 1, "zarr,v3": 1, "nczarr,v3": 0} {
		v := variable(t, copyOf(t, src, "mem:"+mode+"#mode="+mode, o, nil), "v")
		got := make([]uint8, 2)
		if err := v.Read(t.Context(), v.All(), got); err != nil || len(v.Codecs()) != want || !slices.Equal(got, []uint8{1, 0}) {
			t.Errorf("%s: want %d codecs and the values 1, 0, got %v, %v, %v", mode, want, v.Codecs(), got, err)
		}
	}
}
