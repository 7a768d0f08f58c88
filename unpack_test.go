package nczarr_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr"
)

// TestUnpack compares the results of ReadUnpacked with values computed by hand.
func TestUnpack(t *testing.T) {
	t.Parallel()
	short := func(fill any, attrs ...any) *nczarr.Var {
		return newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Fill: fill, Attrs: attrsOf(attrs...)}, -32767, -2, 0, 1, 100)
	}
	float := func(fill any, attrs ...any) *nczarr.Var {
		return newVar(t, nczarr.VarSpec{Type: nczarr.Float32, Fill: fill, Attrs: attrsOf(attrs...)}, float32(math.NaN()), 9.96921e36, 1e20, 0.1, -1)
	}
	octet := func(fill any, attrs ...any) *nczarr.Var {
		return newVar[int8](t, nczarr.VarSpec{Type: nczarr.Int8, Fill: fill, Attrs: attrsOf(attrs...)}, -128, -127, -1, 0, 127)
	}
	for _, c := range []struct {
		name string
		v    *nczarr.Var
		want string
	}{
		{"only netCDF's default fill value", short(nil), "[NaN -2 0 1 100]"},
		{"_FillValue instead of the default fill value", short(1), "[-32767 -2 0 NaN 100]"},
		{"scale and offset", short(0, "scale_factor", 0.25, "add_offset", -1.0), "[-8192.75 -1.5 NaN -0.75 24]"},
		{"scale_factor of type float, without add_offset", short(nil, "scale_factor", float32(2)), "[NaN -4 0 2 200]"},
		{"a list of missing values", short(nil, "missing_value", []int16{0, 1}), "[NaN -2 NaN NaN 100]"},
		{"missing values of another type", short(nil, "missing_value", []float64{-2, 0.5, 1e9}), "[NaN NaN 0 1 100]"},
		{"valid range", short(nil, "valid_range", []int16{-2, 1}), "[NaN -2 0 1 NaN]"},
		{"valid range, before scaling", short(nil, "valid_range", []int16{-2, 1}, "scale_factor", 100.0), "[NaN -200 0 100 NaN]"},
		{"valid range of floats, after scaling", short(nil, "valid_range", []float64{0, 100}, "scale_factor", 100.0), "[NaN NaN 0 100 NaN]"},
		{"minimum", short(nil, "valid_min", int16(1)), "[NaN NaN NaN 1 100]"},
		{"maximum", short(nil, "valid_max", 0), "[NaN -2 0 NaN NaN]"},
		{"floats", float(nil), "[NaN NaN 1.0000000200408773e+20 0.10000000149011612 -1]"},
		{"floats, missing value rounded to float", float(nil, "missing_value", 1e20), "[NaN NaN NaN 0.10000000149011612 -1]"},
		{"floats, a bound", float(nil, "valid_min", 0.1), "[NaN NaN 1.0000000200408773e+20 0.10000000149011612 NaN]"},
		{"bytes have no default fill value", octet(nil), "[-128 -127 -1 0 127]"},
		{"bytes with _FillValue", octet(-1), "[-128 -127 NaN 0 127]"},
		{"unsigned", octet(nil, "_Unsigned", "true"), "[128 129 255 0 127]"},
		{"unsigned, scaled", octet(-1, "_Unsigned", "true", "scale_factor", 2.0), "[256 258 NaN 0 254]"},
		{"unsigned, range of signed", octet(nil, "_Unsigned", "true", "valid_range", []int8{0, -127}), "[128 129 NaN 0 127]"},
		{"unsigned, range of unsigned", octet(nil, "_Unsigned", "true", "valid_max", uint8(129)), "[128 129 NaN 0 127]"},
		{"not unsigned", octet(nil, "_Unsigned", "false"), "[-128 -127 -1 0 127]"},
		{"a text as scale", short(nil, "scale_factor", "1"), "wrong or unknown type"},
		{"two scales", short(nil, "scale_factor", []float64{1, 2}), "invalid argument"},
		{"zero as scale", short(nil, "scale_factor", 0.0), "invalid argument"},
		{"a text as missing value", short(nil, "missing_value", "NaN"), "wrong or unknown type"},
		{"a valid_range with one value", short(nil, "valid_range", []int16{1}), "invalid argument"},
		{"a bound above the type", short(nil, "valid_max", 40000), "[NaN -2 0 1 100]"},
		{"a minimum above the type", short(nil, "valid_min", 40000), "[NaN NaN NaN NaN NaN]"},
		{"a fraction as bound", short(nil, "valid_range", []float64{math.Copysign(0, -1), 99.5}), "[NaN NaN 0 1 NaN]"},
		{"bounds beyond the type", short(nil, "valid_range", []float64{math.Inf(-1), 1e20}), "[NaN -2 0 1 100]"},
		{"bytes, range of unsigned", octet(nil, "valid_range", []int16{0, 255}), "[NaN NaN NaN 0 127]"},
		{"floats, a bound of doubles", float(nil, "valid_max", 1e300), "[NaN NaN 1.0000000200408773e+20 0.10000000149011612 -1]"},
		{"NaN as offset", short(nil, "add_offset", math.NaN()), "invalid argument"},
	} {
		a, err := nczarr.ReadUnpacked[float64](t.Context(), c.v)
		got := fmt.Sprint(a.Data)
		if err != nil {
			for _, k := range []error{nczarr.ErrBadType, nczarr.ErrInvalid, nczarr.ErrConvert} {
				if got = err.Error(); errors.Is(err, k) {
					got = k.Error()
					break
				}
			}
		}
		if got != c.want {
			t.Errorf("%s: want %s, got %s (%v)", c.name, c.want, got, err)
		}
	}
}

// TestUnpackXarray reads and writes missing values in Zarr version 2 as written by
// xarray, which stores _FillValue only as fill_value.
func TestUnpackXarray(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dtype, fill, want string }{
		{"<i2", "-32768", "[NaN 1]"},
		{"<i2", "0", "[-16384 1]"},
		{"<i2", "null", "[-16384 1]"},
		{"|u1", "128", "[0 NaN 1 0]"},
	} {
		dir := filepath.Join(t.TempDir(), "x.zarr")
		check(os.MkdirAll(filepath.Join(dir, "t"), 0o700))
		for name, text := range map[string]string{
			".zgroup":   `{"zarr_format":2}`,
			"t/.zattrs": `{"_ARRAY_DIMENSIONS":["x"],"scale_factor":0.5}`,
			"t/.zarray": fmt.Sprintf(`{"zarr_format":2,"shape":[%[1]d],"chunks":[%[1]d],"dtype":%[2]q,"compressor":null,"fill_value":%[3]s,"filters":null,"order":"C"}`, strings.Count(c.want, " ")+1, c.dtype, c.fill),
			"t/0":       "\x00\x80\x02\x00",
		} {
			check(os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o600))
		}
		v := must(must(nczarr.Open(t.Context(), dir, nczarr.Writable())).Var("t"))
		a, err := nczarr.ReadUnpacked[float64](t.Context(), v)
		if got := fmt.Sprint(a.Data); err != nil || got != c.want {
			t.Errorf("%+v: data %s, error %v", c, got, err)
		}
		if !strings.Contains(c.want, "NaN") {
			continue
		}
		check(nczarr.WriteUnpacked(t.Context(), v, []float64{math.NaN()}, nczarr.Span(1, 2)))
		if x := must(nczarr.Read[int64](t.Context(), v, nczarr.At(1))).At(); fmt.Sprint(x) != c.fill {
			t.Errorf("%+v: NaN was stored as %d", c, x)
		}
	}
}

func TestUnpackText(t *testing.T) {
	t.Parallel()
	names := newVar(t, nczarr.VarSpec{Type: nczarr.String}, "a")
	if _, err := nczarr.ReadUnpacked[float64](t.Context(), names); !errors.Is(err, nczarr.ErrBadType) {
		t.Errorf("want ErrBadType, got %v", err)
	}
}

// TestPackAndUnpack checks that unpacking and then packing restores every short.
func TestPackAndUnpack(t *testing.T) {
	t.Parallel()
	values := make([]int16, 1<<16)
	for i := range values {
		values[i] = int16(i - 1<<15)
	}
	for _, attrs := range [][]any{
		{"scale_factor", 0.001, "add_offset", 15.0}, {"scale_factor", float32(0.1)}, {"add_offset", -273.15}, {}, {"_Unsigned", "true", "scale_factor", 1.0 / 3},
	} {
		v := newVar(t, nczarr.VarSpec{Type: nczarr.Int16, Fill: 7, Attrs: attrsOf(attrs...)}, values...)
		a, err := nczarr.ReadUnpacked[float64](t.Context(), v)
		if err == nil {
			err = nczarr.Write(t.Context(), v, make([]int16, len(values)))
		}
		if err == nil {
			err = nczarr.WriteUnpacked(t.Context(), v, a.Data)
		}
		if err != nil {
			t.Fatalf("%v: unexpected error %v", attrs, err)
		}
		back := must(nczarr.Read[int16](t.Context(), v))
		for i, x := range back.Data {
			if x != values[i] {
				t.Fatalf("%v: %d became %d", attrs, values[i], x)
			}
		}
	}
}

func TestPackRefuses(t *testing.T) {
	t.Parallel()
	plain := newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Attrs: attrsOf("scale_factor", 0.5)}, 0, 0)
	byteVar := newVar[int8](t, nczarr.VarSpec{Type: nczarr.Int8}, 0)
	unsigned := newVar[int8](t, nczarr.VarSpec{Type: nczarr.Int8, Attrs: attrsOf("_Unsigned", "true")}, 0)
	filled := newVar[float32](t, nczarr.VarSpec{Type: nczarr.Float32, Fill: -999.9}, 0)
	bounded := newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Attrs: attrsOf("valid_max", 10)}, 0)
	for _, c := range []struct {
		v *nczarr.Var
		x float64
	}{{unsigned, 300}, {unsigned, 256}, {unsigned, -1}, {filled, -999.9}, {filled, 1e300}, {bounded, 11}, {plain, 20000}, {plain, -16383.5}, {byteVar, math.NaN()}, {plain, math.Inf(1)}} {
		if err := nczarr.WriteUnpacked(t.Context(), c.v, []float64{c.x}, nczarr.Span(0, 1)); !errors.Is(err, nczarr.ErrConvert) {
			t.Errorf("%v: want ErrConvert, got %v", c.x, err)
		}
	}
	check(nczarr.WriteUnpacked(t.Context(), plain, []float64{0.25, 0.75})) // rounds half to even
	if got := fmt.Sprint(must(nczarr.Read[int16](t.Context(), plain)).Data); got != "[0 2]" {
		t.Errorf("want [0 2], got %s", got)
	}
	fraction := newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Attrs: attrsOf("missing_value", -9999.5)}, 0)
	check(nczarr.WriteUnpacked(t.Context(), fraction, []float64{math.NaN()}))
	if got := must(nczarr.ReadUnpacked[float64](t.Context(), fraction)).Data; !math.IsNaN(got[0]) {
		t.Errorf("NaN was read as %v", got)
	}
	large := newVar(t, nczarr.VarSpec{Type: nczarr.Float64}, 1e300)
	if a, err := nczarr.ReadUnpacked[float32](t.Context(), large); !errors.Is(err, nczarr.ErrConvert) {
		t.Errorf("want ErrConvert, got %v, %v", a.Data, err)
	}
}

// TestTimes compares the results of ReadTimes with dates from other programs (udunits,
// cftime) or derived from the calendar.
func TestTimes(t *testing.T) {
	t.Parallel()
	ints := func(typ nczarr.Type, attrs []nczarr.Attr, values ...int64) *nczarr.Var {
		return newVar(t, nczarr.VarSpec{Type: typ, Attrs: attrs}, values...)
	}
	floats := func(attrs []nczarr.Attr, values ...float64) *nczarr.Var {
		return newVar(t, nczarr.VarSpec{Type: nczarr.Float64, Attrs: attrs}, values...)
	}
	for _, c := range []struct {
		v    *nczarr.Var
		want string
	}{
		{floats(attrsOf("units", "days since 1500-1-1"), 185900), "[2009-01-01T00:00:00]"}, // from ncdump's tests
		{floats(attrsOf("units", "days since 1500-1-1", "calendar", "noleap"), 185785), "[2009-01-01T00:00:00]"},
		{floats(attrsOf("units", "days since 1500-1-1", "calendar", "julian"), 185913), "[2009-01-01T00:00:00]"},
		{floats(attrsOf("units", "hours since 1900-01-01 00:00 +01:00"), 0.5, math.NaN()), "[1899-12-31T23:30:00 ]"},
		{floats(attrsOf("units", "days since 2000-01-01", "scale_factor", 0.5), 3), "[2000-01-02T12:00:00]"},
		{ints(nczarr.Int64, attrsOf("units", "nanoseconds since 1970-01-01"), 1_000_000_000_000_000_001), "[2001-09-09T01:46:40.000000001]"},
		{ints(nczarr.Int64, attrsOf("units", "nanoseconds since 1970-01-01", "scale_factor", 10.0), 100_000_000_000_000_001), "[2001-09-09T01:46:40.00000001]"},
		{ints(nczarr.Int64, attrsOf("units", "milliseconds since 1970-01-01", "scale_factor", 10.0), -1, math.MinInt64+2), "[1969-12-31T23:59:59.99 ]"},
		{ints(nczarr.Int64, attrsOf("units", "nanoseconds since 1970-01-01"), math.MaxInt64), "[2262-04-11T23:47:16.854775807]"},
		{ints(nczarr.Int32, attrsOf("units", "months since 2000-01-31"), 2), "[2000-03-31T00:00:00]"},
		{ints(nczarr.Int32, attrsOf("units", "months since 2000-01-31"), 1), "value not representable"},
		{ints(nczarr.Int32, attrsOf("units", "degC"), 1), "invalid argument"},
		{ints(nczarr.Int32, attrsOf("units", "days since 2000-01-01", "calendar", "mayan"), 1), "invalid argument"},
		{ints(nczarr.Int32, nil, 1), "invalid argument"},
	} {
		a, err := nczarr.ReadTimes(t.Context(), c.v)
		got := fmt.Sprint(a.Data)
		for _, k := range []error{nczarr.ErrConvert, nczarr.ErrInvalid} {
			if errors.Is(err, k) {
				got = k.Error()
			}
		}
		if got != c.want {
			t.Errorf("%v: want %s, got %s (%v)", c.v.Attrs(), c.want, got, err)
		}
	}
}

// TestWriteTimes writes dates and reads them back.
func TestWriteTimes(t *testing.T) {
	t.Parallel()
	moment := time.Date(2024, 2, 29, 13, 30, 0, 0, time.FixedZone("", 3600))
	for _, c := range []struct {
		typ             nczarr.Type
		units, calendar string
		want            string
	}{
		{nczarr.Float64, "days since 2000-01-01", "standard", "2024-02-29T12:30:00"},
		{nczarr.Int32, "minutes since 2024-01-01", "", "2024-02-29T12:30:00"},
		{nczarr.Int32, "hours since 2024-01-01", "", "value not representable"},
		{nczarr.Float64, "days since 2000-01-01", "noleap", "value not representable"},
		{nczarr.Float64, "days since 2000-01-01", "360_day", "2024-02-29T12:30:00"},
		{nczarr.Int8, "minutes since 2000-01-01", "", "value not representable"},
		{nczarr.Float64, "degC", "", "invalid argument"},
	} {
		v := newVar[int8](t, nczarr.VarSpec{Type: c.typ, Attrs: attrsOf("units", c.units, "calendar", c.calendar)}, 0)
		err := nczarr.WriteTimes(t.Context(), v, []time.Time{moment})
		got := ""
		if err == nil {
			got = must(nczarr.ReadTimes(t.Context(), v)).Data[0].String()
		}
		for _, k := range []error{nczarr.ErrConvert, nczarr.ErrInvalid} {
			if errors.Is(err, k) {
				got = k.Error()
			}
		}
		if got != c.want {
			t.Errorf("%+v: got %s (%v)", c, got, err)
		}
	}
	packed := newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Attrs: attrsOf("units", "days since 2000-01-01", "scale_factor", 2.0)}, 0)
	if err := nczarr.WriteTimes(t.Context(), packed, []nczarr.Date{{Year: 2000, Month: 1, Day: 3}}); !errors.Is(err, nczarr.ErrUnsupported) {
		t.Errorf("want ErrUnsupported, got %v", err)
	}
	days := newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Fill: 2, Attrs: attrsOf("units", "days since 2000-01-01")}, 0, 0)
	check(nczarr.WriteTimes(t.Context(), days, []nczarr.Date{{}, {Year: 2000, Month: 1, Day: 2}}))
	if got := fmt.Sprint(must(nczarr.Read[int16](t.Context(), days)).Data); got != "[2 1]" {
		t.Errorf("want [2 1], got %s", got)
	}
	if err := nczarr.WriteTimes(t.Context(), days, []nczarr.Date{{}, {Year: 2000, Month: 1, Day: 3}}); !errors.Is(err, nczarr.ErrConvert) {
		t.Errorf("a date stored as the missing value: want ErrConvert, got %v", err)
	}
}

func BenchmarkReadUnpacked(b *testing.B) {
	ds := must(nczarr.Create(b.Context(), "mem:x", nczarr.WithDriver(nczarr.Memory())))
	const n = 1 << 20
	v := must(ds.DefineVar(b.Context(), "v", nczarr.VarSpec{
		Type: nczarr.Int16, Dims: []string{"x"}, Shape: []int64{n}, Fill: -1,
		Attrs: attrsOf("scale_factor", 0.01, "add_offset", 273.15, "missing_value", int16(-2)),
	}))
	check(nczarr.Write(b.Context(), v, make([]int16, n)))
	for b.Loop() {
		must(nczarr.ReadUnpacked[float32](b.Context(), v))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
}
