package dataset_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/filters/shuffle"
)

// The metadata always contains the real element size, whatever parameters are
// requested.
func TestShuffleStatesItsElementSize(t *testing.T) {
	t.Parallel()
	for _, params := range []string{``, `{"id": "shuffle"}`, `{"id": "shuffle", "elementsize": 0}`, `{"id": "shuffle", "elementsize": "0"}`} {
		o := memory(shuffle.Provider())
		ds := create(t, "mem:s", o)
		x := dim(t, ds.Root(), "x", 5, false)
		v := define(t, ds.Root(), "v", &dataset.VarSpec{
			Type: dtype.NCShort, Dims: []*dataset.Dim{x},
			Codecs: []zarr.CodecSpec{{ID: "shuffle", Params: json.RawMessage(params)}},
		})
		write(t, v, v.All(), []int16{1, 2, 3, 4, 5})
		if err := ds.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		doc, _, err := ds.Map().ReadAll(t.Context(), "v/.zarray", 1000)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(doc), `"elementsize": 2`) {
			t.Errorf("parameters %s: want an element size of 2 in %s", params, doc)
		}
		body, _, err := ds.Map().ReadAll(t.Context(), "v/0", 1000)
		if err != nil || string(body) != "\x01\x02\x03\x04\x05\x00\x00\x00\x00\x00" {
			t.Errorf("parameters %s: unexpected chunk %q, %v", params, body, err)
		}
		closeDataset(t, ds)
		ds = open(t, "mem:s", o)
		expect(t, ds, "v", []int16{1, 2, 3, 4, 5})
	}
}
