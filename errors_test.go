package nczarr_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr"
)

// TestErrorTexts checks the messages of errors: the operation, its object and the
// reason.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ds := ocean()
	temp, station, when := must(ds.Var("surface/temp")), must(ds.Var("station")), must(ds.Var("time"))
	scaled := must(ds.DefineVar(ctx, "scaled", nczarr.VarSpec{Type: nczarr.Int16, Attrs: attrsOf("scale_factor", 0.0)}))
	read := func(list ...nczarr.Selector) error { return errorOf(nczarr.Read[int16](ctx, temp, list...)) }
	define := func(spec nczarr.VarSpec) error { return errorOf(ds.DefineVar(ctx, "w", spec)) }
	codec := func(c nczarr.Codec) error {
		return define(nczarr.VarSpec{Type: nczarr.Float32, Codecs: []nczarr.Codec{c}})
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errorOf(nczarr.Open(ctx, "mem:x")), `open "mem:x": find driver "mem": not supported: use the option nczarr.WithDriver(mem), where mem is an nczarr.Memory() shared by all calls`},
		{errorOf(nczarr.Open(ctx, "mem:x", nczarr.WithDriverOptions("disk", struct{}{}))), `open "mem:x": invalid argument: WithDriverOptions("disk"): find driver "disk": not supported: unknown storage driver; the available drivers are file, http, zip`},
		{errorOf(nczarr.Open(ctx, "/nowhere/x", nczarr.WithDriverOptions("file", map[string]int{"a": 1}))), `open "/nowhere/x": invalid argument: driver options: json: unknown field "a"`},
		{errorOf(ds.Var("surfac/temp")), `find variable "surfac/temp": no such variable: the group "surfac" does not exist`},
		{errorOf(ds.Var("surface/tmp")), `find variable "surface/tmp": no such variable: did you mean "surface/temp"?`},
		{errorOf(ds.Subgroup("surfac")), `find group "surfac": no such group: did you mean "surface"?`},
		{errorOf(ds.Dim("latt")), `find dimension "latt": no such dimension: did you mean "lat"?`},
		{errorOf(temp.Coordinate("latt")), `find coordinate "/surface/temp": find dimension "latt": no such dimension: did you mean "lat"?`},
		{errorOf(ds.DefineDim("n", -3)), `define "/n": invalid argument: the length -3 is not in the range 0 to 72057594037927936`},
		{define(nczarr.VarSpec{}), `define "/w": wrong or unknown type: VarSpec.Type is not a valid type`},
		{define(nczarr.VarSpec{Type: nczarr.Int8, Dims: []string{"latt"}}), `define "/w": find dimension "latt": no such dimension: did you mean "lat"?`},
		{define(nczarr.VarSpec{Type: nczarr.Int8, Dims: []string{"lat"}, Chunks: []int64{0}}), `define "/w": invalid chunk shape: the chunk shape [0] has a length below 1`},
		{define(nczarr.VarSpec{Type: nczarr.Int8, Fill: 300}), `define "/w": value not representable: the fill value 300 of type int cannot be stored as byte`},
		{codec(nczarr.Zlib{Level: 10}), `define "/w": invalid argument: codec "zlib": Level is 10, which is not in the range 1 to 9`},
		{define(nczarr.VarSpec{Type: nczarr.Float32, Dims: []string{"lat"}, Codecs: []nczarr.Codec{nczarr.Blosc{Compressor: "gzip"}}}), `define "/w": open codec "blosc": invalid argument: parameter "cname": "gzip" is not one of blosclz, lz4, lz4hc, snappy, zlib, zstd`},
		{ds.SetAttr("a", []bool{true}), `set attribute "a": wrong or unknown type: a value of type []bool cannot be stored; use a string, a number or a slice of them`},
		{read(nczarr.At(3)), `read "/surface/temp": select along "time": outside the bounds: At(3): position 3 is outside the dimension, which has length 3`},
		{read(nczarr.Span(0, 5).By(2)), `read "/surface/temp": select along "time": outside the bounds: Span(0, 5).By(2): position 4 is outside the dimension, which has length 3`},
		{read(nczarr.From(4)), `read "/surface/temp": select along "time": outside the bounds: From(4): the first position is beyond the end of the dimension, which has length 3`},
		{read(nczarr.Span(2, 1)), `read "/surface/temp": select along "time": outside the bounds: Span(2, 1): the second position is less than the first`},
		{read(nczarr.Nearest("soon")), `read "/surface/temp": select along "time": invalid argument: Nearest("soon"): the value is not a date in the calendar of "/time", standard; use a form like 2000-01-31 or 2000-01-31 12:00`},
		{read(nczarr.Nearest(nczarr.Date{})), `read "/surface/temp": select along "time": invalid argument: Nearest(Date{}): the value is not a date in the calendar of "/time", standard; use a form like 2000-01-31 or 2000-01-31 12:00`},
		{read(nczarr.Along("lat", nczarr.Exact(time.Unix(0, 0).UTC()))), `read "/surface/temp": select along "lat": wrong or unknown type: Exact(1970-01-01T00:00:00Z): the values of "/lat" are not times: the units "degrees_north" are not of the form "unit since date"`},
		{errorOf(nczarr.Read[int8](ctx, temp)), `read "/surface/temp": value not representable: element 5: -32768 does not fit in byte`},
		{errorOf(nczarr.ReadTimes(ctx, temp)), `read "/surface/temp": invalid argument: the units "degC" are not of the form "unit since date"`},
		{errorOf(nczarr.ReadUnpacked[float64](ctx, scaled)), `read "/scaled": read attribute "scale_factor": invalid argument: the value 0 is zero or not finite`},
		{nczarr.Write(ctx, temp, []float64{math.NaN()}, nczarr.At(0), nczarr.At(0), nczarr.At(0)), `write "/surface/temp": value not representable: element 0: NaN does not fit in short`},
		{nczarr.Write(ctx, temp, []int{1}, nczarr.All, nczarr.At(3), nczarr.All), `write "/surface/temp": select along "lat": outside the bounds: At(3): position 3 is outside the dimension, which has length 3`},
		{nczarr.Write(ctx, station, []string{"a\x00"}, nczarr.At(0)), `write "/station": value not representable: element 0: "a\x00", which ends in NUL, does not fit in text of fixed length`},
		{nczarr.WriteTimes(ctx, when, []nczarr.Date{{Year: 2000, Month: 2, Day: 30}}, nczarr.At(0)), `write "/time": value not representable: 2000-02-30T00:00:00 cannot be stored as int with units "days since 2000-01-01"`},
	} {
		if c.err == nil || c.err.Error() != c.want {
			t.Errorf("want %s\ngot  %v", c.want, c.err)
		}
	}
	if err := read(nczarr.At(3)); !errors.Is(err, nczarr.ErrRange) {
		t.Errorf("want ErrRange, got %v", err)
	}
}
