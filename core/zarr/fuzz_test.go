package zarr_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// seeds adds every golden document of that name.
func seeds(f *testing.F, doc string) {
	for _, c := range golden {
		if text, ok := c.docs[doc]; ok {
			f.Add([]byte(text), uint8(c.layout))
		}
	}
	f.Add([]byte(`{"a": NaN, "b": [], "_ARRAY_DIMENSIONS": ["x","y"]}`), uint8(0))
	f.Add([]byte(`{"shape": [0], "chunks": [0], "dtype": "|V5", "fill_value": "AAA="}`), uint8(0))
	f.Add([]byte(`{"shape": [2,3], "chunks": [1,1], "dtype": "<c16", "order": "F", "fill_value": [1,"NaN"], "filters": [{"id":"a","b":0.}]}`), uint8(0))
}

// fuzz parses a document as the named one of a node, next to sound others,
// and asks that what is read can be written and read again.
func fuzz(f *testing.F, doc string) {
	seeds(f, doc)
	f.Fuzz(func(t *testing.T, b []byte, layout uint8) {
		l := zarr.Layout(layout % 5)
		docs := zarr.Docs{doc: b}
		if doc != ".zarray" {
			docs[".zarray"] = zarray("")
		}
		parseAny(t, docs, l)
	})
}

func FuzzParseZarray(f *testing.F)   { fuzz(f, ".zarray") }
func FuzzParseZattrs(f *testing.F)   { fuzz(f, ".zattrs") }
func FuzzParseZgroup(f *testing.F)   { fuzz(f, ".zgroup") }
func FuzzParseNczgroup(f *testing.F) { fuzz(f, ".nczgroup") }
func FuzzParseNczarray(f *testing.F) { fuzz(f, ".nczarray") }
func FuzzParseNczattrs(f *testing.F) { fuzz(f, ".nczattrs") }

func FuzzParseConsolidated(f *testing.F) {
	f.Add([]byte(`{"metadata": {".zgroup": {"zarr_format": 2}, "a/.zarray": {}, "/b/.zattrs": {"x": [1,{"y": "]}"}]}}, "zarr_consolidated_format": 1}`))
	f.Add([]byte(`{"metadata": {"": 1}, "zarr_consolidated_format": 1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		nodes, err := zarr.ParseConsolidated(b)
		if err != nil {
			return
		}
		out, err := zarr.WriteConsolidated(nodes)
		if err != nil {
			return // the inside of a document is checked when it is used
		}
		back, err := zarr.ParseConsolidated(out)
		if err != nil || len(back) != len(nodes) {
			t.Fatalf("%q written as %q: %v", b, out, err)
		}
	})
}
