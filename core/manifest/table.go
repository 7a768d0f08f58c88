package manifest

import (
	"context"
	"iter"
	"math"
	"sync"
	"unsafe"

	"golang.org/x/sync/semaphore"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Entry describes where the encoded bytes of one chunk of a [Table] are. The zero Entry is an
// absent chunk.
type Entry struct {
	// Ref refers to the object that contains the chunk. A [Resolver] interprets it. It is
	// empty if the chunk is in Inline or absent.
	Ref string
	// Offset and Length are the part of the object that contains the chunk, in bytes. A
	// Length of -1 means the whole object; Offset is then 0.
	Offset, Length int64
	// Inline, if not nil, is the chunk's encoded content.
	Inline []byte
	// Version, if not empty, is the version that the object must have.
	Version string
	// FilterMask has bit i set if codec i of the chain was not applied to this chunk.
	FilterMask uint32
	// Required is set if a missing object is an error rather than fill.
	Required bool
	// Err, if not nil, is the reason why the entry of the chunk is invalid.
	Err error
}

// Absent reports whether e is the entry of an absent chunk.
func (e *Entry) Absent() bool { return e.Ref == "" && e.Inline == nil && e.Err == nil }

// A Resolver finds the object that a reference of a dataset refers to. It decides which
// objects references may refer to. It is safe for concurrent use.
type Resolver interface {
	// Resolve returns the Map that holds the object, and the object's key in this Map. The
	// Resolver owns the Map. The error is ncerr.ErrPermission for a reference that is not
	// allowed, and ncerr.ErrBadURL or ncerr.ErrUnsupported for one that it cannot interpret.
	Resolve(ctx context.Context, ref string) (m *zmap.Map, key string, err error)
}

// Pages holds the entries of a chunk table, divided into pages of [PageSize] entries. The
// entries are numbered in C order of the grid. It is safe for concurrent use.
type Pages interface {
	// Page returns the entries of page n, which begin with number n*PageSize. Chunks without
	// an entry at the end of the page are absent. The caller must not change the result.
	Page(ctx context.Context, n int64) ([]Entry, error)
	// Next returns the number of the first page from n on that may have chunks, or -1 if no
	// such page exists.
	Next(ctx context.Context, n int64) (int64, error)
}

// PageSize is the number of entries in a page of a [Table].
const PageSize = 256

// Table is a Source of chunks that are listed in a table, such as the references of Kerchunk.
// It loads pages of the table on demand, one at a time, and caches them.
type Table struct {
	pages    Pages
	grid     []int64
	total    int64 // number of chunks in the grid
	err      error // why no chunk can be located
	resolver Resolver
	cache    *budget.Share       // limits the bytes of the cached pages
	limit    int64               // maximum bytes of one page
	room     *semaphore.Weighted // held while a page is loaded, so that at most one page is outside the cache

	mu         sync.Mutex
	kept       map[int64][]Entry
	size       int64 // size of the cached pages in bytes, which is counted in cache
	generation int   // counts the calls of Forget: a page requested before a call is not cached
}

var _ Source = (*Table)(nil)

// NewTable returns the Source of the chunks in pages. grid is the number of chunks along each
// dimension. The cached pages of all tables with the same cache take no more than its size. A
// page of more than limit bytes, including inline chunks, is an error. If the number of chunks
// in the grid overflows an int64, all methods fail with ncerr.ErrLimit.
func NewTable(pages Pages, grid []int64, resolver Resolver, cache *budget.Share, limit int64) *Table {
	t := &Table{
		pages: pages, grid: grid, total: 1, resolver: resolver, cache: cache, limit: limit,
		room: semaphore.NewWeighted(1), kept: make(map[int64][]Entry),
	}
	for _, n := range grid {
		if n > 0 && t.total > math.MaxInt64/n {
			t.err = ncerr.Errorf(ncerr.ErrLimit, "", "", "the number of chunks in a grid of shape %v overflows", grid)
			break
		}
		t.total *= n
	}
	return t
}

// Locate implements Source. The error is ncerr.ErrCorrupt for an invalid entry, ncerr.ErrLimit
// for a page that is too large, or an error of the Pages or the Resolver.
func (t *Table) Locate(ctx context.Context, indexes [][]int64, out []Location) error {
	ranges := make([]driver.Range, len(indexes))
	page, loaded := []Entry(nil), int64(-1)
	for i, index := range indexes {
		if len(index) > 0 && !Within(index, t.grid) { // the index of a scalar's chunk may be nil
			out[i] = Location{Absent: true}
			continue
		}
		number := t.number(index)
		if n := number / PageSize; n != loaded {
			var err error
			if page, err = t.page(ctx, n); err != nil {
				return err
			}
			loaded = n
		}
		e := &Entry{}
		if at := number % PageSize; at < int64(len(page)) {
			e = &page[at]
		}
		if err := e.locate(ctx, t.resolver, &ranges[i], &out[i]); err != nil {
			return entryError(index, err)
		}
	}
	return nil
}

// number returns the number of the chunk at a grid position in C order.
func (t *Table) number(index []int64) (n int64) {
	for d, i := range index {
		n = n*t.grid[d] + i
	}
	return n
}

// locate sets out to the location of the chunk. If the location has a range, locate stores it
// in r.
func (e *Entry) locate(ctx context.Context, resolver Resolver, r *driver.Range, out *Location) error {
	switch {
	case e.Err != nil:
		return e.Err
	case e.Absent():
		*out = Location{Absent: true}
		return nil
	case e.Ref != "" && e.Inline != nil:
		return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the entry has both a reference and inline content")
	case e.Inline != nil:
		*out = Location{Inline: e.Inline, FilterMask: e.FilterMask}
		return nil
	case e.Offset < 0 || e.Length < -1 || e.Length == -1 && e.Offset != 0 || e.Length > math.MaxInt64-e.Offset:
		return ncerr.Errorf(ncerr.ErrCorrupt, "", "", "a reference has offset %d and length %d", e.Offset, e.Length)
	}
	m, key, err := resolver.Resolve(ctx, e.Ref)
	if err != nil {
		return err
	}
	*out = Location{Map: m, Key: key, Version: e.Version, FilterMask: e.FilterMask, Required: e.Required}
	if e.Length >= 0 {
		*r = driver.Range{Offset: e.Offset, Length: e.Length}
		out.Range = r
	}
	return nil
}

// page returns the entries of page n. It loads them unless they are cached.
func (t *Table) page(ctx context.Context, n int64) ([]Entry, error) {
	if page, ok, _ := t.cached(n); ok || t.err != nil {
		return page, t.err
	}
	if err := t.room.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer t.room.Release(1)
	page, ok, generation := t.cached(n)
	if ok { // another call has loaded it
		return page, nil
	}
	page, err := t.pages.Page(ctx, n)
	if err != nil {
		return nil, err
	}
	size := int64(len(page)) * int64(unsafe.Sizeof(Entry{}))
	for i := range page {
		size += int64(len(page[i].Ref) + len(page[i].Inline) + len(page[i].Version))
	}
	if len(page) > PageSize || size > t.limit {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "a page of the chunk table has %d entries and %d bytes, but the limits are %d and %d", len(page), size, PageSize, t.limit)
	}
	t.keep(n, page, size, generation)
	return page, nil
}

// cached returns a page from the cache, whether it is there, and the current generation.
func (t *Table) cached(n int64) (page []Entry, ok bool, generation int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	page, ok = t.kept[n]
	return page, ok, t.generation
}

// keep caches a page if the cache has room for it. It drops all other pages of the table if
// that is necessary.
func (t *Table) keep(n int64, page []Entry, size int64, generation int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if size > t.cache.Size() || t.generation != generation {
		return
	}
	if t.cache.Free() < size {
		t.drop()
	}
	if t.cache.Free() < size { // other tables hold the rest
		return
	}
	t.kept[n] = page
	t.size += size
	t.cache.Add(size)
}

// drop removes all pages from the cache. The caller holds the mutex.
func (t *Table) drop() {
	clear(t.kept)
	t.cache.Add(-t.size)
	t.size = 0
}

// Chunks implements Source. It does not resolve references: the Key of a chunk is its
// reference, or empty. Chunks lists no chunks outside the grid of the table.
func (t *Table) Chunks(ctx context.Context, _ []int64) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		last := (t.total - 1) / PageSize // number of the last page
		for n := int64(0); t.total > 0 && n <= last; n++ {
			next, err := n, t.err
			if err == nil {
				next, err = t.pages.Next(ctx, n)
			}
			if err == nil && (next < n || next > last) {
				return
			}
			var page []Entry
			if n = next; err == nil {
				page, err = t.page(ctx, n)
			}
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			for i := range page {
				number := n*PageSize + int64(i)
				if number < t.total && !page[i].Absent() && !yield(t.chunk(number, &page[i]), nil) {
					return
				}
			}
		}
	}
}

// chunk describes the chunk with the given number.
func (t *Table) chunk(number int64, e *Entry) Chunk {
	c := Chunk{Index: make([]int64, len(t.grid)), Key: e.Ref, Size: max(e.Length, -1)}
	for d := len(t.grid) - 1; d >= 0; d-- {
		c.Index[d] = number % t.grid[d]
		number /= t.grid[d]
	}
	switch {
	case e.Inline != nil:
		c.Size = int64(len(e.Inline))
	case e.Err != nil:
		c.Size = -1
	}
	return c
}

// entryError returns the error for the entry of the chunk at a grid position.
func entryError(index []int64, err error) error {
	if ncerr.IsContext(err) {
		return err
	}
	return ncerr.Errorf(ncerr.KindOf(err), "", "", "chunk %v: %w", index, err)
}

// Forget implements Source. It drops all pages if all is set.
func (t *Table) Forget(all bool) {
	if !all {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop()
	t.generation++
}

// Found implements Source. It does nothing.
func (*Table) Found() {}

// CheckMissing implements Source. It does nothing, because the table lists all chunks.
func (*Table) CheckMissing(context.Context, [][]int64, []int64) error { return nil }

// SeparatorKnown implements Source.
func (*Table) SeparatorKnown() bool { return true }
