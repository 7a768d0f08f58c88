package cdl

import (
	"math"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/dtype"
)

// rows prints the values of one variable. The values arrive in row-major order in slabs
// of any size.
//
// A row holds the values along the last dimension and ends with a line break. A row
// longer than a line continues on the next line with deeper indentation. Unlimited
// dimensions except the first are enclosed in braces.
type rows struct {
	f      *formatter
	w      sink
	name   string
	indent int // indentation of the group
	shape  []int64
	braces []bool // per dimension: unlimited and not the first

	max   int // maximum column of values on a line
	notes Notes
	order IndexOrder
	dates *moments // prints values as dates; nil if not requested

	linep   int     // columns used on the current line
	at      []int64 // index of the next value
	fill    any     // value printed as _, or nil
	cformat *verb   // the format of C_format; nil if there is no such format
	keep    bool    // print empty strings as "" instead of NIL
	nuls    bool    // print zero bytes at the end of a char row
	nul     int64   // zero bytes of a char row not yet printed
	brk     bool    // a line feed was printed: the next byte starts a new string
	item    []byte  // reused memory
	parts   []part  // reused memory
	note    []byte  // reused memory
}

// begin prints the name, before the first value.
func (r *rows) begin() {
	r.w.char('\n')
	r.w.pad(r.indent)
	r.w.str(" " + escapeName(r.name))
	if len(r.shape) <= 1 {
		r.w.str(" = ")
		r.linep = len(r.name) + 4 + r.indent
	} else {
		r.w.str(" =\n  ")
		r.linep = 2 + r.indent
	}
}

// put writes an item that must not be split. It starts a new line if the item does not
// fit.
func (r *rows) put(item []byte) {
	if len(item)+r.linep > r.max && len(item) > 2 {
		r.w.char('\n')
		r.w.pad(r.indent)
		r.w.str("    ")
		r.linep = 4 + r.indent
	}
	r.w.raw(item)
	r.linep += len(item)
}

// rowLen returns the number of values in a row.
func (r *rows) rowLen() int64 {
	if len(r.shape) == 0 {
		return 1
	}
	return r.shape[len(r.shape)-1]
}

// column returns the index of the next value within its row.
func (r *rows) column() int64 {
	if len(r.at) == 0 {
		return 0
	}
	return r.at[len(r.at)-1]
}

// open writes the braces that open at the next value.
func (r *rows) open() {
	for d := 1; d < len(r.shape); d++ {
		if !r.braces[d] {
			continue
		}
		first := true
		for _, i := range r.at[d:] {
			first = first && i == 0
		}
		if first {
			r.put([]byte{'{'})
		}
	}
	if r.notes == NotesBrief && len(r.shape) > 1 {
		r.briefNote()
	}
}

// step advances to the next value. It returns the number of braces that close, and
// whether all values are printed.
func (r *rows) step() (closing int, done bool) {
	for d := len(r.shape) - 1; d >= 0; d-- {
		if r.at[d]++; r.at[d] < r.shape[d] {
			return closing, false
		}
		r.at[d] = 0
		if r.braces[d] {
			closing++
		}
	}
	return closing, true
}

// printValues prints a slab of any type except char.
func printValues[T any](r *rows, vals []T, one func(dst []byte, v T) []byte) {
	last := r.rowLen() - 1
	formatParts(r, vals, one, func() {
		col := r.column()
		if col == 0 {
			r.open()
		}
		if col == last {
			r.endRow(r.item)
			return
		}
		r.item = append(r.item, ", "...)
		if r.notes == NotesFull {
			r.item = r.appendFullNote(append(r.item, ' ', ' '))
			r.w.raw(r.item)
		} else {
			r.put(r.item)
		}
		r.at[len(r.at)-1]++
	})
}

// endRow writes the last item of a row, which may be empty, the closing braces and the
// delimiter.
func (r *rows) endRow(item []byte) {
	if r.notes == NotesFull {
		r.note = r.appendFullNote(r.note[:0]) // formatted before the index changes
	}
	closing, done := r.step()
	for range closing {
		item = append(item, '}')
	}
	switch {
	case r.notes == NotesFull:
		delimiter := byte(',')
		if done {
			delimiter = ';'
		}
		r.w.raw(append(item, delimiter, ' ', ' '))
		r.w.raw(r.note)
	case done:
		r.put(item)
		r.w.str(" ;\n")
	default:
		r.put(item)
		r.w.str(",\n  ")
		r.linep = r.indent + 2
	}
	r.item = item[:0]
}

// print prints one slab, a typed slice. []uint8 is char if nc is NCChar.
func (r *rows) print(nc dtype.NC, slab any) {
	switch v := slab.(type) {
	case []int8:
		printInts(r, v)
	case []int16:
		printInts(r, v)
	case []int32:
		printInts(r, v)
	case []int64:
		printInts(r, v)
	case []uint8:
		if nc == dtype.NCChar {
			r.chars(v)
		} else {
			printUints(r, v)
		}
	case []uint16:
		printUints(r, v)
	case []uint32:
		printUints(r, v)
	case []uint64:
		printUints(r, v)
	case []float32:
		r.floats(v)
	case []float64:
		r.doubles(v)
	case []string:
		r.strings(v)
	}
}

// fillOf returns the fill value. ok is false if the variable has no fill value of type
// T.
func fillOf[T any](r *rows) (fill T, ok bool) {
	if list, is := r.fill.([]T); is && len(list) == 1 {
		return list[0], true
	}
	return fill, false
}

func printInts[T int8 | int16 | int32 | int64](r *rows, vals []T) {
	fill, has := fillOf[T](r)
	printValues(r, vals, func(dst []byte, v T) []byte {
		if has && v == fill {
			return append(dst, '_')
		}
		if r.dates != nil {
			return r.dates.appendInt(dst, int64(v))
		}
		if r.cformat != nil {
			return r.cformat.appendInt(dst, int64(v))
		}
		return strconv.AppendInt(dst, int64(v), 10)
	})
}

func printUints[T uint8 | uint16 | uint32 | uint64](r *rows, vals []T) {
	fill, has := fillOf[T](r)
	printValues(r, vals, func(dst []byte, v T) []byte {
		if has && v == fill {
			return append(dst, '_')
		}
		if r.dates != nil {
			return r.dates.appendUint(dst, uint64(v))
		}
		if r.cformat != nil {
			return r.cformat.appendUint(dst, uint64(v))
		}
		return strconv.AppendUint(dst, uint64(v), 10)
	})
}

func (r *rows) floats(vals []float32) {
	fill, has := fillOf[float32](r)
	printValues(r, vals, func(dst []byte, v float32) []byte {
		if has && (math.Float32bits(v) == math.Float32bits(fill) || !r.f.exact && same32(v, fill)) {
			return append(dst, '_')
		}
		return r.float(dst, float64(v), 32)
	})
}

func (r *rows) doubles(vals []float64) {
	fill, has := fillOf[float64](r)
	printValues(r, vals, func(dst []byte, v float64) []byte {
		if has && (math.Float64bits(v) == math.Float64bits(fill) || !r.f.exact && same(v, fill, 0x1p-52)) {
			return append(dst, '_')
		}
		return r.float(dst, v, 64)
	})
}

// float prints one value as a date, in the format of C_format or in the default format.
func (r *rows) float(dst []byte, v float64, bits int) []byte {
	if r.dates != nil {
		return r.dates.appendFloat(dst, v, bits)
	}
	if r.cformat != nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return r.cformat.appendFloat(dst, v)
	}
	return r.f.appendFloat(dst, v, bits)
}

// strings prints strings. In a variable of fixed string length, an empty string cannot be
// distinguished from an absent one and is printed as NIL, as netcdf-c reads it.
func (r *rows) strings(vals []string) {
	fill, has := fillOf[string](r)
	text := func(dst []byte, v string) []byte {
		switch {
		case has && v == fill:
			return append(dst, '_')
		case v == "" && !r.keep:
			return append(dst, "NIL"...)
		}
		if !r.keep {
			v = strings.TrimRight(v, "\x00")
		}
		return appendText(dst, v)
	}
	for i := range vals {
		if r.w.err() != nil { // checked after each value, because a value may be long
			return
		}
		printValues(r, vals[i:i+1], text)
	}
}
