package cftime_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/cdl/cftime"
)

func parse(t *testing.T, units, calendar string) *cftime.Units {
	t.Helper()
	u, err := cftime.Parse(units, calendar)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestDatesAgainstCftime compares with the table that cftime made, there and
// back: the number of a date is the number that the date was made of.
func TestDatesAgainstCftime(t *testing.T) {
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
		u := parse(t, field[1], field[0])
		v, err := strconv.ParseFloat(field[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		d, ok := u.DateFloat(v)
		if got := full(d.String()); !ok || !close(got, field[3], v, field[1]) {
			t.Errorf("%sgot %s %v", line, d, ok)
		}
		want, err := u.ParseDate(field[3])
		if err != nil {
			t.Errorf("%s%v", line, err)
			continue
		}
		whole, frac, ok := u.Number(want)
		if got := float64(whole) + frac; !ok || math.Abs(got-v) > 1e-9*math.Max(1, math.Abs(v)) {
			t.Errorf("%sgot number %v %v", line, got, ok)
		}
	}
	if rows < 2400 {
		t.Errorf("only %d rows", rows)
	}
}

func TestDate(t *testing.T) {
	t.Parallel()
	d, ok := parse(t, "days since 2000-02-28", "360_day").DateInt(2)
	if want := "2000-02-30T00:00:00"; !ok || d.String() != want || d.Calendar() != "360_day" {
		t.Errorf("want %s, got %s %v of %s", want, d, ok, d.Calendar())
	}
	if _, ok := d.Time(); ok {
		t.Error("the 30th of February became a time.Time")
	}
	std := parse(t, "hours since 1582-10-04", "")
	for v, want := range map[float64]string{0: "1582-10-04T00:00:00 false", 24: "1582-10-15T00:00:00 true", 36.5: "1582-10-15T12:30:00 true"} {
		d, _ := std.DateFloat(v)
		when, ok := d.Time()
		if got := fmt.Sprint(d, ok); got != want || ok && when.Format("2006-01-02T15:04:05") != d.String() {
			t.Errorf("%v: want %s, got %s (%v)", v, want, got, when)
		}
	}
	a, _ := std.DateInt(0)
	b, _ := std.DateInt(30)
	if days, rest := b.Sub(a); days != 1 || rest != 6*time.Hour || a.Compare(b) != -1 || b.Compare(a) != 1 || a.Compare(a) != 0 {
		t.Errorf("got %d days and %v", days, rest)
	}
	if days, rest := a.Sub(b); days != -2 || rest != 18*time.Hour {
		t.Errorf("got %d days and %v", days, rest)
	}
	if got := (cftime.Date{}); !got.IsZero() || got.String() != "" {
		t.Errorf("the zero Date is %q", got)
	}
	if n, _ := parse(t, "nanoseconds since 1970-01-01", "").DateInt(1_500_000_000); n.String() != "1970-01-01T00:00:01.5" {
		t.Errorf("got %s", n)
	}
	if _, ok := std.DateInt(math.MaxInt64); ok {
		t.Error("a date beyond MaxYear")
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		units, calendar, date string
		want                  string
	}{
		{"days since 2000-01-01", "noleap", "2000-03-01", "59 0 true"},
		{"days since 2000-01-01", "", "2000-03-01T06", "60 0.25 true"},
		{"hours since 2000-01-01 06:00", "", "2000-01-01", "-6 0 true"},
		{"hours since 2000-01-01", "", "1999-12-31T23:30", "-1 0.5 true"},
		{"weeks since 2000-01-01", "", "2000-01-11T12", "1 0.5 true"},
		{"months since 2000-01-15", "", "2001-03-15", "14 0 true"},
		{"years since 2000-01-01", "", "1999-10-01", "-1 0.75 true"},
		{"months since 2000-01-15", "", "2001-03-16", "14 0 false"},
		{"nanoseconds since 1970-01-01", "", "2262-04-10", "9223200000000000000 0 true"},
		{"nanoseconds since 1970-01-01", "", "2600-01-01", "0 0 false"},
	} {
		u := parse(t, c.units, c.calendar)
		d, err := u.ParseDate(c.date)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(u.Number(d)); got != c.want {
			t.Errorf("%s in %s: want %s, got %s", c.date, c.units, c.want, got)
		}
	}
}

func TestDatesThatAreNot(t *testing.T) {
	t.Parallel()
	leap := time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC)
	if _, ok := parse(t, "days since 2000-01-01", "noleap").FromTime(leap); ok {
		t.Error("noleap has a 29th of February")
	}
	std := parse(t, "days since 1-1-1", "")
	if _, ok := std.FromTime(time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
		t.Error("a Gregorian date of 1500 became a Julian one")
	}
	if d, ok := std.FromTime(time.Date(2000, 2, 29, 1, 0, 0, 0, time.FixedZone("", 7200))); !ok || d.String() != "2000-02-28T23:00:00" {
		t.Errorf("got %s %v", d, ok)
	}
	for _, d := range []cftime.Date{{}, {Year: 2001, Month: 2, Day: 29}, {Year: 2000, Month: 1, Day: 1, Hour: 24}, {Year: cftime.MaxYear + 1, Month: 1, Day: 1}} {
		if _, ok := std.InCalendar(d); ok {
			t.Errorf("%v is taken for a date", d)
		}
	}
	for _, text := range []string{"", "yesterday", "2000-02-30", "2000-01-01T25"} {
		if d, err := std.ParseDate(text); err == nil {
			t.Errorf("%q is read as %v", text, d)
		}
	}
}
