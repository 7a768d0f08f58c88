package builtin_test

import (
	"bytes"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestListsAfterFilters compares the output of a filter followed by json2 or msgpack2
// with that of numcodecs 0.17.1, for chunks of several dimensions and for scalars.
// Filters that flatten the chunk leave a list of one dimension.
func TestListsAfterFilters(t *testing.T) {
	t.Parallel()
	const (
		rows    = "\x00\x00\x00\x00\xe8\x03\x00\x00\x07\x00\x00\x00\xb8\x0b\x00\x00\xa0\x0f\x00\x00\xfb\xff\xff\xff" // 0, 1000, 7; 3000, 4000, -5
		columns = "\x00\x00\x00\x00\xb8\x0b\x00\x00\xe8\x03\x00\x00\xa0\x0f\x00\x00\x07\x00\x00\x00\xfb\xff\xff\xff" // the same in Fortran order
		texts   = "a\x00\x00\x00b\x00\x00\x00b\x00\x00\x00c\x00\x00\x00"
	)
	delta, scaled := `{"dtype":"<i4"}`, `{"dtype":"<i4","astype":"<i2","offset":0,"scale":1}`
	for name, c := range map[string]struct {
		filter, params, list string
		dtype                string
		shape                []int
		order                driver.Order
		plain, coded         string
	}{
		"delta":            {"delta", delta, "json2", "<i4", []int{2, 3}, driver.C, rows, `[0,1000,-993,2993,1000,-4005,"<i4",[6]]`},
		"delta, Fortran":   {"delta", delta, "json2", "<i4", []int{2, 3}, driver.F, columns, `[0,3000,-2000,3000,-3993,-12,"<i4",[6]]`},
		"delta, packed":    {"delta", delta, "msgpack2", "<i4", []int{2, 3}, driver.C, rows, "\x98\x00\xcd\x03\xe8\xd1\xfc\x1f\xcd\x0b\xb1\xcd\x03\xe8\xd1\xf0[\xa3<i4\x91\x06"},
		"delta, scalar":    {"delta", delta, "json2", "<i4", nil, driver.C, "\x05\x00\x00\x00", `[5,"<i4",[1]]`},
		"fixedscaleoffset": {"fixedscaleoffset", scaled, "json2", "<i4", []int{2, 3}, driver.C, rows, `[0,1000,7,3000,4000,-5,"<i2",[6]]`},
		"categorize":       {"categorize", `{"labels":["a","b","c"],"dtype":"<U1"}`, "json2", "<U1", []int{2, 2}, driver.C, texts, `[1,2,2,3,"|u1",[4]]`},
		"astype":           {"astype", `{"decode_dtype":"<i4","encode_dtype":"<i8"}`, "json2", "<i4", []int{2, 3}, driver.C, rows, `[[0,1000,7],[3000,4000,-5],"<i8",[2,3]]`},
	} {
		typ, err := dtype.Parse(c.dtype)
		if err != nil {
			t.Fatal(err)
		}
		all := builtin.Provider()
		p, err := codec.Open(t.Context(), []driver.Step{{ID: c.filter, Params: []byte(c.params)}, {ID: c.list}},
			driver.Spec{DType: typ, Shape: c.shape, Order: c.order, MaxBytes: int64(len(c.plain))},
			func(string) (driver.Provider, error) { return all, nil })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		dec, enc := make([]byte, p.DecodedSize()), make([]byte, p.MaxEncoded())
		if n, err := p.Decode(t.Context(), dec, []byte(c.coded)); err != nil || !bytes.Equal(dec[:n], []byte(c.plain)) {
			t.Errorf("%s: want %x, got %x, %v", name, c.plain, dec[:n], err)
		}
		if n, err := p.Encode(t.Context(), enc, []byte(c.plain)); err != nil || string(enc[:n]) != c.coded {
			t.Errorf("%s: want %q, got %q, %v", name, c.coded, enc[:n], err)
		}
	}
}
