package nczarr

import (
	"context"
	"math"
	"math/bits"
	"time"

	"github.com/seed-695719ce/nczarr/core/cdl/cftime"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Date is a moment in a CF calendar, to the nanosecond. Its fields are Year, Month, Day,
// Hour, Minute, Second and Nanosecond. String returns a string like 2000-01-31T12:00:00.
// Time returns the date as a time.Time in UTC, and false if the calendar differs from the
// calendar of package time at that date. Calendar returns the name of the calendar.
// Compare and Sub compare and subtract dates of one calendar. IsZero reports whether the
// date is the zero Date, which represents a missing value.
type Date = cftime.Date

// ReadTimes reads numbers as [ReadUnpacked] does and decodes them with the attributes
// units ("hours since 1900-01-01") and calendar of v. Integers are decoded exactly,
// floating-point numbers to the microsecond. Missing values become the zero Date.
//
// Errors: those of ReadUnpacked, [ErrInvalid] if units or calendar do not describe
// times, and [ErrConvert] for a number that is not a date.
//
// Source: CF conventions 1.11, section 4.4.
func ReadTimes(ctx context.Context, v *Var, selectors ...Selector) (Array[Date], error) {
	sel, err := v.pick(ctx, "read", selectors)
	if err != nil {
		return Array[Date]{}, err
	}
	a := Array[Date]{Shape: sel.shape, Dims: sel.dims}
	if a.Data, err = v.times(ctx, sel, false); err != nil {
		return Array[Date]{}, wrapError("read", v.Path(), err)
	}
	return a, nil
}

// units parses the attributes units and calendar of v. The error has no kind.
func (v *Var) units() (*cftime.Units, error) {
	return cftime.Parse(v.Attr("units").String(), v.Attr("calendar").String())
}

// times reads dates. If skip is set, numbers that are not dates become missing values.
func (v *Var) times(ctx context.Context, sel selection, skip bool) ([]Date, error) {
	u, err := v.units()
	if err != nil {
		return nil, ncerr.New(ErrInvalid, "", "", err)
	}
	p, err := v.packing()
	if err != nil {
		return nil, err
	}
	out, err := dataset.Allocate[Date](v.core, sel.Selection)
	if err != nil {
		return nil, err
	}
	decode := p.decoder(u)
	err = p.elements().read(ctx, v, sel, func(from int, list []stored) error {
		for i, x := range list {
			if x.missing || math.IsNaN(x.float) {
				continue
			}
			d, ok := decode(x)
			if !ok && !skip {
				return ncerr.Errorf(ErrConvert, "", "", "value %d is %v, which is not a date", from+i, x.float)
			}
			out[from+i] = d
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// decoder returns a function that converts stored numbers to dates. The conversion is
// exact for integers if the scale is a positive integer and the offset is 0.
func (p *packing) decoder(u *cftime.Units) func(x stored) (Date, bool) {
	scale, whole := int64(p.scale), p.offset == 0 && p.scale == math.Trunc(p.scale) && p.scale > 0 && p.scale < 1<<62
	if !whole || !p.integer() {
		return func(x stored) (Date, bool) { return u.DateFloat(p.apply(x.float)) }
	}
	return func(x stored) (Date, bool) {
		mag := uint64(x.int)
		if x.int < 0 {
			mag = -mag
		}
		hi, lo := bits.Mul64(mag, uint64(scale))
		if hi > 0 || lo > math.MaxInt64 || !x.whole {
			return Date{}, false
		}
		if x.int < 0 {
			return u.DateInt(-int64(lo))
		}
		return u.DateInt(int64(lo))
	}
}

// WriteTimes writes dates as numbers, encoded with the attributes units and calendar of
// v. A time.Time is first converted to UTC. A time.Time, or a [Date] of another
// calendar, becomes the date with the same fields in the calendar of v. The zero Date
// is stored as a missing value, as [WriteUnpacked] stores NaN.
//
// Errors: those of [WriteUnpacked], [ErrInvalid] if units or calendar do not describe
// times, [ErrConvert] for a date that does not exist in the calendar or that a variable
// of integers cannot represent, and [ErrUnsupported] if v has a scale_factor or
// add_offset.
func WriteTimes[T time.Time | Date](ctx context.Context, v *Var, dates []T, selectors ...Selector) error {
	sel, err := v.pick(ctx, "write", selectors)
	if err != nil {
		return err
	}
	u, err := v.units()
	if err != nil {
		return ncerr.New(ErrInvalid, "write", v.Path(), err)
	}
	p, err := v.packing()
	if err == nil && p.packed {
		err = ncerr.Errorf(ErrUnsupported, "write", v.Path(), "times cannot be packed with scale_factor or add_offset")
	}
	if err != nil {
		return wrapError("write", v.Path(), err)
	}
	numbers := make([]stored, len(dates))
	for i, t := range dates {
		if d, ok := any(t).(Date); ok && d.IsZero() {
			numbers[i].missing = true
			continue
		}
		d, ok := dateIn(u, any(t))
		var whole int64
		var frac float64
		if ok {
			whole, frac, ok = u.Number(d)
		}
		if !ok || p.integer() && frac != 0 {
			return ncerr.Errorf(ErrConvert, "write", v.Path(), "%v cannot be stored as %s with units %q", t, v.Type(), v.Attr("units"))
		}
		numbers[i] = stored{float: float64(whole) + frac, int: whole, whole: p.integer()}
	}
	return p.elements().write(ctx, v, sel, len(numbers), func(i int) stored { return numbers[i] })
}

// dateIn converts a time.Time, a Date or a string to a date in the calendar of u. It
// returns false if the calendar does not have the date.
func dateIn(u *cftime.Units, value any) (Date, bool) {
	switch t := value.(type) {
	case time.Time:
		return u.FromTime(t)
	case Date:
		return u.InCalendar(t)
	case string:
		d, err := u.ParseDate(t)
		return d, err == nil
	}
	return Date{}, false
}
