package cftime

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
)

// Date is a moment in a calendar: a day and the time of day. Its fields have the ranges
// of the calendar. Month is 1 to 12, Day starts at 1, and Second is at most 59. Years
// are astronomical: there is a year 0. The zero Date is not a moment; it represents a
// missing value. A Date made by a composite literal is in the standard calendar.
type Date struct {
	Year, Month, Day                 int
	Hour, Minute, Second, Nanosecond int

	cal calendar
}

// newDate returns the Date of a day and the nanoseconds since the start of that day.
func (c calendar) newDate(d date, clock int64) Date {
	return Date{
		Year: int(d.year), Month: d.month, Day: d.day, cal: c,
		Hour: int(clock / hour), Minute: int(clock % hour / minute), Second: int(clock % minute / second), Nanosecond: int(clock % second),
	}
}

// IsZero reports whether d is the zero Date of any calendar, which is not a moment.
func (d Date) IsZero() bool { return d == Date{cal: d.cal} }

// String returns d in the form YYYY-MM-DDThh:mm:ss, followed by a fraction of a second
// if that is not zero. It returns "" for the zero Date.
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

// Time returns the date as a time.Time in UTC. It returns false for the zero Date, and for
// dates whose calendar differs from the calendar of package time: dates before 1582-10-15
// in the standard calendar, and all dates in other calendars except the proleptic
// Gregorian.
func (d Date) Time() (time.Time, bool) {
	if d.IsZero() || d.cal != gregorian && (d.cal != mixed || d.day().before(reform)) {
		return time.Time{}, false
	}
	return time.Date(d.Year, time.Month(d.Month), d.Day, d.Hour, d.Minute, d.Second, d.Nanosecond, time.UTC), true
}

// Sub returns d-o as a number of days and a remainder from 0 to less than 24 hours.
// days is negative if d is earlier than o. Both dates must be in the same calendar.
func (d Date) Sub(o Date) (days int64, rest time.Duration) {
	nanos := d.clock() - o.clock()
	return d.cal.number(d.day()) - o.cal.number(o.day()) + div(nanos, day), time.Duration(mod(nanos, day))
}

// Compare returns -1, 0 or 1 if d is earlier than, equal to or later than o. Both dates
// must be in the same calendar.
func (d Date) Compare(o Date) int {
	days, rest := d.Sub(o)
	return cmp.Or(cmp.Compare(days, 0), cmp.Compare(rest, 0))
}

func (d Date) day() date { return date{int64(d.Year), d.Month, d.Day} }

func (d Date) clock() int64 {
	return int64(d.Hour)*hour + int64(d.Minute)*minute + int64(d.Second)*second + int64(d.Nanosecond)
}

// DateInt returns the date of the number v. It returns false if the date does not
// exist: its year exceeds MaxYear, or it is the 31st of a month of 30 days.
func (u *Units) DateInt(v int64) (Date, bool) { return u.date(u.intMoment(v)) }

// DateFloat is like DateInt for floating-point numbers, which it rounds as
// [Units.AppendFloat] does.
func (u *Units) DateFloat(v float64) (Date, bool) { return u.date(u.floatMoment(v)) }

func (u *Units) date(d date, clock int64, ok bool) (Date, bool) {
	if !ok {
		return Date{}, false
	}
	return u.cal.newDate(d, clock), true
}

// ParseDate parses a date in the calendar of u, in any form allowed in a units
// attribute: "2000-02", "2000-02-01 12:30", "2000-02-01T12:30:00+02:00". Missing parts
// default to January, the first day, midnight and UTC.
func (u *Units) ParseDate(text string) (Date, error) { return u.parseDate(text, false) }

// ParseEnd is like [Units.ParseDate], but returns the last nanosecond of the year,
// month, day, hour, minute or second that text denotes: the end of February for
// "2000-02". A time with a fraction of a second denotes a single instant.
func (u *Units) ParseEnd(text string) (Date, error) { return u.parseDate(text, true) }

func (u *Units) parseDate(text string, end bool) (Date, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Date{}, fmt.Errorf("the date is empty")
	}
	n, clock, err := u.cal.parse(words, end)
	if err != nil {
		return Date{}, err
	}
	return u.cal.newDate(u.cal.date(n), clock), nil
}

// InCalendar returns the date in the calendar of u that has the same fields as d. It
// returns false if that calendar does not have the date, for example the 30th of February
// in any calendar except 360_day.
func (u *Units) InCalendar(d Date) (Date, bool) {
	d.cal = u.cal
	clock := d.Hour >= 0 && d.Hour < 24 && d.Minute >= 0 && d.Minute < 60 && d.Second >= 0 && d.Second < 60 && d.Nanosecond >= 0 && d.Nanosecond < 1e9
	return d, clock && max(d.Year, -d.Year) <= MaxYear && u.cal.valid(d.day())
}

// FromTime returns the date in the calendar of u that has the UTC fields of t. It returns
// false if that calendar does not have the date, and for times before 1582-10-15 in the
// standard calendar, where the fields denote another day.
func (u *Units) FromTime(t time.Time) (Date, bool) {
	t = t.UTC()
	d, ok := u.InCalendar(Date{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), u.cal})
	return d, ok && (u.cal != mixed || !d.day().before(reform))
}

// Number returns the number of units from the base of u to d, as an integer and a
// fraction of at least 0 and less than 1. d must be in the calendar of u. Number
// returns false for numbers that overflow an int64. If the unit is a month, a season or
// a year, it also returns false unless d is a whole number of months from the base.
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
