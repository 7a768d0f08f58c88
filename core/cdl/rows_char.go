package cdl

// chars prints a slab of char. Each row is a string without trailing zero bytes. In an
// array of one dimension, a line feed also ends the output line, and the rest of the row
// is a new string. Unlike ncdump, chars does not split rows in arrays of more dimensions or
// after a trailing line feed: ncgen would not restore such arrays, because it pads each
// string to a row.
func (r *rows) chars(vals []byte) {
	last := r.rowLen() - 1
	for _, c := range vals {
		if r.column() == 0 {
			r.open()
			r.w.char('"')
			r.nul, r.brk = 0, false
		}
		if c == 0 {
			r.nul++
		} else {
			r.writePending()
			r.item = appendByte(r.item[:0], c, 0x7e)
			r.w.raw(r.item)
			r.brk = c == '\n' && len(r.shape) <= 1
		}
		if r.column() < last {
			r.at[len(r.at)-1]++
			continue
		}
		if r.nuls {
			r.writePending()
		}
		r.w.char('"')
		r.endRow(r.item[:0])
	}
}

// writePending writes a pending line break and pending zero bytes.
func (r *rows) writePending() {
	if r.brk {
		r.w.str("\",\n    \"")
		r.brk = false
	}
	for ; r.nul > 0; r.nul-- {
		r.w.str(`\000`)
	}
}
