package cftime

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

const (
	second = int64(1e9) // nanoseconds in a second
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// Units holds a unit of time, a reference time and a calendar. The number 0 represents the
// reference time. A Units is immutable and safe for concurrent use.
type Units struct {
	cal    calendar
	span   int64 // nanoseconds in the unit; 0 for months, seasons and years
	months int64 // months in the unit; 0 for other units
	base   date  // date of the reference time
	first  int64 // day number of base
	clock  int64 // nanoseconds from the start of base to the reference time; less than a day
}

// MaxYear is the largest supported year. The smallest is -MaxYear.
const MaxYear = 9_999_999

// Parse parses a units attribute such as "hours since 1900-01-01 00:00:00", and the
// name of a calendar: standard or gregorian (also if empty), proleptic_gregorian,
// julian, noleap or 365_day, all_leap or 366_day, 360_day. Case does not matter.
//
// Units are nanoseconds to weeks, months, seasons (three months) and years, with their
// usual short forms. A month is a calendar month, and a year is twelve calendar months.
// The reference time consists of a date, whose month and day are optional, an optional time
// after a space or a T, and an optional zone: Z, UTC, GMT or an offset such as +05:30.
//
// The error has no kind, because callers usually treat a failure as "not a time".
func Parse(units, calendarName string) (*Units, error) {
	cal, ok := findCalendar(calendarName)
	if !ok {
		return nil, fmt.Errorf("unknown calendar %q", calendarName)
	}
	words := strings.Fields(units)
	if len(words) < 3 || !strings.EqualFold(words[1], "since") {
		return nil, fmt.Errorf("the units %q are not of the form \"unit since date\"", units)
	}
	u := &Units{cal: cal}
	if u.span, u.months, ok = findUnit(strings.ToLower(words[0])); !ok {
		return nil, fmt.Errorf("%q is not a unit of time", words[0])
	}
	n, clock, err := cal.parse(words[2:], false)
	if err != nil {
		return nil, fmt.Errorf("units %q: %w", units, err)
	}
	u.first, u.clock, u.base = n, clock, cal.date(n)
	return u, nil
}

// findUnit returns the unit with the given name in lower case.
//
// Source: netcdf-c ncdump, which also accepts other names with the same first letters;
// UDUNITS for h, d and the fractions of a second.
func findUnit(name string) (span, months int64, ok bool) {
	switch strings.TrimSuffix(name, "s") {
	case "", "sec", "second":
		return second, 0, true
	case "n", "nsec", "nanosec", "nanosecond":
		return 1, 0, name != "n"
	case "u", "usec", "microsec", "microsecond":
		return 1000, 0, name != "u"
	case "m", "msec", "millisec", "millisecond":
		return 1000_000, 0, name != "m"
	case "min", "mn", "minute":
		return minute, 0, true
	case "h", "hr", "hour":
		return hour, 0, true
	case "d", "dy", "day":
		return day, 0, true
	case "wk", "week":
		return 7 * day, 0, true
	case "mo", "mon", "month":
		return 0, 1, true
	case "season":
		return 0, 3, true
	case "yr", "year":
		return 0, 12, true
	}
	return 0, 0, false
}

// parse parses a date, an optional time and an optional zone. It returns the number of
// the day in UTC and the nanoseconds since the start of that day. Missing parts are
// their first values or, if end is set, their last ones.
func (c calendar) parse(words []string, end bool) (n, clock int64, err error) {
	if at := strings.IndexAny(words[0], "Tt"); at >= 0 {
		words = append([]string{words[0][:at], words[0][at+1:]}, words[1:]...)
	}
	d, parts, ok := parseDate(words[0])
	if !ok || !c.valid(d) {
		return 0, 0, fmt.Errorf("%q is not a date in the calendar", words[0])
	}
	rest := strings.Join(words[1:], " ")
	at := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune("0123456789:.", r) })
	if at < 0 {
		at = len(rest)
	}
	clock, span, ok := parseClock(rest[:at])
	if !ok {
		return 0, 0, fmt.Errorf("%q is not a time", rest)
	}
	if end {
		clock += span - 1
		if span == day && parts < 2 {
			d.month = 12
		}
		if span == day && parts < 3 {
			d.day = c.monthLen(d.year, d.month)
		}
	}
	offset, ok := parseZone(strings.TrimSpace(rest[at:]))
	if !ok {
		return 0, 0, fmt.Errorf("%q is not a time zone", rest[at:])
	}
	clock -= offset
	return c.number(d) + div(clock, day), mod(clock, day), nil
}

// parseDate parses [-]year[-month[-day]]. It also returns the number of parts.
func parseDate(s string) (date, int, bool) {
	body := strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-")
	parts := strings.Split(body, "-")
	d := [3]int{0, 1, 1}
	if len(parts) > 3 {
		return date{}, 0, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil || i == 0 && (n > MaxYear || len(parts) == 1 && n > 99999) || // a longer number may be a date without dashes
			i > 0 && len(p) > 2 {
			return date{}, 0, false
		}
		d[i] = int(n)
	}
	if s[0] == '-' {
		d[0] = -d[0]
	}
	return date{int64(d[0]), d[1], d[2]}, len(parts), true
}

// parseClock parses hour[:minute[:second]]. The second may have decimals. The empty
// text is midnight. span is the length of the last part: an hour, a minute, a second, 1
// for decimals, or a day for the empty text.
func parseClock(s string) (total, span int64, ok bool) {
	if s == "" {
		return 0, day, true
	}
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return 0, 0, false
	}
	for i, p := range parts {
		whole, decimals, _ := strings.Cut(p, ".")
		n, err := strconv.ParseUint(whole, 10, 8)
		if err != nil || n >= []uint64{24, 60, 61}[i] || decimals != "" && i < 2 {
			return 0, 0, false
		}
		span = []int64{hour, minute, second}[i]
		total += int64(n) * span
		if decimals != "" {
			span = 1
		}
		if decimals = (decimals + "000000000")[:9]; strings.Trim(decimals, "0") != "" {
			frac, err := strconv.ParseUint(decimals, 10, 32)
			if err != nil {
				return 0, 0, false
			}
			total += int64(frac)
		}
	}
	return total, span, true
}

// parseZone returns the offset of a zone from UTC in nanoseconds, positive to the east.
func parseZone(s string) (int64, bool) {
	switch strings.ToUpper(s) {
	case "", "Z", "UTC", "GMT":
		return 0, true
	}
	if s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	h, m, colon := strings.Cut(s[1:], ":")
	if !colon && len(h) > 2 {
		h, m = h[:len(h)-2], h[len(h)-2:]
	}
	hours, err := strconv.ParseUint(h, 10, 8)
	minutes := uint64(0)
	if m != "" && err == nil {
		minutes, err = strconv.ParseUint(m, 10, 8)
	}
	if err != nil || hours > 15 || minutes > 59 {
		return 0, false
	}
	offset := int64(hours)*hour + int64(minutes)*minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// AppendInt appends the date of the number v: YYYY-MM-DD, then sep and HH:MM:SS.ffffff
// without trailing parts that are zero. If the date does not exist (its year exceeds
// MaxYear, or it is the 31st of a month of 30 days), AppendInt returns dst unchanged
// and false.
func (u *Units) AppendInt(dst []byte, v int64, sep byte) ([]byte, bool) {
	d, clock, ok := u.intMoment(v)
	return appendMoment(dst, d, clock, sep, ok)
}

// AppendFloat is like AppendInt for floating-point numbers. The dates are rounded to a
// microsecond, or more coarsely if v is less precise: adjacent floats near 100000.1 days
// differ by more than a microsecond. NaN and infinities have no date.
func (u *Units) AppendFloat(dst []byte, v float64, sep byte) ([]byte, bool) {
	d, clock, ok := u.floatMoment(v)
	return appendMoment(dst, d, clock, sep, ok)
}

func appendMoment(dst []byte, d date, clock int64, sep byte, ok bool) ([]byte, bool) {
	if !ok {
		return dst, false
	}
	return appendClock(appendDate(dst, d), clock, sep), true
}

// intMoment returns the day of the number v, and the nanoseconds since the start of
// that day.
func (u *Units) intMoment(v int64) (d date, clock int64, ok bool) {
	if u.months > 0 {
		return u.addMonths(float64(v))
	}
	mag := uint64(v)
	if v < 0 {
		mag = -mag
	}
	hi, lo := bits.Mul64(mag, uint64(u.span))
	if hi >= uint64(day) {
		return date{}, 0, false
	}
	q, r := bits.Div64(hi, lo, uint64(day))
	if q > 1<<40 {
		return date{}, 0, false
	}
	days, rest := int64(q), int64(r)
	if v < 0 {
		days, rest = -days, -rest
	}
	return u.moment(days, rest)
}

// floatMoment is like intMoment for floating-point numbers.
func (u *Units) floatMoment(v float64) (d date, clock int64, ok bool) {
	if u.months > 0 {
		return u.addMonths(v)
	}
	perDay := float64(day) / float64(u.span) // units per day; less than 1 for weeks
	if math.IsNaN(v) || math.Abs(v) > (1<<40)*math.Max(perDay, 1) {
		return date{}, 0, false
	}
	whole, frac := math.Modf(v)
	n := int64(whole)
	span, days := u.span, int64(0)
	if span > day {
		days, n = n*(span/day), 0
	} else {
		per := day / span
		days, n = n/per, n%per
	}
	grain := 1000.0
	for ulp := (math.Nextafter(math.Abs(v), math.Inf(1)) - math.Abs(v)) * float64(span); grain < ulp; {
		grain *= 10
	}
	return u.moment(days, n*span+int64(math.Round(frac*float64(u.span)/grain)*grain))
}

// moment returns the reference time plus the given number of days and rest nanoseconds.
func (u *Units) moment(days, rest int64) (d date, clock int64, ok bool) {
	rest += u.clock
	n := u.first + days + div(rest, day)
	if n > 367*MaxYear || n < -367*MaxYear {
		return date{}, 0, false
	}
	d = u.cal.date(n)
	return d, mod(rest, day), d.year <= MaxYear && d.year >= -MaxYear
}

// addMonths returns the moment v*u.months months after the reference time. It returns
// false if v*u.months is not an integer or the moment does not exist.
func (u *Units) addMonths(v float64) (d date, clock int64, ok bool) {
	total := v * float64(u.months)
	if whole := math.Round(total); math.Abs(total-whole) < 1e-9 {
		total = whole
	}
	if total != math.Trunc(total) || math.Abs(total) > 12*MaxYear {
		return date{}, 0, false
	}
	at := u.base.year*12 + int64(u.base.month-1) + int64(total)
	d = date{div(at, 12), int(mod(at, 12)) + 1, u.base.day}
	return d, u.clock, d.year <= MaxYear && d.year >= -MaxYear && u.cal.valid(d)
}

func appendDate(dst []byte, d date) []byte {
	if d.year < 0 {
		dst = append(dst, '-')
		d.year = -d.year
	}
	for limit := int64(1000); limit > d.year && limit > 1; limit /= 10 {
		dst = append(dst, '0')
	}
	dst = strconv.AppendInt(dst, d.year, 10)
	return appendTwo(append(appendTwo(append(dst, '-'), int64(d.month)), '-'), int64(d.day))
}

func appendTwo(dst []byte, n int64) []byte { return append(dst, byte('0'+n/10), byte('0'+n%10)) }

// appendClock appends the time of day without trailing parts that are zero.
func appendClock(dst []byte, nanos int64, sep byte) []byte {
	if nanos == 0 {
		return dst
	}
	dst = appendTwo(append(dst, sep), nanos/hour)
	if nanos %= hour; nanos == 0 {
		return dst
	}
	dst = appendTwo(append(dst, ':'), nanos/minute)
	if nanos %= minute; nanos == 0 {
		return dst
	}
	dst = appendTwo(append(dst, ':'), nanos/second)
	if nanos %= second; nanos == 0 {
		return dst
	}
	width, scale := 6, int64(1000)
	if nanos%1000 != 0 {
		width, scale = 9, 1
	}
	digits := strconv.FormatInt(nanos/scale, 10)
	dst = append(dst, '.')
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}
