package nczarr

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Value is a coordinate value: a number, or a time. A time is a time.Time, a [Date] or
// a string such as "2000-01-31 12:00". If parts after the year are omitted, the string
// means the first instant of the period: "2000-02" is the start of February. As the
// upper bound of [Between], the string means the last instant. With [Exact], a string
// may also be a value of a coordinate of strings.
type Value interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | float32 | float64 | string | time.Time | Date
}

// Nearest selects the position whose coordinate is nearest to value. If two coordinates
// are equally distant, it selects the first. The dimension is not part of the result.
// Missing coordinates (see [ReadUnpacked]) are skipped. A value outside the range of the
// coordinates selects the closest one.
//
// The coordinate is the variable that [Var.Coordinate] returns. Its values are
// unpacked, and decoded as times if value is a time or a string. Errors: [ErrNoVar] if
// the coordinate variable does not exist, [ErrRange] if it has no values, [ErrBadType]
// for a value of the wrong kind, [ErrInvalid] for a date that does not exist in its
// calendar.
func Nearest[T Value](value T) Selector { return search{nearest, []any{value}} }

// Exact selects the first position whose coordinate equals value, compared in the type
// of the coordinate, so that 0.1 equals the float32 nearest to 0.1. Computed and packed
// coordinates seldom equal a given value; use [Nearest] for them. The dimension is not
// part of the result. Errors: [ErrRange] if no coordinate equals value, and those of
// Nearest.
func Exact[T Value](value T) Selector { return search{equal, []any{value}} }

// Between selects the positions whose coordinates are at least low and at most high.
// The selection may be empty. If high is a string, the selection includes the whole
// year, month, day, hour, minute or second that high specifies: Between("2000-02",
// "2000-02") selects February, and Between("2000-02-10", "2000-02-20 12:00") includes
// the whole minute that starts at 12:00. Coordinates may ascend or descend, and the
// result has the same order. Missing coordinates are allowed only at the end. Errors:
// [ErrInvalid] if low is greater than high or the coordinate is not monotonic, and
// those of [Nearest].
func Between[T Value](low, high T) Selector { return search{between, []any{low, high}} }

type searchKind uint8

const (
	nearest searchKind = iota
	equal
	between
)

type search struct {
	kind   searchKind
	values []any
}

func (s search) String() string {
	var values []string
	for _, value := range s.values {
		switch v := value.(type) {
		case string:
			value = strconv.Quote(v)
		case time.Time:
			value = v.Format(time.RFC3339Nano)
		case Date:
			if v.IsZero() {
				value = "Date{}"
			}
		}
		values = append(values, fmt.Sprint(value))
	}
	return fmt.Sprintf("%s(%s)", [...]string{"Nearest", "Exact", "Between"}[s.kind], strings.Join(values, ", "))
}

// block is the number of coordinates read at a time.
const block = 1 << 18

func (s search) pick(ctx context.Context, v *Var, d *dataset.Dim, n int64) (positions, error) {
	c, err := v.Coordinate(d.Path())
	if err != nil {
		return positions{}, err
	}
	found := positions{step: 1, drop: s.kind != between}
	if c.Type() == String {
		err = s.findText(ctx, c, n, &found)
	} else {
		err = s.findPoints(ctx, c, n, &found)
	}
	if err == nil && found.drop && found.count == 0 {
		err = ncerr.Errorf(ErrRange, "", "", "no value of %q matches %v", c.Path(), s)
	}
	return found, err
}

// findText sets found to the first of the n strings of c that equals the wanted one.
func (s search) findText(ctx context.Context, c *Var, n int64, found *positions) error {
	wanted, ok := s.values[0].(string)
	if !ok || s.kind != equal {
		return ncerr.Errorf(ErrBadType, "", "", "the values of %q are strings: use Exact with a string instead of %v", c.Path(), s)
	}
	for from := int64(0); from < n && found.count == 0; from += block {
		labels, err := Read[string](ctx, c, Span(from, min(from+block, n)))
		if err != nil {
			return err
		}
		if i := slices.Index(labels.Data, wanted); i >= 0 {
			found.start, found.count = from+int64(i), 1
		} else if n <= block {
			return ncerr.Errorf(ErrRange, "", "", "no value of %q equals %q%s", c.Path(), wanted, ncerr.DidYouMean(wanted, labels.Data))
		}
	}
	return nil
}

// findPoints sets found to the positions of the matching values among the n values of c.
func (s search) findPoints(ctx context.Context, c *Var, n int64, found *positions) error {
	wanted, read, err := s.reader(c)
	if err != nil {
		return err
	}
	var last point     // the previous point
	var ends [2]*bound // the nearest point at or below the wanted one, and the nearest above
	order, ended := 0, false
	if s.kind == between && wanted[0].compare(wanted[1]) > 0 {
		return ncerr.Errorf(ErrInvalid, "", "", "%v: the first value is greater than the second", s)
	}
	for from := int64(0); from < n; from += block {
		sel, err := c.pick(ctx, "read", []Selector{Span(from, min(from+block, n))})
		if err != nil {
			return err
		}
		points, err := read(ctx, sel)
		if err != nil {
			return err
		}
		for k, p := range points {
			i := from + int64(k)
			if s.kind != between {
				side := p.compare(wanted[0])
				if p.missing || s.kind == equal && side != 0 {
					continue
				}
				if end := &ends[max(side, 0)]; *end == nil || p.compare((*end).point)*cmp.Or(side, -1) < 0 {
					*end = &bound{p, i}
				}
				continue
			}
			if p.missing {
				ended = true // the remaining coordinates are not written yet
				continue
			}
			turn := 0
			if i > 0 {
				turn = p.compare(last)
			}
			if ended || turn*order < 0 {
				return ncerr.Errorf(ErrInvalid, "", "", "the values of %q are not monotonic, or a missing value precedes another value", c.Path())
			}
			last, order = p, cmp.Or(order, turn)
			if p.compare(wanted[0]) >= 0 && p.compare(wanted[1]) <= 0 {
				if found.count == 0 {
					found.start = i
				}
				found.count++
			}
		}
	}
	if best := closer(ends[0], ends[1], wanted[0]); best != nil {
		found.start, found.count = best.at, 1
	}
	return nil
}

// bound is a point and its position.
type bound struct {
	point
	at int64
}

// closer returns the bound that is closer to p. If both are equally distant, it returns
// the one with the lower position. low and high may be nil.
func closer(low, high *bound, p point) *bound {
	switch {
	case low == nil:
		return high
	case high == nil:
		return low
	}
	side := cmp.Compare(low.distance(p), high.distance(p))
	if side < 0 || side == 0 && low.at < high.at {
		return low
	}
	return high
}

// point is an exact coordinate value or time: a whole number of units (of days for
// times) and the rest (nanoseconds for times).
type point struct {
	whole   int64
	over    uint64 // units beyond math.MaxInt64
	rest    float64
	day     bool // a time: whole counts days
	missing bool
}

// pointOf returns the point of a number. A number outside the ranges of int64 and uint64
// sorts before or after all numbers in these ranges.
func pointOf(x float64) point {
	switch {
	case math.IsNaN(x):
		return point{missing: true}
	case x >= 1<<64:
		return point{whole: math.MaxInt64, over: math.MaxUint64, rest: x}
	case x >= 1<<63:
		return pointOfUint(uint64(x))
	case x < -1<<63:
		return point{whole: math.MinInt64, rest: x}
	}
	whole, rest := math.Modf(x)
	return point{whole: int64(whole), rest: rest}
}

// pointOfUint returns the point of an unsigned integer.
func pointOfUint(x uint64) point {
	whole := min(x, math.MaxInt64)
	return point{whole: int64(whole), over: x - whole}
}

func (p point) compare(o point) int {
	return cmp.Or(cmp.Compare(p.whole, o.whole), cmp.Compare(p.over, o.over), cmp.Compare(p.rest, o.rest))
}

// distance returns the distance between two points.
func (p point) distance(o point) float64 {
	if p.compare(o) < 0 {
		p, o = o, p
	}
	if !p.isExact() || !o.isExact() {
		return p.approximate() - o.approximate()
	}
	apart := float64(uint64(p.whole)-uint64(o.whole)) + float64(p.over-o.over) // exact for small distances; large ones may be rounded
	if p.day {
		apart *= 24 * float64(time.Hour)
	}
	return apart + (p.rest - o.rest)
}

// isExact reports whether whole and over are exact, because the number is in the range
// of int64 or uint64.
func (p point) isExact() bool { return p.day || math.Abs(p.rest) < 1<<63 }

// approximate returns p as an approximate float64.
func (p point) approximate() float64 {
	if p.isExact() {
		return float64(p.whole) + float64(p.over) + p.rest
	}
	return p.rest
}

// reader returns the points to search for and a function that reads the points of c.
func (s search) reader(c *Var) (wanted []point, read func(context.Context, selection) ([]point, error), err error) {
	for _, value := range s.values {
		x, ok := toNumber(value, c)
		switch {
		case !ok: // both values have the same type
			return s.momentReader(c)
		case x.missing:
			return nil, nil, ncerr.Errorf(ErrInvalid, "", "", "%v: NaN is not a coordinate", s)
		}
		wanted = append(wanted, x)
	}
	p, err := c.packing()
	if err != nil {
		return nil, nil, err
	}
	return wanted, func(ctx context.Context, sel selection) ([]point, error) {
		points := make([]point, sel.Len())
		err := p.elements().read(ctx, c, sel, func(from int, list []stored) error {
			for i, x := range list {
				switch {
				case x.missing:
					points[from+i].missing = true
				case x.whole && !p.packed:
					points[from+i].whole = x.int
				case p.integer() && !p.packed: // beyond math.MaxInt64
					points[from+i] = pointOfUint(uint64(x.int))
				default:
					points[from+i] = pointOf(p.apply(x.float))
				}
			}
			return nil
		})
		return points, err
	}, nil
}

// toNumber returns the point of a number to search for in c. It returns false if value
// is not a number.
func toNumber(value any, c *Var) (point, bool) {
	n := reflect.ValueOf(value)
	switch {
	case n.CanInt():
		return point{whole: n.Int()}, true
	case n.CanUint():
		return pointOfUint(n.Uint()), true
	case !n.CanFloat():
		return point{}, false
	}
	x := n.Float()
	if c.Type() == Float32 {
		x = float64(float32(x))
	}
	return pointOf(x), true
}

// momentReader implements reader for times.
func (s search) momentReader(c *Var) (wanted []point, read func(context.Context, selection) ([]point, error), err error) {
	u, err := c.units()
	if err != nil {
		return nil, nil, ncerr.Errorf(ErrBadType, "", "", "%v: the values of %q are not times: %w", s, c.Path(), err)
	}
	epoch, err := u.ParseDate("1970-01-01")
	if err != nil {
		return nil, nil, ncerr.New(ncerr.ErrInternal, "", "", err)
	}
	moment := func(d Date) point {
		if d.IsZero() {
			return point{missing: true}
		}
		days, rest := d.Sub(epoch)
		return point{whole: days, rest: float64(rest), day: true}
	}
	for i, value := range s.values {
		d, ok := dateIn(u, value)
		if text, is := value.(string); ok && is && i > 0 { // the upper bound
			d, err = u.ParseEnd(text)
			ok = err == nil
		}
		if !ok {
			return nil, nil, ncerr.Errorf(ErrInvalid, "", "", "%v: the value is not a date in the calendar of %q, %s; use a form like 2000-01-31 or 2000-01-31 12:00", s, c.Path(), epoch.Calendar())
		}
		wanted = append(wanted, moment(d))
	}
	return wanted, func(ctx context.Context, sel selection) ([]point, error) {
		dates, err := c.times(ctx, sel, true)
		points := make([]point, len(dates))
		for i, d := range dates {
			points[i] = moment(d)
		}
		return points, err
	}, nil
}
