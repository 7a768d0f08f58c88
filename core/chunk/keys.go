package chunk

import (
	"strconv"
	"strings"
)

// Keys specifies how grid positions are encoded as chunk keys.
//
// Source: Zarr v2, "Chunks" and dimension_separator; Zarr v3, "Chunk key encoding".
type Keys struct {
	// Separator separates the numbers: '.' or '/'.
	Separator byte
	// Prefix selects the encoding "default" of Zarr v3: a key begins with "c" and the
	// separator, and the key of a scalar's chunk is "c" instead of "0".
	Prefix bool
	// Suffix is appended to each key. It is empty unless Prefix is set.
	//
	// Source: zarrs, "zarrs.default_suffix".
	Suffix string
}

// Append appends the key of the chunk at index to dst.
func (k Keys) Append(dst []byte, index []int64) []byte {
	if k.Prefix {
		dst = append(dst, 'c')
		if len(index) > 0 {
			dst = append(dst, k.Separator)
		}
	} else if len(index) == 0 {
		return append(dst, '0')
	}
	for d, i := range index {
		if d > 0 {
			dst = append(dst, k.Separator)
		}
		dst = strconv.AppendInt(dst, i, 10)
	}
	return append(dst, k.Suffix...)
}

// Parse returns the grid position that a key represents in a grid of the given rank, or
// nil if the key is not the key of a chunk.
func (k Keys) Parse(key string, rank int) []int64 {
	if rank == 0 {
		if key == string(k.Append(nil, nil)) {
			return []int64{}
		}
		return nil
	}
	key, ok := strings.CutSuffix(key, k.Suffix)
	if !ok {
		return nil
	}
	if k.Prefix {
		if len(key) < 2 || key[0] != 'c' || key[1] != k.Separator {
			return nil
		}
		key = key[2:]
	}
	index := make([]int64, rank)
	for d := range index {
		part, rest, more := strings.Cut(key, string(rune(k.Separator)))
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != part || more != (d < rank-1) {
			return nil
		}
		index[d], key = n, rest
	}
	return index
}

// Other returns the same encoding with the other separator.
func (k Keys) Other() Keys {
	if k.Separator == '/' {
		k.Separator = '.'
	} else {
		k.Separator = '/'
	}
	return k
}
