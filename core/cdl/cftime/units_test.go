package cftime_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/cdl/cftime"
)

func TestReference(t *testing.T) {
	t.Parallel()
	// The dates are those of netcdf-c's own test of ncdump -t.
	const want = "2009-01-01"
	for _, c := range []struct {
		units, calendar string
		v               float64
	}{
		{"days since 1500-1-1", "", 185900},
		{"DaYs since 1500-1-1", "", 185900},
		{"days since 1500-01-01 00:00:00", "standard", 185900},
		{"days since 1500-01-01 00:00:00", "gregorian", 185900},
		{"days since 1500-01-01 00:00:00", "proleptic_gregorian", 185909},
		{"days since 1500-01-01 00:00:00", "noleap", 185785},
		{"days since 1500-01-01 00:00:00", "365_day", 185785},
		{"days since 1500-01-01 00:00:00", "all_leap", 186294},
		{"days since 1500-01-01 00:00:00", "366_day", 186294},
		{"days since 1500-01-01 00:00:00", "360_day", 183240},
		{"days since 1500-01-01 00:00:00", "julian", 185913},
		{"days since 2000-6-15 12:00", "", 3121.5},
		{"days since 2000-06-15T12:00:00", "proleptic_gregorian", 3121.5},
		{"days since 2000-06-15 12:00:00", "noleap", 3119.5},
		{"days since 2000-06-15 12:00:00", "366_day", 3127.5},
		{"days since 2000-06-15 12:00:00", "360_day", 3075.5},
		{"days since 2000-06-15 12:00:00", "julian", 3121.5},
	} {
		u, err := cftime.Parse(c.units, c.calendar)
		if err != nil {
			t.Errorf("%s %s: %v", c.units, c.calendar, err)
			continue
		}
		if got, ok := u.AppendFloat(nil, c.v, ' '); !ok || string(got) != want {
			t.Errorf("%v %s %s: got %q %v", c.v, c.units, c.calendar, got, ok)
		}
	}
}

// TestAgainstCftime compares with a table that cftime made (testdata/make.py).
func TestAgainstCftime(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/dates.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		field := strings.Split(strings.TrimSpace(line), "\t")
		if len(field) != 4 {
			continue
		}
		rows++
		u, err := cftime.Parse(field[1], field[0])
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		v, err := strconv.ParseFloat(field[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := u.AppendFloat(nil, v, 'T'); !ok || !close(full(string(got)), field[3], v, field[1]) {
			t.Errorf("%sgot %s %v", line, got, ok)
		}
		if n, err := strconv.ParseInt(field[2], 10, 64); err == nil {
			if got, ok := u.AppendInt(nil, n, 'T'); !ok || full(string(got)) != field[3] {
				t.Errorf("%sgot %s %v", line, got, ok)
			}
		}
	}
	if rows < 2400 {
		t.Errorf("only %d rows", rows)
	}
}

// close reports whether two moments are the same, or nearer to each other than
// v is to the next number: cftime then shows digits that v does not have.
func close(got, want string, v float64, units string) bool {
	if got == want {
		return true
	}
	unit, _, _ := strings.Cut(units, " ")
	span := map[string]float64{"days": 86400e6, "hours": 3600e6, "minutes": 60e6}[unit]
	ulp := (math.Nextafter(math.Abs(v), math.Inf(1)) - math.Abs(v)) * span
	diff := math.Abs(micros(got) - micros(want))
	return v != math.Trunc(v) && min(diff, 86400e6-diff) <= 10*ulp
}

// micros gives the microseconds of a moment since midnight.
func micros(moment string) float64 {
	at := strings.IndexByte(moment, 'T')
	var h, m, s float64
	if _, err := fmt.Sscanf(moment[at:], "T%f:%f:%f", &h, &m, &s); err != nil {
		return math.NaN()
	}
	return math.Round(((h*60+m)*60 + s) * 1e6)
}

// full adds the parts of the time that are left out because they are zero.
func full(s string) string {
	const zero = "T00:00:00.000000"
	at := strings.IndexByte(s, 'T')
	if at < 0 {
		return s + zero
	}
	return s + zero[min(len(s)-at, len(zero)):]
}

// TestForms checks what a units attribute may look like, and what is refused.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		units, calendar string
		v               float64
		want            string // empty: refused; "-": no such date
	}{
		{"s since 2000-01-01", "", 5.5, "2000-01-01 00:00:05.500000"},
		{"sec since 2000-01-01", "", 60, "2000-01-01 00:01"},
		{"hr SINCE 2000-1-1 6", "", 1, "2000-01-01 07"},
		{"weeks since 2000-01-01", "360_day", 0.5, "2000-01-04 12"},
		{"weeks since 2000-01-01", "", -1, "1999-12-25"},
		{"nanoseconds since 1970-01-01", "", 1, "1970-01-01 00:00:00.000000001"},
		{"ms since 1970-01-01", "standard", 1.5, "1970-01-01 00:00:00.001500"},
		{"days since 2000", "", 59, "2000-02-29"},
		{"days since 2000-03", "Julian", -1, "2000-02-29"},
		{"days since 0-1-1", "", 0, "0000-01-01"},
		{"days since 1-1-1 00:00:0.0", "noleap", -1, "0000-12-31"},
		{"days since -1-1-1", "", 0, "-0001-01-01"},
		{"months since 2000-01-15 06", "", 1, "2000-02-15 06"},
		{"months since 2000-01-31", "", 1, "-"},
		{"months since 2000-01-31", "", 0.5, "-"},
		{"season since 2000-01-01", "", -1, "1999-10-01"},
		{"years since 2000-02-29", "", 4, "2004-02-29"},
		{"years since 2000-01-01", "360_day", 0.5, "2000-07-01"},
		{"years since 2000-01-01", "", 1e9, "-"},
		{"days since 1582-10-04", "", 1, "1582-10-15"},
		{"days since 1582-10-15", "", -1, "1582-10-04"},
		{"days since 2000-01-01", "", math.NaN(), "-"},
		{"days since 2000-01-01", "", math.Inf(-1), "-"},
		{"days since 2000-01-01", "", 9.969209968386869e+36, "-"},
		{"seconds since 2000-01-01", "", 1e18, "-"},
		{"days since 99999-01-01", "all_leap", 0, "99999-01-01"},
		{"days since 1582-10-10", "", 0, ""},
		{"days since 2001-02-29", "", 0, ""},
		{"days since 2000-02-30", "360_day", 0, "2000-02-30"},
		{"days since 20000101", "", 0, ""},
		{"days since 2000-13-01", "", 0, ""},
		{"days since 2000-01-01 24:00", "", 0, ""},
		{"days since 2000-01-01 12:61", "", 0, ""},
		{"days since 2000-01-01 EST", "", 0, ""},
		{"days since 2000-01-01 +1:30", "", 0, "1999-12-31 22:30"},
		{"days since 2000-01-01 00:00 -0130", "", 0, "2000-01-01 01:30"},
		{"days", "", 0, ""},
		{"days from 2000-01-01", "", 0, ""},
		{"furlongs since 2000-01-01", "", 0, ""},
		{"m since 2000-01-01", "", 0, ""},
		{"days since", "", 0, ""},
		{"days since 2000-01-01", "tai", 0, ""},
	} {
		u, err := cftime.Parse(c.units, c.calendar)
		if (err == nil) != (c.want != "") {
			t.Errorf("%q %q: %v", c.units, c.calendar, err)
		}
		if err != nil {
			continue
		}
		got, ok := u.AppendFloat([]byte{}, c.v, ' ')
		if !ok {
			got = append(got, '-')
		}
		if string(got) != c.want {
			t.Errorf("%v %s: got %q, want %q", c.v, c.units, got, c.want)
		}
	}
}

// TestExtremes checks integers that no float64 holds, and overflow.
func TestExtremes(t *testing.T) {
	t.Parallel()
	u, err := cftime.Parse("nanoseconds since 1970-01-01", "proleptic_gregorian")
	if err != nil {
		t.Fatal(err)
	}
	for v, want := range map[int64]string{
		math.MaxInt64: "2262-04-11 23:47:16.854775807",
		math.MinInt64: "1677-09-21 00:12:43.145224192",
		-1:            "1969-12-31 23:59:59.999999999",
	} {
		if got, ok := u.AppendInt(nil, v, ' '); !ok || string(got) != want {
			t.Errorf("%d: got %q %v", v, got, ok)
		}
	}
	for _, units := range []string{"days since 2000-01-01", "weeks since 2000-01-01", "months since 2000-01-01", "seconds since 99999-12-31"} {
		u, err := cftime.Parse(units, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []int64{math.MaxInt64, math.MinInt64} {
			if got, ok := u.AppendInt([]byte("x"), v, ' '); ok || string(got) != "x" {
				t.Errorf("%d %s: got %q %v", v, units, got, ok)
			}
		}
	}
}

// TestCalendars checks that days follow each other without gap or repetition
// but for the one of 1582, and that Parse takes every date that is printed.
func TestCalendars(t *testing.T) {
	t.Parallel()
	for _, cal := range []string{"standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"} {
		u, err := cftime.Parse("days since 1579-01-01", cal)
		if err != nil {
			t.Fatal(err)
		}
		seen := ""
		for v := range int64(365 * 125) {
			text, ok := u.AppendInt(nil, v, ' ')
			if !ok || string(text) <= seen {
				t.Fatalf("%s: %q after %q", cal, text, seen)
			}
			seen = string(text)
			back, err := cftime.Parse("days since "+seen, cal)
			if err != nil {
				t.Fatal(err)
			}
			if first, ok := back.AppendInt(nil, -v, ' '); !ok || string(first) != "1579-01-01" {
				t.Fatalf("%s: %d days before %s is %s", cal, v, seen, first)
			}
		}
	}
}

// FuzzParse checks that no text and number end in a panic, and that what is
// printed is a date.
func FuzzParse(f *testing.F) {
	f.Add("days since 1850-01-01", "noleap", 1.5)
	f.Add("months since -4-02-29T06:30:15.25 +05:30", "", -3.0)
	f.Add("weeks since 1582-10-04", "gregorian", 1e300)
	form := regexp.MustCompile(`^-?\d{4,}-\d\d-\d\d( \d\d(:\d\d(:\d\d(\.(\d{6}|\d{9}))?)?)?)?$`)
	f.Fuzz(func(t *testing.T, units, calendar string, v float64) {
		u, err := cftime.Parse(units, calendar)
		if err != nil {
			return
		}
		if text, ok := u.AppendFloat(nil, v, ' '); ok && !form.Match(text) {
			t.Errorf("%v %q: %q", v, units, text)
		}
		if text, ok := u.AppendInt(nil, int64(math.Float64bits(v)), ' '); ok && !form.Match(text) {
			t.Errorf("%v %q: %q", v, units, text)
		}
	})
}
