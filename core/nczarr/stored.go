package nczarr

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Stored describes how much of a variable is in the store.
type Stored struct {
	Chunks int64 // chunks in the store
	Grid   int64 // chunks of the whole shape; absent ones are fill
	Bytes  int64 // encoded size of the chunks in the store
	Raw    int64 // decoded size of all elements; 0 if they have variable length
}

// Stored lists the chunks of the variable and adds up their sizes. In a bucket
// that costs a request per 1,000 chunks. Fields of one structured array share
// its chunks. It fails with ncerr.ErrUnsupported if the store cannot list, and
// with ncerr.ErrMetadata if all chunks have keys of another dimension_separator.
func (v *Var) Stored(ctx context.Context) (Stored, error) {
	s, grid, other := Stored{Grid: 1}, v.grid(), ""
	for _, n := range grid {
		s.Grid *= n
	}
	if t, _ := v.stored(); !v.varies() {
		s.Raw = product(v.storedBounds()) * int64(t.Size)
	}
	prefix, m := v.key(), v.group.ds.m
	for e, err := range m.List(ctx, prefix, &driver.ListOptions{Recursive: true}) {
		if err != nil {
			return s, err
		}
		name := e.Key[len(prefix):]
		if !inGrid(name, grid, v.meta.Separator) {
			if other == "" && len(grid) > 1 && inGrid(name, grid, otherSeparator(v.meta.Separator)) {
				other = e.Key
			}
			continue
		}
		size := e.Info.Size
		if size < 0 {
			info, err := m.Stat(ctx, e.Key)
			if err != nil {
				return s, err
			}
			size = info.Size
		}
		s.Chunks++
		s.Bytes += size
	}
	if s.Chunks == 0 && other != "" {
		return s, ncerr.Wrap("list", v.Path(), wrongSeparator(v.meta.Separator, other))
	}
	return s, nil
}

// grid returns the number of chunks along each dimension.
func (v *Var) grid() []int64 {
	grid := slices.Clone(v.storedBounds())
	for d, n := range grid {
		grid[d] = (n + v.meta.Chunks[d] - 1) / v.meta.Chunks[d]
	}
	return grid
}

// storedBounds returns the shape of the array as it is stored now: that of a
// scalar need not be empty.
func (v *Var) storedBounds() []int64 {
	if v.meta.Scalar {
		return v.meta.Shape
	}
	return v.Shape()
}

// inGrid reports whether a key below an array is that of a chunk of a grid.
func inGrid(key string, grid []int64, separator byte) bool {
	if len(grid) == 0 {
		return key == "0"
	}
	for d, n := range grid {
		part, rest, more := strings.Cut(key, string(separator))
		if i, err := strconv.ParseInt(part, 10, 64); err != nil || i < 0 || i >= n || strconv.FormatInt(i, 10) != part || more != (d < len(grid)-1) {
			return false
		}
		key = rest
	}
	return true
}

// HasConsolidated reports whether consolidated metadata exists, used or not:
// see [Dataset.Consolidated].
func (d *Dataset) HasConsolidated(ctx context.Context) (bool, error) {
	if d.consolidated {
		return true, nil
	}
	return d.m.Exists(ctx, consolidatedKey)
}
