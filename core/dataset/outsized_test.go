package dataset_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// jsonObject is a JSON object under construction.
type jsonObject = map[string]any

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func array(dtype any, shape ...int) jsonObject {
	return jsonObject{"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": dtype, "fill_value": nil, "order": "C", "compressor": nil, "filters": nil}
}

// TestMetadataTakesNoMultiple checks that the memory for metadata does not grow with the
// product of the sizes of two parts of the metadata.
func TestMetadataTakesNoMultiple(t *testing.T) { //nolint:paralleltest // not parallel: it counts allocations
	group := jsonObject{"zarr_format": 2}
	attrs := make(jsonObject)
	for i := range 1000 {
		attrs[fmt.Sprintf("a%d", i)] = 1
	}
	fields := func(dtype string) (list [][]string) {
		for i := range 1000 {
			list = append(list, []string{fmt.Sprintf("f%d", i), dtype})
		}
		return list
	}
	long := strings.Repeat("g", 60_000)
	block := func(dims jsonObject, arrays, groups []string) jsonObject {
		return jsonObject{"dimensions": dims, "arrays": arrays, "groups": groups}
	}
	root := func(dims jsonObject, arrays, groups []string) jsonObject {
		return jsonObject{"_nczarr_superblock": jsonObject{"version": "2.0.0"}, "_nczarr_group": block(dims, arrays, groups)}
	}
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	types, untyped := make(map[string]string), jsonObject{"_nczarr_array": jsonObject{"dimension_references": []string{}}}
	for name := range attrs {
		types[name], untyped[name] = "no type", 1
	}
	untyped["_nczarr_attr"] = jsonObject{"types": types}
	lost := jsonObject{".zgroup": group, ".zattrs": root(jsonObject{long: 1}, names, []string{})}
	for _, name := range names {
		lost[name+"/.zarray"] = array("|u1", 1)
		lost[name+"/.zattrs"] = jsonObject{"_nczarr_array": jsonObject{"dimension_references": []string{"/x"}}}
	}
	nameless := jsonObject{".zgroup": group}
	for i := range 50 {
		var taken []string
		var twos, ones []int
		for k := range 60 {
			name := fmt.Sprintf("_Anonymous_Dim_1_%d", 60*i+k+1)
			if i+k == 0 {
				name = "_Anonymous_Dim_1"
			}
			taken, twos, ones = append(taken, name), append(twos, 2), append(ones, 1)
		}
		if i < 40 {
			a := array("|u1", twos...)
			a["chunks"] = ones
			nameless[fmt.Sprintf("a%02d/.zarray", i)], nameless[fmt.Sprintf("a%02d/.zattrs", i)] = a, jsonObject{"_ARRAY_DIMENSIONS": taken}
		} else {
			nameless[fmt.Sprintf("b%02d/.zarray", i)] = array("|u1", ones...)
		}
	}
	for name, docs := range map[string]jsonObject{
		"attributes of fields":       {".zgroup": group, "v/.zarray": array(fields("|b1"), 1), "v/.zattrs": attrs},
		"attributes of times":        {".zgroup": group, "v/.zarray": array(fields("<M8[ns]"), 1), "v/.zattrs": attrs},
		"segments of a key":          {".zgroup": group, strings.Repeat("g/", 100_000) + ".zgroup": group},
		"names in a long group":      {".zgroup": group, ".zattrs": root(jsonObject{}, []string{}, []string{long}), long + "/.zgroup": group, long + "/.zattrs": jsonObject{"_nczarr_group": block(jsonObject{}, names, []string{})}},
		"names in a longer group":    {".zgroup": group, ".zattrs": root(jsonObject{}, []string{}, []string{long + long}), long + long + "/.zgroup": group, long + long + "/.zattrs": jsonObject{"_nczarr_group": block(jsonObject{}, names, []string{})}},
		"warnings of a long array":   {".zgroup": group, ".zattrs": root(jsonObject{}, []string{long}, []string{}), long + "/.zarray": array("|u1", 1), long + "/.zattrs": untyped},
		"lost below a long name":     lost,
		"dimensions without a name":  nameless,
		"names of a dimension again": {".zgroup": group, "v/.zarray": array("|u1", 1), "v/.zattrs": jsonObject{"_ARRAY_DIMENSIONS": []string{long}}},
	} {
		o := inMemory()
		o.UseConsolidated = dataset.ConsolidatedTrust
		o.Limits.MaxDocuments = 2 << 20
		doc := text(t, jsonObject{"zarr_consolidated_format": 1, "metadata": docs})
		store(t, o, "outsized", map[string]string{".zmetadata": doc})
		n := allocated(func() {
			ds, err := openURL(t.Context(), "mem:outsized", o)
			if err != nil {
				if ncerr.KindOf(err) != ncerr.ErrLimit {
					t.Errorf("%s: want ErrLimit, got %v", name, err)
				}
				return
			}
			closeDataset(t, ds)
		})
		if n > 24<<20 {
			t.Errorf("%s: %d MiB allocated for %d KiB of metadata", name, n>>20, len(doc)>>10)
		}
	}
}
