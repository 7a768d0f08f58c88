package nczarr

import (
	"context"
	"fmt"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Selector selects positions along one dimension: [At], [Span], [From] and [All] by
// position; [Nearest], [Exact] and [Between] by coordinate value.
type Selector interface {
	// pick returns the selected positions in dimension d of v, which has length n.
	pick(ctx context.Context, v *Var, d *dataset.Dim, n int64) (positions, error)
}

// positions describes count selected positions: start, start+step and so on. If drop is
// set, the dimension is not part of the result.
type positions struct {
	start, count, step int64
	drop               bool
}

type at int64

// At selects position i, counted from 0. The dimension is not part of the result.
func At(i int64) Selector { return at(i) }

func (i at) String() string { return fmt.Sprintf("At(%d)", int64(i)) }

func (i at) pick(context.Context, *Var, *dataset.Dim, int64) (positions, error) {
	if i < 0 {
		return positions{}, ncerr.Errorf(ErrRange, "", "", "%v: the position is negative", i)
	}
	return positions{start: int64(i), count: 1, step: 1, drop: true}, nil
}

// Range is a range of positions; see [Span] and [From].
type Range struct {
	start, stop, step int64
	open              bool // the range extends to the end
}

// Span selects the positions from start up to, but not including, stop. A write may
// extend beyond the end of an unlimited dimension, which then grows.
func Span(start, stop int64) Range { return Range{start: start, stop: stop, step: 1} }

// From selects the positions from start to the end.
func From(start int64) Range { return Range{start: start, step: 1, open: true} }

// By returns r with the given step: it selects every step-th position, starting with
// the first. step must be at least 1.
func (r Range) By(step int64) Range {
	r.step = step
	return r
}

// String returns r as an expression, such as Span(0, 10).By(2).
func (r Range) String() string {
	text := fmt.Sprintf("Span(%d, %d)", r.start, r.stop)
	if r.open {
		text = fmt.Sprintf("From(%d)", r.start)
	}
	if r.step != 1 {
		text += fmt.Sprintf(".By(%d)", r.step)
	}
	return text
}

func (r Range) pick(_ context.Context, _ *Var, _ *dataset.Dim, n int64) (positions, error) {
	switch {
	case r.start < 0:
		return positions{}, ncerr.Errorf(ErrRange, "", "", "%v: the first position is negative", r)
	case r.open && r.start > n:
		return positions{}, ncerr.Errorf(ErrRange, "", "", "%v: the first position is beyond the end of the dimension, which has length %d", r, n)
	case !r.open && r.stop < r.start:
		return positions{}, ncerr.Errorf(ErrRange, "", "", "%v: the second position is less than the first", r)
	case r.step < 1:
		return positions{}, ncerr.Errorf(ErrInvalid, "", "", "%v: the step must be at least 1", r)
	}
	if r.open {
		r.stop = n
	}
	return positions{start: r.start, count: (r.stop-r.start-1)/r.step + 1, step: r.step}.emptyIf(r.stop == r.start), nil
}

// emptyIf returns p without positions if empty is true, and otherwise p.
func (p positions) emptyIf(empty bool) positions {
	if empty {
		p.start, p.count = 0, 0
	}
	return p
}

type all int

// All selects every position. It is the default.
const All all = 0

func (all) pick(_ context.Context, _ *Var, _ *dataset.Dim, n int64) (positions, error) {
	return positions{count: n, step: 1}, nil
}

type along struct {
	dim string
	Selector
}

// Along applies s to the named dimension instead of the next one. dim is a name or a
// path. If v has several dimensions of that name, s applies to the first one without a
// selector.
func Along(dim string, s Selector) Selector { return along{dim, s} }

// selection is the result of applying selectors to a variable.
type selection struct {
	chunk.Selection
	shape    []int64  // of the result
	dims     []string // of the result
	dropLast bool     // the last dimension of the variable is not part of the result
}

// pick applies selectors to v.
func (v *Var) pick(ctx context.Context, op string, selectors []Selector) (selection, error) {
	sel, err := v.pickAll(ctx, selectors, op == "write")
	return sel, wrapError(op, v.Path(), err)
}

// pickAll implements pick. If grow is set, positions may be beyond the end of an
// unlimited dimension.
func (v *Var) pickAll(ctx context.Context, selectors []Selector, grow bool) (selection, error) {
	list, shape := v.core.Dims(), v.core.Shape()
	chosen := make([]Selector, len(list))
	next := 0
	for i, s := range selectors {
		d := next
		if a, ok := s.(along); ok {
			if d = freeDim(list, chosen, a.dim); d < 0 {
				return selection{}, noDim(v, a.dim)
			}
			s = a.Selector
		} else {
			next++
		}
		switch _, nested := s.(along); {
		case s == nil || nested:
			return selection{}, ncerr.Errorf(ErrInvalid, "", "", "selector %d is nil or a nested Along", i)
		case d >= len(list):
			return selection{}, ncerr.Errorf(ErrInvalid, "", "", "%d selectors for %d dimensions", len(selectors), len(list))
		case chosen[d] != nil:
			return selection{}, ncerr.Errorf(ErrInvalid, "", "", "two selectors for dimension %q", list[d].Name())
		}
		chosen[d] = s
	}
	sel := selection{Selection: chunk.Selection{Start: make([]int64, len(list)), Count: make([]int64, len(list)), Stride: make([]int64, len(list))}}
	for d, s := range chosen {
		if s == nil {
			s = All
		}
		p, err := s.pick(ctx, v, list[d], shape[d])
		if last := p.start + (p.count-1)*p.step; err == nil && p.count > 0 && last >= shape[d] && !(grow && list[d].Unlimited()) {
			err = ncerr.Errorf(ErrRange, "", "", "%v: position %d is outside the dimension, which has length %d", s, last, shape[d])
		}
		if err != nil {
			return selection{}, ncerr.Wrap("select along", list[d].Name(), err)
		}
		sel.Start[d], sel.Count[d], sel.Stride[d] = p.start, p.count, p.step
		if sel.dropLast = p.drop; !p.drop {
			sel.shape = append(sel.shape, p.count)
			sel.dims = append(sel.dims, list[d].Name())
		}
	}
	return sel, nil
}

// freeDim returns the index of the first dimension with that name and no selector. If
// all of them have selectors, it returns the first one. It returns -1 if no dimension
// has the name.
func freeDim(list []*dataset.Dim, chosen []Selector, name string) int {
	found := -1
	for i, d := range list {
		if d.Name() == name || d.Path() == name {
			if chosen[i] == nil {
				return i
			}
			if found < 0 {
				found = i
			}
		}
	}
	return found
}
