package dataset

import "math"

// Constants for the default chunk shape.
//
// Source: netcdf-c include/netcdf.h and libhdf5/hdf5var.c.
const (
	defaultChunkBytes = 16 << 20  // target size of a chunk
	tooLarge          = 128 << 20 // not from netcdf-c: maximum size of a default chunk
	default1DBytes    = 4 << 10   // chunk size of a one-dimensional unlimited variable
	recordBytes       = 1 << 20   // not from netcdf-c: maximum size of a chunk of several records
)

// DefaultChunks returns the chunk shape that netCDF chooses for a variable of the given
// shape. Along unlimited dimensions the length is 1. Along other dimensions it is
// proportional to the length of the dimension, so that a chunk has about 16 MiB. A chunk
// has 4 KiB if the only dimension is unlimited. If there are several dimensions and all
// are unlimited, the chunk has the same length along each of them. elemSize is in bytes.
// Each length is at least 1. If netCDF's formula results in more than 128 MiB,
// DefaultChunks shortens the longest dimensions until the chunk has about 16 MiB.
//
// Source: netcdf-c nc4_find_default_chunksizes2.
func DefaultChunks(shape []int64, unlimited []bool, elemSize int) []int64 {
	chunks := make([]int64, len(shape))
	values, nUnlimited := 1.0, 0
	for i, n := range shape {
		if unlimited[i] {
			nUnlimited++
			chunks[i] = 1
		} else {
			values *= float64(max(1, n))
		}
	}
	size := float64(max(1, elemSize))
	switch {
	case len(shape) == 1 && nUnlimited == 1:
		chunks[0] = max(1, default1DBytes/int64(size))
		return chunks
	case nUnlimited == len(shape):
		each := int64(math.Pow(defaultChunkBytes/size, 1/float64(max(1, nUnlimited))))
		for i := range chunks {
			chunks[i] = max(1, each)
		}
		return chunks
	}
	part := math.Pow(defaultChunkBytes/(values*size), 1/float64(len(shape)-nUnlimited))
	for i, n := range shape {
		if !unlimited[i] {
			chunks[i] = evenLength(n, int64(min(part, 1)*float64(n)-.5))
			if part >= 1 {
				chunks[i] = max(1, n)
			}
		}
	}
	shrink(chunks, shape, size)
	return chunks
}

// shrink reduces chunks that are much larger than the target size to that size. Such
// chunks result from a combination of short and long dimensions, because a chunk has at
// least one index of each dimension.
func shrink(chunks, shape []int64, size float64) {
	for range chunks {
		bytes, longest := size, 0
		for i, n := range chunks {
			bytes *= float64(n)
			if n > chunks[longest] {
				longest = i
			}
		}
		if bytes <= tooLarge {
			return
		}
		chunks[longest] = evenLength(shape[longest], int64(float64(chunks[longest])*(defaultChunkBytes/bytes)))
	}
}

// extendToData extends default chunks along unlimited dimensions, the last dimension
// first, up to the current length while a chunk stays below recordBytes. netCDF's
// choice of one record per chunk would mean one object per record here.
func extendToData(chunks, shape []int64, unlimited []bool, elemSize int64) {
	bytes := max(1, elemSize)
	for _, n := range chunks {
		bytes *= n
	}
	for i := len(chunks) - 1; i >= 0; i-- {
		if !unlimited[i] || shape[i] <= chunks[i] || bytes >= recordBytes {
			continue
		}
		longer := min(shape[i], chunks[i]*(recordBytes/bytes))
		bytes = bytes / chunks[i] * longer
		chunks[i] = longer
	}
}

// evenLength reduces a chunk length so that the last chunk of a dimension of length n
// is nearly as full as the others.
func evenLength(n, size int64) int64 {
	size = max(1, min(size, n))
	count := (n + size - 1) / size
	if count == 0 {
		return 1
	}
	return max(1, size-(count*size-n)/count)
}
