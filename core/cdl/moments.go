package cdl

import (
	"strings"

	"github.com/seed-695719ce/nczarr/core/cdl/cftime"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Times selects how the values of time variables are printed.
type Times uint8

// The forms of times.
const (
	TimesNumbers Times = iota // numbers as stored
	TimesBlank                // "2000-01-01 06:30" (ncdump -t)
	TimesISO                  // "2000-01-01T06:30" (ncdump -i)
)

// moments prints numbers as dates in quotes. A number that is not a date is printed as
// a number.
type moments struct {
	units *cftime.Units
	f     *formatter
	sep   byte
}

// moments returns a printer of dates for the values and attributes of v. It returns nil if
// v has no unit of time or the options do not request dates.
func (p *printer) moments(v *dataset.Var) *moments {
	if p.opts.Times == TimesNumbers || v.Type() == dtype.NCChar || v.Type() == dtype.NCString {
		return nil
	}
	units, ok := textOf(v, "units")
	calendar, _ := textOf(v, "calendar")
	if !ok {
		return nil
	}
	parsed, err := cftime.Parse(units, calendar)
	if err != nil {
		return nil // most variables are not times
	}
	m := &moments{units: parsed, f: &p.f, sep: ' '}
	if p.opts.Times == TimesISO {
		m.sep = 'T'
	}
	return m
}

// valueMoments is like moments, but only for the values of v. If v holds the bounds of a
// time variable, valueMoments uses the units of that variable.
//
// Source: CF conventions 1.11, section 7.1, "Cell Boundaries".
func (p *printer) valueMoments(v *dataset.Var) *moments {
	if m := p.moments(v); m != nil || p.opts.Times == TimesNumbers {
		return m
	}
	for g := v.Group(); g != nil; g = g.Parent() {
		for _, owner := range g.Vars() {
			if name, ok := textOf(owner, "bounds"); ok && strings.TrimSpace(name) == v.Name() && boundsOf(owner, name) == v {
				return p.moments(owner)
			}
		}
	}
	return nil
}

// boundsOf returns the variable with the given name in the group of owner, or else in the
// nearest group above it that has one. It returns nil if no group has one.
func boundsOf(owner *dataset.Var, name string) *dataset.Var {
	for g := owner.Group(); g != nil; g = g.Parent() {
		if v, err := g.Var(strings.TrimSpace(name)); err == nil {
			return v
		}
	}
	return nil
}

// textOf returns the value of an attribute that is a single string.
func textOf(v *dataset.Var, name string) (string, bool) {
	a, err := v.Attr(name)
	if err != nil {
		return "", false
	}
	switch text := a.Value.(type) {
	case string:
		return strings.TrimRight(text, "\x00"), true
	case []string:
		if len(text) == 1 {
			return text[0], true
		}
	}
	return "", false
}

func (m *moments) appendInt(dst []byte, v int64) []byte {
	start := len(dst)
	if dst, ok := m.units.AppendInt(append(dst, '"'), v, m.sep); ok {
		return append(dst, '"')
	}
	return appendInts(dst[:start], []int64{v}, "")
}

func (m *moments) appendUint(dst []byte, v uint64) []byte {
	if int64(v) >= 0 {
		return m.appendInt(dst, int64(v))
	}
	return appendUints(dst, []uint64{v}, "")
}

func (m *moments) appendFloat(dst []byte, v float64, bits int) []byte {
	start := len(dst)
	if dst, ok := m.units.AppendFloat(append(dst, '"'), v, m.sep); ok {
		return append(dst, '"')
	}
	return m.f.appendFloat(dst[:start], v, bits)
}

// attrMoments prints the values of a numeric attribute as dates, in a comment after the values.
// One or two dates are printed on the same line, and more dates on separate lines.
//
// Source: netcdf-c ncdump, option -t.
func (p *printer) attrMoments(m *moments, a dataset.Attr, indent int) {
	const first = 16 + 2 // two tabs and two spaces
	n := dtype.Len(a.Value)
	if a.Type == dtype.NCChar || a.Type == dtype.NCString {
		return
	}
	line := 0
	for i := range n {
		item := m.appendNth(nil, a.Value, i)
		if i < n-1 {
			item = append(item, ',')
		}
		line += 1 + len(item)
		wrap := n > 2 && (i == 0 || line > p.opts.lineMax()+2)
		if wrap {
			p.w.char('\n')
			p.w.pad(indent)
			p.w.str("\t\t  ")
			line = first + len(item)
		} else {
			p.w.char(' ')
		}
		if i == 0 || wrap {
			p.w.str("// ")
			line += 3
		}
		p.w.raw(item)
	}
}

// appendNth appends element i of a typed slice.
func (m *moments) appendNth(dst []byte, value any, i int) []byte {
	switch v := value.(type) {
	case []int8:
		return m.appendInt(dst, int64(v[i]))
	case []int16:
		return m.appendInt(dst, int64(v[i]))
	case []int32:
		return m.appendInt(dst, int64(v[i]))
	case []int64:
		return m.appendInt(dst, v[i])
	case []uint8:
		return m.appendInt(dst, int64(v[i]))
	case []uint16:
		return m.appendInt(dst, int64(v[i]))
	case []uint32:
		return m.appendInt(dst, int64(v[i]))
	case []uint64:
		return m.appendUint(dst, v[i])
	case []float32:
		return m.appendFloat(dst, float64(v[i]), 32)
	case []float64:
		return m.appendFloat(dst, v[i], 64)
	}
	return dst
}
