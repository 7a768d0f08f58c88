// Package chunk is the integer arithmetic of chunk grids: which chunks a
// selection touches, where the wanted elements are inside each chunk and
// where they go in the caller's array, and what a chunk's key is called.
//
// It imports core/ncerr only. Above it are core/zarr, core/manifest and
// core/nczarr.
package chunk

import (
	"math"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// MaxRank is the ceiling on the number of dimensions.
// Source: netcdf-c include/netcdf.h, NC_MAX_VAR_DIMS is 1024; NumPy has 64.
const MaxRank = 64

// Selection is a hyperslab: for each dimension the first index, the number of
// indices and the step between them. Stride nil means all 1.
//
// Source: the netCDF C interface, nc_get_vars.
type Selection struct {
	Start, Count, Stride []int64
}

// All selects everything in shape.
func All(shape []int64) Selection {
	return Selection{Start: make([]int64, len(shape)), Count: append([]int64(nil), shape...)}
}

// Len is the number of selected elements; 1 for rank 0.
func (s Selection) Len() int64 { return Product(s.Count) }

// step is the stride of dimension d.
func (s Selection) step(d int) int64 {
	if s.Stride == nil {
		return 1
	}
	return s.Stride[d]
}

// Last is the largest index selected in dimension d, or -1 when Count is 0.
func (s Selection) Last(d int) int64 {
	if s.Count[d] == 0 {
		return -1
	}
	return s.Start[d] + (s.Count[d]-1)*s.step(d)
}

// Check reports whether s lies within shape: ErrRange for an index outside,
// ErrInvalid for a rank that differs, a negative number or a stride below 1.
// A dimension of length 0 can only be selected with Count 0.
func (s Selection) Check(shape []int64) error {
	if len(s.Start) != len(shape) || len(s.Count) != len(shape) || s.Stride != nil && len(s.Stride) != len(shape) {
		return ncerr.Errorf(ncerr.ErrInvalid, "select", "", "selection has %d dimensions, the array has %d", len(s.Start), len(shape))
	}
	total := int64(1)
	for d, n := range shape {
		start, count, step := s.Start[d], s.Count[d], s.step(d)
		switch {
		case start < 0 || count < 0 || step < 1:
			return ncerr.Errorf(ncerr.ErrInvalid, "select", "", "dimension %d: start %d, count %d, stride %d", d, start, count, step)
		case start > n || count > 0 && (start == n || (count-1) > (n-1-start)/step):
			return ncerr.Errorf(ncerr.ErrRange, "select", "", "dimension %d: start %d, count %d, stride %d of length %d", d, start, count, step, n)
		}
		if count > 0 && total > math.MaxInt64/count {
			return ncerr.Errorf(ncerr.ErrLimit, "select", "", "more than %d elements", int64(math.MaxInt64))
		}
		total *= count
	}
	return nil
}

// Product returns the number of elements of a shape: 0 if a length is 0 or negative,
// and math.MaxInt64 if there are more.
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
