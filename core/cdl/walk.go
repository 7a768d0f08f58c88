package cdl

import "github.com/seed-695719ce/nczarr/core/ncerr"

// dataSink receives the values of a variable while they are parsed.
type dataSink interface {
	// begin starts a list of values. outer holds the index in each enclosing list; pos
	// is the position of the list.
	begin(outer []int64, pos Pos) error
	// value receives the next value. *v is valid only during the call.
	value(v *Value) error
	// end ends the list of values.
	end() error
	// list reports the end of a list of n lists of values. Level 0 is the outermost.
	list(level int, n int64)
}

// walker parses the values of a variable.
type walker struct {
	*parser
	v      *Var
	starts []int // first dimension of each block; see blocks
	sink   dataSink
}

// walk passes the values of v to sink.
func (f *File) walk(v *Var, sink dataSink) error {
	p, err := f.reread(v)
	if err != nil {
		return err
	}
	w := &walker{p, v, blocks(v), sink}
	return w.lists(0, nil)
}

// lists parses the list of a block. In the last block the items are values. In any other
// block they are lists of the next block.
func (w *walker) lists(level int, outer []int64) error {
	if level == len(w.starts)-1 {
		if err := w.sink.begin(outer, w.tok.pos); err != nil {
			return err
		}
		if err := w.values(0); err != nil {
			return err
		}
		return w.sink.end()
	}
	n := int64(0)
	for more := !w.is(";") && !w.is("}"); more; n++ {
		if !w.is("{") {
			return fail(ncerr.ErrInvalid, w.name, w.tok.pos, "the values along unlimited dimension %q, which is not the first, must be in braces", w.v.Dims[w.starts[level+1]].Path)
		}
		err := w.advance()
		if err == nil {
			err = w.lists(level+1, append(outer[:level:level], n))
		}
		if err == nil {
			err = w.expect("}")
		}
		if err == nil {
			more, err = w.accept(",")
		}
		if err != nil {
			return err
		}
	}
	w.sink.list(level, n)
	return nil
}

// values parses values; braces among them are ignored.
func (w *walker) values(depth int) error {
	if err := w.checkDepth(depth); err != nil || w.is(";") || w.is("}") {
		return err
	}
	for {
		if w.tok.kind == tokValue {
			err := w.sink.value(&w.tok.val)
			if err != nil {
				return err
			}
			_, more, err := w.skipPlain()
			if err != nil || !more {
				return err
			}
			continue
		}
		if err := w.item(depth); err != nil {
			return err
		}
		if more, err := w.accept(","); !more || err != nil {
			return err
		}
	}
}

func (w *walker) item(depth int) error {
	if w.is("{") {
		err := w.advance()
		if err == nil {
			err = w.values(depth + 1)
		}
		if err == nil {
			err = w.expect("}")
		}
		return err
	}
	val, err := w.parseValue(depth)
	if err != nil {
		return err
	}
	return w.sink.value(&val)
}
