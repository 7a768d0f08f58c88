package dtype

import (
	"strconv"
	"strings"
)

// timeUnits maps NumPy's units of fixed length to their CF names. It omits months and
// years, because UDUNITS derives their lengths from a mean year.
//
// Source: NumPy, "Datetimes and timedeltas"; CF, "Time coordinate".
var timeUnits = map[string]string{
	"D": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds",
	"ns": "nanoseconds", "ps": "picoseconds", "fs": "femtoseconds", "as": "attoseconds",
}

// TimeUnit returns the unit of a Datetime or Timedelta as a count and a name, such as 10
// and "milliseconds" for "M8[10ms]". A week is 7 "days", because more programs accept
// days. Months and years vary in length, so their units are "calendar months" and
// "calendar years", which other programs do not interpret as units of time. ok is false
// for other types and for the generic unit.
func (t Type) TimeUnit() (count int64, unit string, ok bool) {
	if t.Kind != Datetime && t.Kind != Timedelta {
		return 0, "", false
	}
	code := strings.TrimLeft(t.Unit, "0123456789")
	count = 1
	if digits := t.Unit[:len(t.Unit)-len(code)]; digits != "" {
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 1 {
			return 0, "", false
		}
		count = n
	}
	switch code {
	case "W":
		return 7 * count, "days", true
	case "M":
		return count, "calendar months", true
	case "Y":
		return count, "calendar years", true
	}
	unit, ok = timeUnits[code]
	return count, unit, ok
}
