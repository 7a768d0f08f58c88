package zarr_test

import (
	"runtime/metrics"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// seeds adds every golden document of the given name to the seed corpus.
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

// fuzz parses arbitrary bytes as one document of a node whose other documents are valid.
// It checks that the result can be written and parsed again.
func fuzz(f *testing.F, doc string) {
	seeds(f, doc)
	f.Fuzz(func(t *testing.T, b []byte, layout uint8) {
		l := zarr.Layout(layout % 5)
		docs := zarr.Docs{doc: b}
		if doc != ".zarray" {
			docs[".zarray"] = zarray("")
		}
		checkAllocations(t, len(b), func() { parseAny(t, docs, l) })
	})
}

// checkAllocations checks that f, which parses a document of n bytes, allocates at most 64 MiB.
func checkAllocations(t *testing.T, n int, f func()) {
	t.Helper()
	const ceiling = 64 << 20
	before := allocated()
	f()
	if took := allocated() - before; took > ceiling {
		t.Errorf("parsing a document of %d bytes allocated %d bytes", n, took)
	}
}

// allocated returns the number of bytes allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
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
		var nodes map[string]zarr.Docs
		var err error
		checkAllocations(t, len(b), func() { nodes, err = zarr.ParseConsolidated(b) })
		if err != nil {
			return
		}
		out, err := zarr.WriteConsolidated(nodes)
		if err != nil {
			return // the content of a document is checked only when it is used
		}
		back, err := zarr.ParseConsolidated(out)
		if err != nil || len(back) != len(nodes) {
			t.Fatalf("%q written as %q: %v", b, out, err)
		}
	})
}

// FuzzSameJSON checks that any document equals its strict form, and that the comparison
// is symmetric.
func FuzzSameJSON(f *testing.F) {
	f.Add([]byte(`{"a": [1, NaN, "x"], "b": {"c": null}}`), []byte(`{"b": {"c": null}, "a": [1, "NaN", "x"]}`))
	f.Add([]byte(`[1.0, 1e2, -0]`), []byte(`[1, 100, 0]`))
	f.Add([]byte(`[00, +1, -01, .5, 1.]`), []byte(`[0, 1, -1, 0.5, 1.0]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		checkAllocations(t, len(a)+len(b), func() {
			if zarr.SameJSON(a, b) != zarr.SameJSON(b, a) {
				t.Errorf("SameJSON(%q, %q) is not symmetric", a, b)
			}
		})
		doc, err := zarr.WriteConsolidated(map[string]zarr.Docs{"": {".zattrs": a}})
		if err != nil {
			return
		}
		back, err := zarr.ParseConsolidated(doc)
		if err != nil || !zarr.SameJSON(a, back[""][".zattrs"]) {
			t.Errorf("%q became %q, %v", a, doc, err)
		}
	})
}
