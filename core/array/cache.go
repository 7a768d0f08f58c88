package array

import (
	"encoding/binary"
	"sync"

	"github.com/seed-695719ce/nczarr/core/budget"
)

// Cache holds decoded chunks of the arrays of one dataset, so that reads of parts of a
// chunk decode it once. Only chunks that were read in part are added, because a chunk
// that was read as a whole is rarely read again. The least recently used chunks are
// removed first. A nil Cache is empty. A Cache is safe for concurrent use.
type Cache struct {
	mu    sync.Mutex
	most  int64 // maximum number of bytes
	share *budget.Share
	bytes int64     // sum of the charges of the chunks
	ring  cacheItem // list head: ring.next is the most recently used chunk
}

// cacheItem is a decoded chunk. The fields are guarded by Cache.mu, except that readers
// may read data.
type cacheItem struct {
	prev, next *cacheItem
	chunks     *cachedChunks
	key        string
	data       []byte
	readers    int // reads in progress, during which the memory of data is not reused
}

// cachedChunks holds the chunks of one array in a Cache. Its fields are guarded by
// Cache.mu.
type cachedChunks struct {
	items   map[string]*cacheItem
	writes  int    // writes in progress, during which no chunk is added
	version uint64 // incremented when a write begins and when it ends
}

// itemBytes is the number of bytes charged for each chunk in addition to its data and
// key. It covers the cacheItem and the map entry, and so limits the number of small
// chunks.
const itemBytes = 256

func (it *cacheItem) charge() int64 { return itemBytes + int64(len(it.key)) + int64(cap(it.data)) }

// NewCache returns a Cache for at most bytes bytes, or nil if bytes is not positive. Its
// chunks are counted in share, and it holds fewer if share is full.
func NewCache(bytes int64, share *budget.Share) *Cache {
	if bytes <= 0 {
		return nil
	}
	c := &Cache{most: min(bytes, share.Size()), share: share}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

// holds reports whether the cache has room for all chunks that t reads in part. Otherwise
// none of them is added. The next read often needs the same chunks in the same order, and
// the later ones would have displaced the earlier ones, and the chunks of other reads.
func (c *Cache) holds(t *transfer) bool {
	if c == nil {
		return false
	}
	room := c.most
	t.plan.Parts(t.shape, func(int64) bool {
		room -= t.elements * int64(max(t.a.meta.Stored.Size, 1))
		return room >= 0
	})
	return room >= 0
}

// cacheKey appends the key of the chunk at index to dst.
func cacheKey(dst []byte, index []int64) []byte {
	for _, n := range index {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	}
	return dst
}

// version returns the version of the chunks of an array. The caller later passes it to
// add.
func (c *Cache) version(chunks *cachedChunks) uint64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return chunks.version
}

// find returns the chunk with the given key, or nil. The caller calls done when it has
// read the data.
func (c *Cache) find(chunks *cachedChunks, key []byte) *cacheItem {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := chunks.items[string(key)]
	if it != nil {
		it.readers++
		c.unlink(it)
		c.link(it)
	}
	return it
}

// done ends a read of the item's data.
func (c *Cache) done(it *cacheItem) {
	c.mu.Lock()
	it.readers--
	c.mu.Unlock()
}

// add adds a chunk that was read while the chunks of its array had the given version. It
// does not add the chunk if the array was written since then. The cache owns data after
// the call. add returns memory of the same size that the caller may reuse, or nil.
func (c *Cache) add(chunks *cachedChunks, key []byte, version uint64, data []byte) (free []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it := &cacheItem{chunks: chunks, key: string(key), data: data}
	if chunks.writes > 0 || chunks.version != version || chunks.items[it.key] != nil || it.charge() > c.most {
		return data
	}
	for c.bytes+it.charge() > c.most || c.share.Free() < it.charge() {
		old := c.ring.prev
		if old == &c.ring { // other caches hold all of the share
			return data
		}
		if c.remove(old); old.readers == 0 && cap(old.data) == cap(data) {
			free = old.data
		}
	}
	c.bytes += it.charge()
	c.share.Add(it.charge())
	if chunks.items == nil {
		chunks.items = map[string]*cacheItem{}
	}
	chunks.items[it.key] = it
	c.link(it)
	return free
}

// beginWrite removes the chunks of an array. No chunk of the array is added until
// endWrite.
func (c *Cache) beginWrite(chunks *cachedChunks) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	chunks.writes++
	chunks.version++
	for _, it := range chunks.items {
		c.remove(it)
	}
}

func (c *Cache) endWrite(chunks *cachedChunks) {
	if c == nil {
		return
	}
	c.mu.Lock()
	chunks.writes--
	chunks.version++ // a read that began during the write may have old data
	c.mu.Unlock()
}

// remove removes an item from the cache. Readers of its data may continue.
func (c *Cache) remove(it *cacheItem) {
	c.unlink(it)
	delete(it.chunks.items, it.key)
	c.bytes -= it.charge()
	c.share.Add(-it.charge())
}

// link makes an item the most recently used one.
func (c *Cache) link(it *cacheItem) {
	it.prev, it.next = &c.ring, c.ring.next
	it.prev.next, it.next.prev = it, it
}

func (c *Cache) unlink(it *cacheItem) { it.prev.next, it.next.prev = it.next, it.prev }
