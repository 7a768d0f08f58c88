package zarr_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/zarr"
)

func TestSameJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"a": 1, "b": [1, 2]}`, `{"b":[1,2],"a":1}`, true},
		{`{"a": {"x": null, "y": true}}`, `{"a": {"y": true, "x": null}}`, true},
		{`{"a": 1}`, `{"a": 1, "b": null}`, false},
		{`{"a": 1, "a": 2}`, `{"a": 2}`, true},
		{`[1, 2]`, `[2, 1]`, false},
		{`[1, 2]`, `[1, 2, 3]`, false},
		{`[NaN, -Infinity]`, `["NaN", "-Infinity"]`, true},
		{`[1.50, 1e3]`, `[1.5, 1000.0]`, true},
		{`[1]`, `[1.0]`, false},
		{`[00, +7, -01]`, `[0, 7, -1]`, true},
		{`[9007199254740993]`, `[9007199254740992]`, false},
		{`["\u00e9"]`, `["é"]`, true},
		{`["1"]`, `[1]`, false},
		{`[true]`, `["true"]`, false},
		{`{`, `{`, false},
		{`{}`, ``, false},
	} {
		if zarr.SameJSON([]byte(c.a), []byte(c.b)) != c.want || zarr.SameJSON([]byte(c.b), []byte(c.a)) != c.want {
			t.Errorf("%s and %s: want %v", c.a, c.b, c.want)
		}
	}
}

func TestSameDocument(t *testing.T) {
	t.Parallel()
	plain, nested := []byte(`{"zarr_format": 2}`), []byte(`{"zarr_format": 2, "consolidated_metadata": {"metadata": {}}}`)
	if !zarr.SameDocument(".zgroup", plain, nested) || !zarr.SameDocument(".zgroup", nested, plain) {
		t.Error("SameDocument does not ignore the member consolidated_metadata of a group")
	}
	if zarr.SameDocument(".zattrs", plain, nested) || zarr.SameDocument(".zgroup", plain, []byte(`{"zarr_format": 3}`)) || zarr.SameDocument(".zgroup", plain, []byte(`[]`)) {
		t.Error("SameDocument ignores other differences")
	}
}
