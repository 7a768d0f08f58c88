package cftime

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// Date is a moment of a calendar: a day and the time of day. Its fields have
// the ranges of the calendar: Month is 1 to 12, Day begins with 1, Second is at
// most 59. Years are astronomical: there is a year 0. The zero Date is not a
// moment; it stands for a missing one. Dates made by a composite literal are of
// the standard calendar.
type Date struct {
	Year, Month, Day                 int
	Hour, Minute, Second, Nanosecond int

	cal calendar
}

// newDate makes the Date of a day and the nanoseconds of that day.
func (c calendar) newDate(d date, clock int64) Date {
	return Date{
		Year: int(d.year), Month: d.month, Day: d.day, cal: c,
		Hour: int(clock / hour), Minute: int(clock % hour / minute), Second: int(clock % minute / second), Nanosecond: int(clock % second),
	}
}

// IsZero reports whether d is the zero Date of any calendar: no moment.
func (d Date) IsZero() bool { return d == Date{cal: d.cal} }

// String returns the form YYYY-MM-DDThh:mm:ss, with a fraction of a second if
// it is not zero, and "" for the zero Date.
func (d Date) String() string {
	if d.IsZero() {
		return ""
	}
	var b strings.Builder
	b.Write(appendDate(nil, d.day()))
	fmt.Fprintf(&b, "T%02d:%02d:%02d", d.Hour, d.Minute, d.Second)
	if d.Nanosecond != 0 {
		b.WriteString(strings.TrimRight(fmt.Sprintf(".%09d", d.Nanosecond), "0"))
	}
	return b.String()
}

// Calendar returns the CF name of the calendar, such as "standard" or "360_day".
func (d Date) Calendar() string {
	return [...]string{mixed: "standard", gregorian: "proleptic_gregorian", julian: "julian", noLeap: "noleap", allLeap: "all_leap", days360: "360_day"}[d.cal]
}

// Time returns the same moment in UTC. It is false for the zero Date, and for
// dates whose calendar has other days than package time there: those before
// 1582-10-15 of the standard calendar, and all of the others but the
// proleptic Gregorian.
func (d Date) Time() (time.Time, bool) {
	if d.IsZero() || d.cal != gregorian && (d.cal != mixed || d.day().before(reform)) {
		return time.Time{}, false
	}
	return time.Date(d.Year, time.Month(d.Month), d.Day, d.Hour, d.Minute, d.Second, d.Nanosecond, time.UTC), true
}

// Sub returns how much later d is than o: whole days, negative if d is earlier,
// and what is left, which is not negative and less than 24 hours. Both must be
// of one calendar.
func (d Date) Sub(o Date) (days int64, rest time.Duration) {
	nanos := d.clock() - o.clock()
	return d.cal.number(d.day()) - o.cal.number(o.day()) + div(nanos, day), time.Duration(mod(nanos, day))
}

// Compare returns -1, 0 or 1 if d is earlier than, the same as or later than o.
// Both must be of one calendar.
func (d Date) Compare(o Date) int {
	days, rest := d.Sub(o)
	return cmp.Or(cmp.Compare(days, 0), cmp.Compare(rest, 0))
}

func (d Date) day() date { return date{int64(d.Year), d.Month, d.Day} }

func (d Date) clock() int64 {
	return int64(d.Hour)*hour + int64(d.Minute)*minute + int64(d.Second)*second + int64(d.Nanosecond)
}

// DateInt returns the moment that v means. It is false when there is no such
// date: beyond MaxYear, or the 31st of a month of 30 days.
func (u *Units) DateInt(v int64) (Date, bool) { return u.date(u.intMoment(v)) }

// DateFloat is DateInt for floating-point numbers, rounded as [Units.AppendFloat]
// does.
func (u *Units) DateFloat(v float64) (Date, bool) { return u.date(u.floatMoment(v)) }

func (u *Units) date(d date, clock int64, ok bool) (Date, bool) {
	if !ok {
		return Date{}, false
	}
	return u.cal.newDate(d, clock), true
}

// ParseDate reads a date of the calendar of u, with what may follow one in a
// units attribute: "2000-02", "2000-02-01 12:30", "2000-02-01T12:30:00+02:00".
// What is left out is the first: of January, midnight, UTC.
func (u *Units) ParseDate(text string) (Date, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Date{}, fmt.Errorf("the date is empty")
	}
	n, clock, err := u.cal.parse(words)
	if err != nil {
		return Date{}, err
	}
	return u.cal.newDate(u.cal.date(n), clock), nil
}

// InCalendar returns the date with the fields of d in the calendar of u. It is
// false if that calendar does not have it: the 30th of February of any but
// 360_day.
func (u *Units) InCalendar(d Date) (Date, bool) {
	d.cal = u.cal
	clock := d.Hour >= 0 && d.Hour < 24 && d.Minute >= 0 && d.Minute < 60 && d.Second >= 0 && d.Second < 60 && d.Nanosecond >= 0 && d.Nanosecond < 1e9
	return d, clock && max(d.Year, -d.Year) <= MaxYear && u.cal.valid(d.day())
}

// FromTime returns the date with the fields that t has in UTC, in the calendar
// of u. It is false if that calendar does not have it, and for times before
// 1582-10-15 in the standard calendar, whose fields mean another day there.
func (u *Units) FromTime(t time.Time) (Date, bool) {
	t = t.UTC()
	d, ok := u.InCalendar(Date{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), u.cal})
	return d, ok && (u.cal != mixed || !d.day().before(reform))
}

// Number returns how many units d is after the moment that u counts from: a
// whole number, and a fraction from 0 to below 1. d is of the calendar of u. It
// is false for numbers beyond 64 bits, and where the unit is a month, a season
// or a year, unless d is whole months away.
func (u *Units) Number(d Date) (whole int64, frac float64, ok bool) {
	if u.months > 0 {
		total := (int64(d.Year)-u.base.year)*12 + int64(d.Month-u.base.month)
		rest := mod(total, u.months)
		return div(total, u.months), float64(rest) / float64(u.months), d.Day == u.base.day && d.clock() == u.clock
	}
	nanos := d.clock() - u.clock
	days, nanos := u.cal.number(d.day())-u.first+div(nanos, day), mod(nanos, day)
	if u.span >= day {
		per := u.span / day
		return div(days, per), (float64(mod(days, per))*float64(day) + float64(nanos)) / float64(u.span), true
	}
	per := day / u.span
	if most := math.MaxInt64/per - 1; days > most || days < -most {
		return 0, 0, false
	}
	return days*per + nanos/u.span, float64(nanos%u.span) / float64(u.span), true
}
