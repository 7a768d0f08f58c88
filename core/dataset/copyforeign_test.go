package dataset_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/blosc"
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
