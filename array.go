package nczarr

import (
	"fmt"
	"slices"
)

// Array is a block of values with a shape. Data holds the values in C order: the last
// dimension varies fastest. The array and its slices belong to the caller.
type Array[T any] struct {
	Data  []T
	Shape []int64  // lengths of the dimensions; empty for a single value
	Dims  []string // names of the dimensions, one per length
}

// Index returns the index in Data of the element at the given position, one number per
// dimension. It panics if a number is out of range.
func (a Array[T]) Index(index ...int64) int {
	if len(index) != len(a.Shape) {
		panic(fmt.Sprintf("nczarr: %d indexes for %d dimensions", len(index), len(a.Shape)))
	}
	at := int64(0)
	for d, i := range index {
		if i < 0 || i >= a.Shape[d] {
			panic(fmt.Sprintf("nczarr: index %d is out of range of dimension %d with length %d", i, d, a.Shape[d]))
		}
		at = at*a.Shape[d] + i
	}
	return int(at)
}

// At returns the element at the given position, one number per dimension. Without
// arguments it returns the only element of an array without dimensions. It panics for the
// same arguments as [Array.Index].
func (a Array[T]) At(index ...int64) T { return a.Data[a.Index(index...)] }

// Sub returns element i of the first dimension: an array with one dimension less. Its
// Data shares memory with the Data of a; its Shape and Dims do not. It panics if i is out
// of range or if a has no dimensions.
func (a Array[T]) Sub(i int64) Array[T] {
	if len(a.Shape) == 0 || i < 0 || i >= a.Shape[0] {
		panic(fmt.Sprintf("nczarr: index %d is out of range of an array with shape %v", i, a.Shape))
	}
	n := int64(len(a.Data)) / a.Shape[0]
	return Array[T]{Data: a.Data[i*n : (i+1)*n : (i+1)*n], Shape: slices.Clone(a.Shape[1:]), Dims: slices.Clone(a.Dims[1:])}
}
