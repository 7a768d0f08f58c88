package cftime

import "strings"

// calendar is a calendar of the CF conventions.
type calendar uint8

const (
	mixed     calendar = iota // Julian until 1582-10-04, Gregorian from 1582-10-15
	gregorian                 // Gregorian at all times
	julian                    // Julian at all times
	noLeap                    // every year has 365 days
	allLeap                   // every year has 366 days
	days360                   // every month has 30 days
)

// findCalendar returns the calendar for a value of the attribute calendar, ignoring
// case. An empty name means the mixed calendar.
//
// Source: CF conventions 1.11, section 4.4.1, "Calendar"; ncdump also accepts the
// spellings no_leap and allleap.
func findCalendar(name string) (calendar, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "", "standard", "gregorian":
		return mixed, true
	case "proleptic_gregorian":
		return gregorian, true
	case "julian":
		return julian, true
	case "noleap", "no_leap", "365_day":
		return noLeap, true
	case "all_leap", "allleap", "366_day":
		return allLeap, true
	case "360_day":
		return days360, true
	}
	return 0, false
}

// date is a day in a calendar. Years are astronomical: there is a year 0, and the year
// before it is -1.
type date struct {
	year       int64
	month, day int
}

// reform is the first Gregorian day of the mixed calendar. reformNumber is its number.
// Smaller numbers are Julian days.
var reform = date{1582, 10, 15}

const reformNumber = -141427 // days from 1970-01-01 (Gregorian)

func (d date) before(o date) bool {
	if d.year != o.year {
		return d.year < o.year
	}
	if d.month != o.month {
		return d.month < o.month
	}
	return d.day < o.day
}

// yearDay holds the number of days before each month in a year without a leap day.
var yearDay = [13]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

// leap reports whether February of the year has 29 days.
func (c calendar) leap(year int64) bool {
	switch c {
	case allLeap:
		return true
	case noLeap, days360:
		return false
	case julian:
		return year%4 == 0
	case mixed:
		if year <= reform.year { // 1582 was not a leap year in either calendar
			return year%4 == 0
		}
	}
	return year%4 == 0 && (year%100 != 0 || year%400 == 0)
}

// monthLen returns the number of days in a month from 1 to 12.
func (c calendar) monthLen(year int64, month int) int {
	if c == days360 {
		return 30
	}
	n := yearDay[month] - yearDay[month-1]
	if month == 2 && c.leap(year) {
		n++
	}
	return n
}

// valid reports whether the calendar has the date d.
func (c calendar) valid(d date) bool {
	if d.month < 1 || d.month > 12 || d.day < 1 || d.day > c.monthLen(d.year, d.month) {
		return false
	}
	return c != mixed || d.before(date{1582, 10, 5}) || !d.before(reform)
}

// number returns the number of days from an origin, which depends on the calendar, to a
// valid date.
func (c calendar) number(d date) int64 {
	switch {
	case c == days360:
		return 360*d.year + int64(30*(d.month-1)+d.day-1)
	case c == noLeap:
		return 365*d.year + int64(yearDay[d.month-1]+d.day-1)
	case c == allLeap:
		return 366*d.year + int64(yearDay366(d.month-1)+d.day-1)
	case c == julian, c == mixed && d.before(reform):
		return julianNumber(d)
	}
	return gregorianNumber(d)
}

// date returns the date with a given number. It is the reverse of number.
func (c calendar) date(n int64) date {
	switch {
	case c == days360:
		rest := mod(n, 360)
		return date{div(n, 360), int(rest/30) + 1, int(rest%30) + 1}
	case c == noLeap:
		return dayOfYear(div(n, 365), int(mod(n, 365)), func(m int) int { return yearDay[m] })
	case c == allLeap:
		return dayOfYear(div(n, 366), int(mod(n, 366)), yearDay366)
	case c == julian, c == mixed && n < reformNumber:
		return julianDate(n)
	}
	return gregorianDate(n)
}

func yearDay366(month int) int {
	if month >= 2 {
		return yearDay[month] + 1
	}
	return yearDay[month]
}

// dayOfYear returns the date of a day of the year, counted from 0.
func dayOfYear(year int64, day int, before func(month int) int) date {
	m := 1
	for day >= before(m) {
		m++
	}
	return date{year, m, day - before(m-1) + 1}
}

// The four functions below use years that start in March, so that the leap day is the
// last day of the year. A linear formula then determines the months: five months have
// 153 days.

const (
	marchEpoch  = 719468 // days from 0000-03-01 (Gregorian) to 1970-01-01
	julianShift = 2      // days from the Julian 0000-03-01 to the Gregorian one
)

func gregorianNumber(d date) int64 {
	year, day := toMarchYear(d)
	era := div(year, 400)
	rest := year - era*400
	return era*146097 + rest*365 + rest/4 - rest/100 + day - marchEpoch
}

func gregorianDate(n int64) date {
	n += marchEpoch
	era := div(n, 146097)
	rest := n - era*146097
	year := (rest - rest/1460 + rest/36524 - rest/146096) / 365
	return fromMarchYear(era*400+year, rest-(365*year+year/4-year/100))
}

func julianNumber(d date) int64 {
	year, day := toMarchYear(d)
	return 365*year + div(year, 4) + day - marchEpoch - julianShift
}

func julianDate(n int64) date {
	n += marchEpoch + julianShift
	era := div(n, 1461)
	rest := n - era*1461
	year := (rest - rest/1460) / 365
	return fromMarchYear(era*4+year, rest-365*year)
}

// toMarchYear returns the year, from March to February, that contains d, and the day of that
// year, counted from 0.
func toMarchYear(d date) (year, day int64) {
	year = d.year
	if d.month <= 2 {
		year--
	}
	return year, int64((153*((d.month+9)%12)+2)/5 + d.day - 1)
}

// fromMarchYear is the reverse of toMarchYear.
func fromMarchYear(year, day int64) date {
	m := (5*day + 2) / 153
	d := date{year, int((m+2)%12) + 1, int(day-(153*m+2)/5) + 1}
	if d.month <= 2 {
		d.year++
	}
	return d
}

// div and mod round toward negative infinity.
func div(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func mod(a, b int64) int64 { return a - div(a, b)*b }
