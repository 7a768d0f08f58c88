package nczarr_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr"
	"github.com/seed-695719ce/nczarr/core/cdl/cftime"
)

// newVar defines a variable in a new dataset and writes values. The variable is the
// coordinate variable of its only dimension, "x".
func newVar[T nczarr.Element](t *testing.T, spec nczarr.VarSpec, values ...T) *nczarr.Var {
	t.Helper()
	ds, err := nczarr.Create(t.Context(), "mem:x", nczarr.WithDriver(nczarr.Memory()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ds.DefineDim("x", int64(len(values))); err != nil {
		t.Fatal(err)
	}
	spec.Dims = []string{"x"}
	v, err := ds.DefineVar(t.Context(), "x", spec)
	if err == nil {
		err = nczarr.Write(t.Context(), v, values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// attrsOf returns attributes from alternating names and values.
func attrsOf(list ...any) (out []nczarr.Attr) {
	for i := 0; i < len(list); i += 2 {
		out = append(out, nczarr.Attr{Name: list[i].(string), Value: list[i+1]})
	}
	return out
}

func TestCoordinates(t *testing.T) {
	t.Parallel()
	up := newVar(t, nczarr.VarSpec{Type: nczarr.Float32}, 0.1, 0.2, 0.3, 0.4)
	down := newVar(t, nczarr.VarSpec{Type: nczarr.Float64}, 90.0, 45, 0, -45)
	steps := newVar(t, nczarr.VarSpec{Type: nczarr.Int32}, 1, 1, 2, 3.0)
	big := newVar[int64](t, nczarr.VarSpec{Type: nczarr.Int64}, math.MinInt64+5, -1, 1<<62, 1<<62+1, math.MaxInt64-1)
	packed := newVar[int16](t, nczarr.VarSpec{Type: nczarr.Int16, Attrs: attrsOf("scale_factor", 0.5, "add_offset", 100.0)}, 0, 1, 2)
	zigzag := newVar(t, nczarr.VarSpec{Type: nczarr.Float64}, 3.0, 1, 2)
	holes := newVar(t, nczarr.VarSpec{Type: nczarr.Float64, Fill: -1.0}, 3.0, -1, 4)
	partial := newVar(t, nczarr.VarSpec{Type: nczarr.Float64, Fill: -1.0}, 1.0, 2, -1, -1)
	huge := newVar(t, nczarr.VarSpec{Type: nczarr.Float64}, -1e30, 0.0, 1e25, 1e30)
	months := newVar(t, nczarr.VarSpec{Type: nczarr.Float64, Attrs: attrsOf("units", "days since 2000-01-01", "calendar", "360_day")}, 59.0, 0.5, -30)
	nanos := newVar[int64](t, nczarr.VarSpec{Type: nczarr.Int64, Attrs: attrsOf("units", "nanoseconds since 1970-01-01")}, 1e18, 1e18+1, 1e18+2)
	names := newVar(t, nczarr.VarSpec{Type: nczarr.String}, "b", "a")
	forever := newVar(t, nczarr.VarSpec{Type: nczarr.Float64, Attrs: attrsOf("units", "days since 2000-01-01")}, 0.0, 1, math.Inf(1))
	second := time.Unix(1_000_000_000, 1)
	for _, c := range []struct {
		v    *nczarr.Var
		s    nczarr.Selector
		want string // positions, or the kind of the error
	}{
		{up, nczarr.Exact(0.2), "[1]"},
		{up, nczarr.Exact(float32(0.2)), "[1]"},
		{up, nczarr.Exact(0.25), "outside the bounds"},
		{up, nczarr.Between(0.1, 0.3), "[0 1 2]"}, // 0.3 is compared as a float32, which is greater than the float64
		{up, nczarr.Between(0.11, 0.12), "[]"},
		{up, nczarr.Between(0.3, 0.1), "invalid argument"},
		{up, nczarr.Between(math.Inf(-1), math.Inf(1)), "[0 1 2 3]"},
		{up, nczarr.Nearest(-10), "[0]"},
		{up, nczarr.Nearest(10), "[3]"},
		{up, nczarr.Nearest(math.NaN()), "invalid argument"},
		{down, nczarr.Nearest(22.5), "[1]"}, // equally distant from 45 and 0
		{down, nczarr.Nearest(22.4), "[2]"},
		{down, nczarr.Exact(-45), "[3]"},
		{down, nczarr.Between(-45, 45), "[1 2 3]"},
		{down, nczarr.Between(45, 45), "[1]"},
		{down, nczarr.Between(100, 200), "[]"},
		{steps, nczarr.Exact(1), "[0]"},
		{steps, nczarr.Between(1, 2), "[0 1 2]"},
		{steps, nczarr.Between(1.5, 2.5), "[2]"},
		{steps, nczarr.Nearest(2.6), "[3]"},
		{big, nczarr.Exact(int64(1<<62 + 1)), "[3]"},
		{big, nczarr.Nearest(int64(1<<62 + 2)), "[3]"},
		{big, nczarr.Between(int64(1<<62), int64(1<<62)), "[2]"},
		{big, nczarr.Nearest(int64(math.MinInt64)), "[0]"},
		{big, nczarr.Nearest(int64(math.MaxInt64)), "[4]"},
		{packed, nczarr.Exact(100.5), "[1]"},
		{packed, nczarr.Between(100.5, 200), "[1 2]"},
		{zigzag, nczarr.Exact(1), "[1]"},
		{zigzag, nczarr.Nearest(2.4), "[2]"},
		{zigzag, nczarr.Between(1, 2), "invalid argument"},
		{holes, nczarr.Nearest(-1), "[0]"},
		{holes, nczarr.Exact(-1), "outside the bounds"},
		{holes, nczarr.Between(3, 4), "invalid argument"},
		{huge, nczarr.Nearest(2e29), "[2]"},
		{huge, nczarr.Exact(-1e30), "[0]"},
		{huge, nczarr.Between(0, 1e25), "[1 2]"},
		{steps, nczarr.Nearest(1e17), "[3]"},
		{steps, nczarr.Nearest(1e300), "[3]"},
		{steps, nczarr.Nearest(math.Inf(1)), "[3]"},
		{steps, nczarr.Nearest(math.Inf(-1)), "[0]"},
		{steps, nczarr.Nearest(int64(math.MaxInt64)), "[3]"},
		{down, nczarr.Nearest(1e300), "[0]"},
		{down, nczarr.Nearest(-1e300), "[3]"},
		{huge, nczarr.Nearest(0.9e30), "[3]"},
		{huge, nczarr.Nearest(-2e24), "[1]"},
		{partial, nczarr.Between(2, 5), "[1]"},
		{partial, nczarr.Nearest(5), "[1]"},
		{months, nczarr.Exact("2000-02-30"), "[0]"},
		{months, nczarr.Nearest("1999-12-02"), "[2]"},
		{months, nczarr.Nearest("2000-01-01 18:00"), "[1]"},
		{months, nczarr.Between("1999", "2000-02-01"), "[1 2]"},
		{months, nczarr.Nearest(nczarr.Date{Year: 2000, Month: 2, Day: 30}), "[0]"},
		{months, nczarr.Nearest("2000-01-31"), "invalid argument"},
		{months, nczarr.Nearest(time.Date(2000, 1, 31, 0, 0, 0, 0, time.UTC)), "invalid argument"},
		{months, nczarr.Nearest("soon"), "invalid argument"},
		{months, nczarr.Exact(59), "[0]"}, // a number is compared with the stored numbers, not with times
		{forever, nczarr.Nearest("2001"), "[1]"},
		{forever, nczarr.Between("2000", "2001"), "[0 1]"},
		{nanos, nczarr.Exact(second), "[1]"},
		{nanos, nczarr.Between(second, second.Add(time.Hour)), "[1 2]"},
		{names, nczarr.Exact("a"), "[1]"},
		{names, nczarr.Exact("c"), "outside the bounds"},
		{names, nczarr.Exact(1), "wrong or unknown type"},
		{names, nczarr.Nearest("a"), "wrong or unknown type"},
		{up, nczarr.Exact("2000"), "wrong or unknown type"},
		{up, nil, "invalid argument"},
		{up, nczarr.Along("x", nczarr.Along("x", nczarr.All)), "invalid argument"},
		{up, nczarr.Along("y", nczarr.All), "no such dimension"},
		{up, nczarr.At(-1), "outside the bounds"},
		{up, nczarr.At(4), "outside the bounds"},
		{up, nczarr.Span(2, 1), "outside the bounds"},
		{up, nczarr.Span(0, 5), "outside the bounds"},
		{up, nczarr.Span(-1, 2), "outside the bounds"},
		{up, nczarr.Span(4, 4), "[]"},
		{up, nczarr.Span(0, 4).By(0), "invalid argument"},
		{up, nczarr.Span(0, 4).By(3), "[0 3]"},
		{up, nczarr.Span(0, 3).By(3), "[0]"},
		{up, nczarr.From(3), "[3]"},
		{up, nczarr.From(4), "[]"},
		{up, nczarr.From(5), "outside the bounds"},
	} {
		got := positionsOf(t.Context(), c.v, c.s)
		if got != c.want {
			t.Errorf("%v of %v: want %s, got %s", c.s, c.v.Type(), c.want, got)
		}
	}
}

// TestBetweenPeriods checks that a string as the upper bound includes the whole period
// that it specifies, in several calendars.
func TestBetweenPeriods(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		calendar, low, high string
		want                string // the first and the last selected time
	}{
		{"standard", "2000-02", "2000-02", "2000-02-01T00:00:00 2000-02-29T23:59:59"},
		{"noleap", "2000-02", "2000-02", "2000-02-01T00:00:00 2000-02-28T23:59:59"},
		{"all_leap", "2001-02", "2001-02", "2001-02-01T00:00:00 2001-02-29T23:59:59"},
		{"360_day", "2000-02", "2000-02", "2000-02-01T00:00:00 2000-02-30T23:59:59"},
		{"julian", "1900-02", "1900-02", "1900-02-01T00:00:00 1900-02-29T23:59:59"},
		{"standard", "1582-10", "1582-10", "1582-10-01T00:00:00 1582-10-31T23:59:59"},
		{"standard", "2000", "2000", "2000-01-01T00:00:00 2000-12-31T23:59:59"},
		{"360_day", "2000", "2000", "2000-01-01T00:00:00 2000-12-30T23:59:59"},
		{"noleap", "-1", "0", "-0001-01-01T00:00:00 0000-12-31T23:59:59"},
		{"standard", "2000-02-28", "2000-02-28", "2000-02-28T00:00:00 2000-02-28T23:59:59"},
		{"standard", "2000-02-28 12", "2000-02-28 12", "2000-02-28T12:00:00 2000-02-28T12:59:59"},
		{"standard", "2000-02-28T12:30", "2000-02-28T12:30", "2000-02-28T12:30:00 2000-02-28T12:30:59"},
		{"standard", "2000-02-28 12:30:00", "2000-02-28 12:30:00", "2000-02-28T12:30:00 2000-02-28T12:30:00"},
		{"standard", "2000-02-28", "2000-02-28 12:30:00.0", "2000-02-28T00:00:00 2000-02-28T12:30:00"},
		{"standard", "2000-02-28 12 +02:00", "2000-02-28 12 +02:00", "2000-02-28T10:00:00 2000-02-28T10:59:59"},
		{"standard", "2000-02-28", "2000-02", "2000-02-28T00:00:00 2000-02-29T23:59:59"},
		{"standard", "2000-03", "2000-02", "the first value is greater than the second"},
		{"noleap", "2000-02", "2000-02-29", "not a date in the calendar"},
	} {
		// The first second of each period, and the seconds before and after it.
		var values []int64
		units := must(cftime.Parse("seconds since 1500-01-01", c.calendar))
		for _, text := range []string{"-1", "1", "1582-10", "1582-11", "1900-02", "1900-03", "2000", "2000-02", "2000-02-28", "2000-02-28 10", "2000-02-28 11", "2000-02-28 12", "2000-02-28 12:30", "2000-02-28 12:31", "2000-02-28 13", "2000-03", "2001", "2001-02", "2001-03"} {
			n, _, _ := units.Number(must(units.ParseDate(text)))
			values = append(values, n-1, n, n+1)
		}
		day, _, _ := units.Number(must(units.ParseDate("2000-02-28")))
		values = append(values, day+86399, day+86400)
		slices.Sort(values)
		values = slices.Compact(values)
		v := newVar(t, nczarr.VarSpec{Type: nczarr.Int64, Attrs: attrsOf("units", "seconds since 1500-01-01", "calendar", c.calendar)}, values...)
		a, err := nczarr.ReadTimes(t.Context(), v, nczarr.Between(c.low, c.high))
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(a.At(0), " ", a.At(int64(len(a.Data))-1))
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s to %s, %s: want %s, got %s", c.low, c.high, c.calendar, c.want, got)
		}
	}
}

// positionsOf returns the positions that s selects in v, or the kind of the error. It
// reads another variable with the same dimension, whose values are their positions.
func positionsOf(ctx context.Context, v *nczarr.Var, s nczarr.Selector) string {
	ruler, err := v.Group().Var("ruler")
	if err != nil {
		ruler, err = v.Group().DefineVar(ctx, "ruler", nczarr.VarSpec{Type: nczarr.Int32, Dims: []string{"x"}})
		if err != nil {
			return err.Error()
		}
		for i := range v.Len() {
			if err := nczarr.Write(ctx, ruler, []int64{i}, nczarr.At(i)); err != nil {
				return err.Error()
			}
		}
	}
	a, err := nczarr.Read[int32](ctx, ruler, s)
	var kind interface{ Is(error) bool }
	if errors.As(err, &kind) {
		for _, k := range []error{nczarr.ErrRange, nczarr.ErrInvalid, nczarr.ErrBadType, nczarr.ErrNoDim, nczarr.ErrNoVar} {
			if errors.Is(err, k) {
				return k.Error()
			}
		}
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(a.Data)
}

// TestLongCoordinate searches a coordinate of several blocks: values in later blocks,
// at a block boundary and across it.
func TestLongCoordinate(t *testing.T) {
	t.Parallel()
	const n, border = 600_000, 1 << 18
	values := make([]int32, n)
	for i := range values {
		values[i] = int32(2 * i)
	}
	x := newVar(t, nczarr.VarSpec{Type: nczarr.Int32, Chunks: []int64{n}}, values...)
	for want, s := range map[int32]nczarr.Selector{
		2 * border: nczarr.Exact(2 * border), 2*border - 2: nczarr.Nearest(2*border - 1), 2 * (n - 1): nczarr.Nearest(1 << 30), 0: nczarr.Nearest(-1),
	} {
		if a, err := nczarr.Read[int32](t.Context(), x, s); err != nil || a.At() != want {
			t.Errorf("%v: want %d, got %v, %v", s, want, a.Data, err)
		}
	}
	a, err := nczarr.Read[int32](t.Context(), x, nczarr.Between(2*border-4, 2*border+4))
	if want := "[524284 524286 524288 524290 524292]"; err != nil || fmt.Sprint(a.Data) != want {
		t.Errorf("want %s, got %v, %v", want, a.Data, err)
	}
	values[border] = 0 // not monotonic at the boundary
	check(nczarr.Write(t.Context(), x, values))
	if _, err := nczarr.Read[int32](t.Context(), x, nczarr.Between(0, 1)); !errors.Is(err, nczarr.ErrInvalid) {
		t.Errorf("want ErrInvalid, got %v", err)
	}
}

// TestCoordinatesProperty compares Nearest and Between with a direct implementation of
// their definitions, on random coordinates in both orders.
func TestCoordinatesProperty(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		values := make([]float64, 1+r.IntN(12))
		for i := range values {
			values[i] = math.Round(r.NormFloat64() * 8)
		}
		slices.Sort(values)
		if r.IntN(2) == 0 {
			slices.Reverse(values)
		}
		v := newVar(t, nczarr.VarSpec{Type: nczarr.Float64}, values...)
		for range 12 {
			low := math.Round(r.NormFloat64()*16) / 2
			high := low + float64(r.IntN(10))/2
			best, inside := 0, []int32{}
			for i, x := range values {
				if math.Abs(x-low) < math.Abs(values[best]-low) {
					best = i
				}
				if low <= x && x <= high {
					inside = append(inside, int32(i))
				}
			}
			if got, want := positionsOf(t.Context(), v, nczarr.Nearest(low)), fmt.Sprintf("[%d]", best); got != want {
				t.Errorf("nearest to %v in %v: want %s, got %s", low, values, want, got)
			}
			if got, want := positionsOf(t.Context(), v, nczarr.Between(low, high)), fmt.Sprint(inside); got != want {
				t.Errorf("between %v and %v in %v: want %s, got %s", low, high, values, want, got)
			}
		}
	}
}

// TestSelectors checks how selectors are assigned to dimensions.
func TestSelectors(t *testing.T) {
	t.Parallel()
	ds := ocean()
	temp := must(ds.Var("surface/temp"))
	for _, c := range []struct {
		list []nczarr.Selector
		want string
	}{
		{nil, "[time lat lon] [3 3 4] <nil>"},
		{[]nczarr.Selector{nczarr.At(0)}, "[lat lon] [3 4] <nil>"},
		{[]nczarr.Selector{nczarr.Along("lat", nczarr.At(0)), nczarr.At(0)}, "[lon] [4] <nil>"},
		{[]nczarr.Selector{nczarr.Along("/lon", nczarr.Span(1, 4).By(2))}, "[time lat lon] [3 3 2] <nil>"},
		{[]nczarr.Selector{nczarr.All, nczarr.All, nczarr.All, nczarr.All}, "[] [] read \"/surface/temp\": invalid argument: 4 selectors for 3 dimensions"},
		{[]nczarr.Selector{nczarr.At(0), nczarr.Along("time", nczarr.At(0))}, "[] [] read \"/surface/temp\": invalid argument: two selectors for dimension \"time\""},
	} {
		a, err := nczarr.Read[int16](t.Context(), temp, c.list...)
		if got := fmt.Sprint(a.Dims, a.Shape, " ", err); got != c.want {
			t.Errorf("%v: want %s, got %s", c.list, c.want, got)
		}
	}
	must(ds.DefineDim("n", 2))
	square := must(ds.DefineVar(t.Context(), "square", nczarr.VarSpec{Type: nczarr.Int32, Dims: []string{"n", "n"}}))
	check(nczarr.Write(t.Context(), square, []int32{1, 2, 3, 4}))
	a := must(nczarr.Read[int32](t.Context(), square, nczarr.Along("n", nczarr.At(0)), nczarr.Along("n", nczarr.At(1))))
	if a.At() != 2 {
		t.Errorf("want 2, got %v", a)
	}
	if _, err := nczarr.Read[int32](t.Context(), square, nczarr.Nearest(1)); !errors.Is(err, nczarr.ErrNoVar) {
		t.Errorf("a dimension without a coordinate variable: want ErrNoVar, got %v", err)
	}
}
