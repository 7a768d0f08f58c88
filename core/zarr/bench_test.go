package zarr_test

import (
	"fmt"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

// thousandVariables returns the documents of 1,000 variables as zarr-python writes them.
func thousandVariables() map[string]zarr.Docs {
	nodes := map[string]zarr.Docs{"": {".zgroup": []byte(`{"zarr_format": 2}`), ".zattrs": []byte(`{"title": "T"}`)}}
	za := "{\n    \"chunks\": [\n        30,\n        30\n    ],\n    \"compressor\": {\n        \"blocksize\": 0,\n        \"clevel\": 5,\n        \"cname\": \"lz4\",\n        \"id\": \"blosc\",\n        \"shuffle\": 1\n    },\n    \"dtype\": \"<f4\",\n    \"fill_value\": \"NaN\",\n    \"filters\": null,\n    \"order\": \"C\",\n    \"shape\": [\n        361,\n        576\n    ],\n    \"zarr_format\": 2\n}"
	at := "{\n    \"_ARRAY_DIMENSIONS\": [\n        \"lat\",\n        \"lon\"\n    ],\n    \"fmissing_value\": 999999986991104.0,\n    \"long_name\": \"fraction_of_ocean\",\n    \"standard_name\": \"fraction_of_ocean\",\n    \"units\": \"1\",\n    \"valid_range\": [\n        -999999986991104.0,\n        999999986991104.0\n    ],\n    \"vmax\": 999999986991104.0,\n    \"vmin\": -999999986991104.0,\n    \"history\": \"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789\"\n}"
	for i := range 1000 {
		nodes[fmt.Sprintf("v%03d", i)] = zarr.Docs{".zarray": []byte(za), ".zattrs": []byte(at)}
	}
	return nodes
}

func parseAll(b *testing.B, nodes map[string]zarr.Docs) {
	b.Helper()
	var parser zarr.Parser
	for p, docs := range nodes {
		if _, ok := docs[".zarray"]; !ok {
			continue
		}
		if _, err := parser.Array(p, docs, zarr.ParseHint{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseArrays1000(b *testing.B) {
	nodes := thousandVariables()
	b.ReportAllocs()
	for b.Loop() {
		parseAll(b, nodes)
	}
}

func BenchmarkParseConsolidated(b *testing.B) {
	doc, err := zarr.WriteConsolidated(thousandVariables())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("documents", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := zarr.ParseConsolidated(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("models", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		b.ReportAllocs()
		for b.Loop() {
			nodes, err := zarr.ParseConsolidated(doc)
			if err != nil {
				b.Fatal(err)
			}
			parseAll(b, nodes)
		}
	})
}
