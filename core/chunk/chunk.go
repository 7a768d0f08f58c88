// Package chunk implements the integer arithmetic of chunk grids: which chunks a
// selection overlaps, where the selected elements are inside each chunk and in the
// caller's array, and how chunk keys are encoded.
//
// It imports only core/ncerr. The packages core/zarr, core/manifest, core/array and
// core/dataset use it.
package chunk

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// MaxRank is the maximum number of dimensions.
//
// Source: netcdf-c include/netcdf.h, where NC_MAX_VAR_DIMS is 1024. The limit of NumPy is
// 64.
const MaxRank = 64

// A Selection is a hyperslab: for each dimension the first index, the number of indices
// and the step between them. A nil Stride means 1 in all dimensions.
//
// Source: the netCDF C interface, nc_get_vars.
type Selection struct {
	Start, Count, Stride []int64
}

// All returns a selection of all elements of shape.
func All(shape []int64) Selection {
	return Selection{Start: make([]int64, len(shape)), Count: append([]int64(nil), shape...)}
}

// Len returns the number of selected elements. It is 1 for rank 0.
func (s Selection) Len() int64 { return Product(s.Count) }

// step returns the stride of dimension d.
func (s Selection) step(d int) int64 {
	if s.Stride == nil {
		return 1
	}
	return s.Stride[d]
}

// Last returns the largest selected index in dimension d, or -1 if Count is 0.
func (s Selection) Last(d int) int64 {
	if s.Count[d] == 0 {
		return -1
	}
	return s.Start[d] + (s.Count[d]-1)*s.step(d)
}

// Check returns nil if s lies within shape. The error is ErrRange for an index outside
// shape, ErrInvalid for a different rank, a negative number or a stride below 1, and
// ErrLimit for too many elements. In a dimension of length 0, Count must be 0.
func (s Selection) Check(shape []int64) error {
	if len(s.Start) != len(shape) || len(s.Count) != len(shape) || s.Stride != nil && len(s.Stride) != len(shape) {
		return ncerr.Errorf(ncerr.ErrInvalid, "select", "", "Start, Count and Stride have %d, %d and %d entries, but the array has %d dimensions", len(s.Start), len(s.Count), len(s.Stride), len(shape))
	}
	total := int64(1)
	for d, n := range shape {
		start, count, step := s.Start[d], s.Count[d], s.step(d)
		switch {
		case start < 0 || count < 0 || step < 1:
			return ncerr.Errorf(ncerr.ErrInvalid, "select", "", "dimension %d: invalid start %d, count %d or stride %d", d, start, count, step)
		case start > n || count > 0 && (start == n || (count-1) > (n-1-start)/step):
			return ncerr.Errorf(ncerr.ErrRange, "select", "", "dimension %d: the selection with start %d, count %d and stride %d exceeds the length %d", d, start, count, step, n)
		}
		if count > 0 && total > math.MaxInt64/count {
			return ncerr.Errorf(ncerr.ErrLimit, "select", "", "the selection has more than the limit of %d elements", int64(math.MaxInt64))
		}
		total *= count
	}
	return nil
}

// GCD returns the greatest common divisor of two positive numbers.
func GCD(a, b int64) int64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// Product returns the number of elements of a shape: 0 if a length is 0 or negative,
// and math.MaxInt64 if the number is larger than that.
func Product(lengths []int64) int64 {
	n := int64(1)
	for _, k := range lengths {
		switch {
		case k <= 0:
			return 0
		case n > math.MaxInt64/k:
			n = math.MaxInt64
		default:
			n *= k
		}
	}
	return n
}
