package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr"
)

// meaning runs meaning.py with a peer and decodes its output.
func meaning(t *testing.T, what, path string, into any) {
	t.Helper()
	answer := bytes.ReplaceAll(must(t, "meaning.py", what, path), []byte("NaN"), []byte("null"))
	if err := json.Unmarshal(answer, into); err != nil {
		t.Fatalf("%v: %.200s", err, answer)
	}
}

// lines creates an NCZarr dataset of one-dimensional variables and returns its path.
func lines(t *testing.T, vars map[string]nczarr.VarSpec, values map[string][]float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.zarr")
	ds, err := nczarr.Create(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range vars {
		spec.Dims, spec.Shape = []string{"d_" + name}, []int64{int64(len(values[name]))}
		v, err := ds.DefineVar(t.Context(), name, spec)
		if err == nil {
			err = nczarr.Write(t.Context(), v, values[name])
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUnpacked checks that packed numbers, missing values and valid ranges have the
// same meaning as in netCDF4-python.
func TestUnpacked(t *testing.T) {
	t.Parallel()
	need(t, packages["netcdf4"]...)
	r := rand.New(rand.NewPCG(5, 6))
	types := []struct {
		typ      nczarr.Type
		low, top float64
		fill     float64
	}{
		{nczarr.Int8, -128, 127, -127},
		{nczarr.Uint8, 0, 255, 255},
		{nczarr.Int16, -32768, 32767, -32767},
		{nczarr.Uint16, 0, 65535, 65535},
		{nczarr.Int32, -100, 100, -2147483647},
		{nczarr.Float32, -1000, 1000, 9.969209968386869e36},
		{nczarr.Float64, -1000, 1000, 9.969209968386869e36},
	}
	vars, values := map[string]nczarr.VarSpec{}, map[string][]float64{}
	for i := range 140 {
		c := types[i%len(types)]
		random := func() float64 {
			x := c.low + r.Float64()*(c.top-c.low)
			if c.typ == nczarr.Float32 {
				return float64(float32(x))
			}
			if c.typ != nczarr.Float64 {
				x = math.Round(x)
			}
			return x
		}
		list := []float64{c.fill, c.low, c.top, random(), random(), random(), random(), random(), random(), random()}
		spec := nczarr.VarSpec{Type: c.typ}
		if r.IntN(2) == 0 {
			spec.Fill = list[3]
		}
		attr := func(name string, value any) { spec.Attrs = append(spec.Attrs, nczarr.Attr{Name: name, Value: value}) }
		packed := func(x ...float64) any { // converts to the type of the variable, as CF requires
			switch c.typ {
			case nczarr.Int8:
				return convert[int8](x)
			case nczarr.Uint8:
				return convert[uint8](x)
			case nczarr.Int16:
				return convert[int16](x)
			case nczarr.Uint16:
				return convert[uint16](x)
			case nczarr.Int32:
				return convert[int32](x)
			case nczarr.Float32:
				return convert[float32](x)
			}
			return x
		}
		if r.IntN(2) == 0 {
			attr("scale_factor", r.Float64()*3-1.5)
		}
		if r.IntN(2) == 0 {
			attr("add_offset", r.Float64()*100)
		}
		switch r.IntN(4) {
		case 0:
			attr("missing_value", packed(list[4]))
		case 1:
			attr("missing_value", packed(list[4], list[5]))
		}
		bounds := []float64{random(), random()}
		slices.Sort(bounds)
		switch r.IntN(5) {
		case 0:
			attr("valid_range", packed(bounds...))
		case 1:
			attr("valid_min", packed(bounds[0]))
		case 2:
			attr("valid_max", packed(bounds[1]))
		}
		if (c.typ == nczarr.Int8 || c.typ == nczarr.Int16) && r.IntN(3) == 0 && !hasBounds(spec) {
			attr("_Unsigned", "true")
		}
		name := fmt.Sprintf("v%03d", i)
		vars[name], values[name] = spec, list
	}
	path := lines(t, vars, values)
	want := map[string][]*float64{}
	meaning(t, "numbers", path, &want)
	ds, err := nczarr.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, v := range ds.Walk() {
		a, err := nczarr.ReadUnpacked[float64](t.Context(), v)
		if err != nil || len(want[name]) != len(a.Data) {
			t.Errorf("%s: wrong number of values, %d, %v", name, len(want[name]), err)
			continue
		}
		for i, x := range a.Data {
			seen++
			stored := values[name[1:]][i]
			if v.Type().Size() == 1 && !v.Attr("_FillValue").Exists() && (stored == -127 || stored == 255) {
				continue // netCDF4-python applies a default fill value to bytes, contrary to the netCDF Users' Guide
			}
			if w := want[name][i]; (w == nil) != math.IsNaN(x) || w != nil && *w != x {
				t.Errorf("%s %s %v: element %d, %v: want %v, got %v", name, v.Type(), describeAttrs(v), i, stored, text(w), x)
			}
		}
	}
	if seen != 1400 {
		t.Errorf("want 1400 compared numbers, got %d", seen)
	}
}

func hasBounds(spec nczarr.VarSpec) bool {
	return slices.ContainsFunc(spec.Attrs, func(a nczarr.Attr) bool { return strings.HasPrefix(a.Name, "valid_") })
}

func convert[T int8 | uint8 | int16 | uint16 | int32 | float32](x []float64) []T {
	out := make([]T, len(x))
	for i, f := range x {
		out[i] = T(f)
	}
	return out
}

func describeAttrs(v *nczarr.Var) (out []string) {
	for _, a := range v.Attrs() {
		out = append(out, a.Name+"="+a.String())
	}
	return out
}

func text(x *float64) string {
	if x == nil {
		return "missing"
	}
	return fmt.Sprint(*x)
}

// TestDates checks that times are decoded as in netCDF4-python and cftime, in all
// calendars.
func TestDates(t *testing.T) {
	t.Parallel()
	need(t, packages["netcdf4"]...)
	r := rand.New(rand.NewPCG(7, 8))
	vars, values := map[string]nczarr.VarSpec{}, map[string][]float64{}
	for i, calendar := range []string{"standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"} {
		for j, units := range []string{"days since 1850-01-01", "hours since 1582-10-01 06:00", "seconds since 1970-01-01T00:00:00Z", "minutes since 2000-02-28 12:30 +02:00"} {
			name := fmt.Sprintf("t%d%d", i, j)
			vars[name] = nczarr.VarSpec{Type: []nczarr.Type{nczarr.Float64, nczarr.Int64}[(i+j)%2], Attrs: []nczarr.Attr{{Name: "units", Value: units}, {Name: "calendar", Value: calendar}}}
			for range 20 {
				values[name] = append(values[name], math.Round(r.Float64()*1e6-2e5))
			}
		}
	}
	path := lines(t, vars, values)
	want := map[string][]string{}
	meaning(t, "dates", path, &want)
	ds, err := nczarr.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range ds.Walk() {
		a, err := nczarr.ReadTimes(t.Context(), v)
		if err != nil || len(want[name]) != 20 {
			t.Errorf("%s: want 20 dates, got %d, %v", name, len(want[name]), err)
			continue
		}
		for i, d := range a.Data {
			got := fmt.Sprintf("%d-%02d-%02dT%02d:%02d:%02d.%06d", d.Year, d.Month, d.Day, d.Hour, d.Minute, d.Second, d.Nanosecond/1000)
			if w := strings.TrimLeft(want[name][i], " 0"); w != got {
				t.Errorf("%s %v: %v: want %s, got %s", name, describeAttrs(v), values[name[1:]][i], w, got)
			}
		}
	}
}

// TestSelection checks that coordinates select the same positions as in xarray.
func TestSelection(t *testing.T) {
	t.Parallel()
	need(t, packages["xarray"]...)
	type query struct {
		Coord   []float64    `json:"coord"`
		Nearest []float64    `json:"nearest"`
		Between [][2]float64 `json:"between"`
	}
	r := rand.New(rand.NewPCG(9, 10))
	var queries []query
	for i := range 40 {
		var q query
		for range 1 + r.IntN(30) {
			q.Coord = append(q.Coord, r.NormFloat64()*50)
		}
		slices.Sort(q.Coord)
		if i%2 == 1 {
			slices.Reverse(q.Coord)
		}
		for range 8 {
			low := r.NormFloat64() * 60
			q.Nearest = append(q.Nearest, low)
			q.Between = append(q.Between, [2]float64{low, low + r.Float64()*60})
		}
		q.Between = append(q.Between, [2]float64{min(q.Coord[0], q.Coord[len(q.Coord)-1]), max(q.Coord[0], q.Coord[len(q.Coord)-1])}) // the range includes both ends
		queries = append(queries, q)
	}
	in := filepath.Join(t.TempDir(), "queries.json")
	asked, err := json.Marshal(queries)
	if err == nil {
		err = os.WriteFile(in, asked, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var want [][][]int64
	meaning(t, "select", in, &want)
	if len(want) != len(queries) {
		t.Fatalf("want one answer per query, got %d", len(want))
	}
	for i, q := range queries {
		ds, err := nczarr.Create(t.Context(), "mem:x", nczarr.WithDriver(nczarr.Memory()))
		if err != nil {
			t.Fatal(err)
		}
		positions := make([]float64, len(q.Coord))
		for k := range positions {
			positions[k] = float64(k)
		}
		for name, list := range map[string][]float64{"x": q.Coord, "ruler": positions} {
			v, err := ds.DefineVar(t.Context(), name, nczarr.VarSpec{Type: nczarr.Float64, Dims: []string{"x"}, Shape: []int64{int64(len(list))}})
			if err == nil {
				err = nczarr.Write(t.Context(), v, list)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		ruler, err := ds.Var("ruler")
		if err != nil {
			t.Fatal(err)
		}
		var selectors []nczarr.Selector
		for _, x := range q.Nearest {
			selectors = append(selectors, nczarr.Nearest(x))
		}
		for _, b := range q.Between {
			selectors = append(selectors, nczarr.Between(b[0], b[1]))
		}
		for k, s := range selectors {
			a, err := nczarr.Read[int64](t.Context(), ruler, s)
			if err != nil || !slices.Equal(a.Data, want[i][k]) {
				t.Errorf("%v of %v: want %v, got %v, %v", s, q.Coord, want[i][k], a.Data, err)
			}
		}
	}
}
