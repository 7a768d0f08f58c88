package nczarr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// TestVersion2Beside3: mode=v2 reads the Zarr v2 half of a store that has
// documents of both versions, which is not changed.
func TestVersion2Beside3(t *testing.T) {
	t.Parallel()
	o := memory()
	v3 := `{"zarr_format": 3, "node_type": "array"}`
	store(t, o, "both", map[string]string{
		".zarray":   `{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|u1", "fill_value": 7, "order": "C", "compressor": null, "filters": null}`,
		"zarr.json": v3,
	})
	store(t, o, "three", map[string]string{"zarr.json": v3})
	if _, err := nczarr.Open(t.Context(), "mem:both", o); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), "#mode=v2") {
		t.Errorf("without a mode: got %v", err)
	}
	ds := open(t, "mem:both#mode=v2", o)
	v := variable(t, ds, "both")
	if got, err := nczarr.Get[uint8](t.Context(), v, v.All()); err != nil || len(got) != 1 || got[0] != 7 {
		t.Errorf("got %v, %v", got, err)
	}
	up := update(t, "mem:both#mode=v2", o)
	if err := variable(t, up, "both").SetAttr(nczarr.Attr{Name: "a", Type: 2, Value: "x"}); err == nil {
		t.Error("the array was changed, and its Zarr v3 document was not")
	}
	closeDataset(t, up)
	if _, err := nczarr.Open(t.Context(), "mem:three#mode=v2", o); !errors.Is(err, ncerr.ErrNotZarr) {
		t.Errorf("v3 alone: got %v", err)
	}
}
