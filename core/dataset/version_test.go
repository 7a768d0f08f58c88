package dataset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// TestBothZarrVersions checks that a store with documents of both versions is read as
// Zarr v3 or, with mode=v2, as Zarr v2, and cannot be changed.
func TestBothZarrVersions(t *testing.T) {
	t.Parallel()
	o := memory()
	v3 := `{"zarr_format": 3, "node_type": "array", "shape": [1], "data_type": "uint8", "fill_value": 8, "codecs": ["bytes"],
		"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}}, "chunk_key_encoding": "default"}`
	store(t, o, "both", map[string]string{
		".zarray":   `{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "fill_value": 7, "order": "C", "compressor": null, "filters": null}`,
		"zarr.json": v3,
	})
	store(t, o, "three", map[string]string{"zarr.json": v3})
	for mode, want := range map[string]uint8{"": 8, "#mode=v2": 7} {
		v := variable(t, open(t, "mem:both"+mode, o), "both")
		if got, err := dataset.Get[uint8](t.Context(), v, v.All()); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%q: values %v, %v", mode, got, err)
		}
	}
	writable := *o
	writable.Update = true
	if _, err := openURL(t.Context(), "mem:both", &writable); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), "Zarr v3") {
		t.Errorf("update: want ErrUnsupported, got %v", err)
	}
	up := update(t, "mem:both#mode=v2", o)
	if err := variable(t, up, "both").SetAttr(dataset.Attr{Name: "a", Type: 2, Value: "x"}); err == nil {
		t.Error("an array with documents of two versions was changed")
	}
	closeDataset(t, up)
	if _, err := openURL(t.Context(), "mem:three#mode=v2", o); !errors.Is(err, ncerr.ErrNotZarr) {
		t.Errorf("v3 alone: want ErrNotZarr, got %v", err)
	}
}
