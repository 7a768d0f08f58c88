package nczarr_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/seed-695719ce/nczarr"
)

// TestInts writes and reads array values and attributes of type int.
func TestInts(t *testing.T) {
	t.Parallel()
	v := newVar(t, nczarr.VarSpec{Type: nczarr.Int16}, 1, -2, 3)
	if err := nczarr.Write(t.Context(), v, []int{4, -5}, nczarr.From(1)); err != nil {
		t.Fatal(err)
	}
	if err := nczarr.Write(t.Context(), v, []int{0, math.MaxInt16 + 1}, nczarr.From(1)); !errors.Is(err, nczarr.ErrConvert) {
		t.Errorf("write: want ErrConvert, got %v", err)
	}
	a, err := nczarr.Read[int](t.Context(), v)
	if want := "[1 4 -5]"; err != nil || fmt.Sprint(a.Data) != want {
		t.Errorf("want %s, got %v, %v", want, a.Data, err)
	}
	into := []int{7, 7, 7, 7}
	if _, err := nczarr.ReadInto(t.Context(), v, into); err != nil || fmt.Sprint(into) != "[1 4 -5 7]" {
		t.Errorf("ReadInto: want [1 4 -5 7], got %v, %v", into, err)
	}
	if empty, err := nczarr.Read[int](t.Context(), v, nczarr.Span(1, 1)); err != nil || len(empty.Data) != 0 {
		t.Errorf("empty selection: got %v, %v", empty, err)
	}
	check(nczarr.Write(t.Context(), v, []int{}, nczarr.Span(1, 1)))
	beyond := newVar(t, nczarr.VarSpec{Type: nczarr.Uint64}, uint64(math.MaxUint64))
	if _, err := nczarr.Read[int](t.Context(), beyond); !errors.Is(err, nczarr.ErrConvert) {
		t.Errorf("a number beyond int64: want ErrConvert, got %v", err)
	}
	text := newVar(t, nczarr.VarSpec{Type: nczarr.String}, "a")
	if _, err := nczarr.Read[int](t.Context(), text); !errors.Is(err, nczarr.ErrBadType) {
		t.Errorf("text: want ErrBadType, got %v", err)
	}
	check(v.SetAttr("list", []int{1, 2}))
	if got, ok := v.Attr("list").Value.([]int64); !ok || fmt.Sprint(got) != "[1 2]" {
		t.Errorf("want []int64{1, 2}, got %v", v.Attr("list").Value)
	}
}

// TestCoordinateNumberTypes searches with a value of every number type.
func TestCoordinateNumberTypes(t *testing.T) {
	t.Parallel()
	v := newVar(t, nczarr.VarSpec{Type: nczarr.Int16}, 1, 2, 3)
	for _, s := range []nczarr.Selector{
		nczarr.Exact(2), nczarr.Exact(int8(2)), nczarr.Exact(int16(2)), nczarr.Exact(int32(2)), nczarr.Exact(int64(2)),
		nczarr.Exact(uint(2)), nczarr.Exact(uint8(2)), nczarr.Exact(uint16(2)), nczarr.Exact(uint32(2)), nczarr.Exact(uint64(2)),
		nczarr.Exact(float32(2)), nczarr.Exact(2.0), nczarr.Between(int16(2), int16(2)), nczarr.Nearest(uint8(2)),
	} {
		if got := positionsOf(t.Context(), v, s); got != "[1]" {
			t.Errorf("%v: want [1], got %s", s, got)
		}
	}
	// Numbers beyond 2^63 are compared without loss.
	const half = uint64(1) << 63
	big := newVar(t, nczarr.VarSpec{Type: nczarr.Uint64}, 0, half-2, half-1, half, half+1, math.MaxUint64-2)
	for _, c := range []struct {
		s    nczarr.Selector
		want string
	}{
		{nczarr.Exact(half + 1), "[4]"},
		{nczarr.Exact(half), "[3]"},
		{nczarr.Exact(float64(half)), "[3]"},
		{nczarr.Exact(int64(math.MaxInt64)), "[2]"},
		{nczarr.Exact(uint64(math.MaxUint64)), "outside the bounds"},
		{nczarr.Nearest(uint64(math.MaxUint64)), "[5]"},
		{nczarr.Nearest(half + 2), "[4]"},
		{nczarr.Nearest(1e30), "[5]"},
		{nczarr.Nearest(-5), "[0]"},
		{nczarr.Between(half-1, half+1), "[2 3 4]"},
	} {
		if got := positionsOf(t.Context(), big, c.s); got != c.want {
			t.Errorf("%v: want %s, got %s", c.s, c.want, got)
		}
	}
}
