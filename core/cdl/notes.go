package cdl

import (
	"strconv"
)

// Notes selects which comments with indices are printed in the data.
type Notes uint8

// The kinds of notes.
const (
	NotesNone  Notes = iota
	NotesBrief       // the range of each row (ncdump -b)
	NotesFull        // every value on its own line, with its index (ncdump -f)
)

// IndexOrder selects how indices in notes are written.
type IndexOrder uint8

// The orders of indices.
const (
	IndexC       IndexOrder = iota // indices start at 0 and the last index varies fastest
	IndexFortran                   // indices start at 1 and the first index varies fastest
)

// briefNote writes a comment that describes the next row: its indices and the range of
// the last one.
func (r *rows) briefNote() {
	r.w.str("// " + escapeName(r.name) + "(")
	last := len(r.shape) - 1
	n := r.shape[last]
	if r.order == IndexC {
		for _, i := range r.at[:last] {
			r.w.printf("%d,", i)
		}
		if n == 1 {
			r.w.char('0')
		} else {
			r.w.printf(" 0-%d", n-1)
		}
	} else {
		if n == 1 {
			r.w.char('1')
		} else {
			r.w.printf("1-%d ", n)
		}
		for d := last - 1; d >= 0; d-- {
			r.w.printf(",%d", r.at[d]+1)
		}
	}
	r.w.str(")\n")
	r.w.pad(r.indent)
	r.w.str("    ")
	r.linep = 4 + r.indent
}

// appendFullNote appends a comment with the index of the value. A scalar has one index,
// as in ncdump. In Fortran order it is 1, where ncdump prints an undefined value.
func (r *rows) appendFullNote(dst []byte) []byte {
	dst = append(dst, "// "...)
	dst = append(append(dst, escapeName(r.name)...), '(')
	last := max(0, len(r.at)-1)
	if r.order == IndexC {
		for _, i := range r.at[:last] {
			dst = append(strconv.AppendInt(dst, i, 10), ',')
		}
		dst = strconv.AppendInt(dst, r.column(), 10)
	} else {
		dst = strconv.AppendInt(dst, r.column()+1, 10)
		for d := last - 1; d >= 0; d-- {
			dst = strconv.AppendInt(append(dst, ','), r.at[d]+1, 10)
		}
	}
	return append(dst, ")\n    "...)
}
