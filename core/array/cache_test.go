package array //nolint:testpackage // the test inspects the unexported fields of the cache

import (
	"fmt"
	"testing"
)

// keys returns the concatenated keys of c, the most recently used one first. It also
// checks that both directions of the list, the map and the sum of the sizes agree.
func keys(t *testing.T, c *Cache, chunks *cachedChunks) string {
	t.Helper()
	var forward, backward string
	n, bytes := 0, int64(0)
	for it := c.ring.next; it != &c.ring; it = it.next {
		forward += it.key
		bytes += it.charge()
		n++
		if chunks.items[it.key] != it {
			t.Errorf("chunk %q is not in the map", it.key)
		}
	}
	for it := c.ring.prev; it != &c.ring; it = it.prev {
		backward = it.key + backward
	}
	if backward != forward || n != len(chunks.items) || bytes != c.bytes || bytes > c.most {
		t.Errorf("the list has %q and %q, the map %d of %d chunks, the sum is %d of %d bytes, at most %d", forward, backward, len(chunks.items), n, c.bytes, bytes, c.most)
	}
	return forward
}

func TestCache(t *testing.T) {
	t.Parallel()
	c, chunks := NewCache(3*(itemBytes+1+10), nil), &cachedChunks{}
	add := func(key string, size int) []byte {
		return c.add(chunks, []byte(key), c.version(chunks), make([]byte, size))
	}
	for _, key := range []string{"a", "b", "c"} {
		if free := add(key, 10); free != nil {
			t.Errorf("adding %s returned %d bytes", key, len(free))
		}
	}
	c.done(c.find(chunks, []byte("a"))) // now b is the least recently used chunk
	if free := add("d", 10); len(free) != 10 {
		t.Errorf("the memory of the removed chunk was not returned: %d bytes", len(free))
	}
	if got := keys(t, c, chunks); got != "dac" {
		t.Errorf("the cache has %q, want %q", got, "dac")
	}
	if free := add("d", 10); len(free) != 10 || keys(t, c, chunks) != "dac" {
		t.Errorf("a chunk that the cache already had was added again: %q", keys(t, c, chunks))
	}
	if free := add("e", 900); len(free) != 900 || keys(t, c, chunks) != "dac" {
		t.Errorf("a chunk larger than the cache was added: %q", keys(t, c, chunks))
	}
	if c.find(chunks, []byte("b")) != nil {
		t.Error("a removed chunk was found")
	}
	if free := add("f", 500); free != nil {
		t.Errorf("memory of another size was returned: %d bytes", len(free))
	}
	if got := keys(t, c, chunks); got != "f" {
		t.Errorf("the cache has %q, want %q", got, "f")
	}
}

// TestCacheKeepsMemoryOfReaders checks that the memory of a chunk that is being read is not
// reused, even if the chunk is removed.
func TestCacheKeepsMemoryOfReaders(t *testing.T) {
	t.Parallel()
	c, chunks := NewCache(itemBytes+1+10, nil), &cachedChunks{}
	c.add(chunks, []byte("a"), 0, []byte("aaaaaaaaaa"))
	it := c.find(chunks, []byte("a"))
	if free := c.add(chunks, []byte("b"), 0, make([]byte, 10)); free != nil {
		t.Errorf("the memory of a chunk with a reader was returned: %q", free)
	}
	if c.done(it); string(it.data) != "aaaaaaaaaa" {
		t.Errorf("the reader found %q", it.data)
	}
	if got := keys(t, c, chunks); got != "b" {
		t.Errorf("the cache has %q, want %q", got, "b")
	}
}

// TestCacheRefusesOldChunks checks that a chunk that was read before or during a write is
// not added, because it may be older than the write, and that other arrays are not affected.
func TestCacheRefusesOldChunks(t *testing.T) {
	t.Parallel()
	c, chunks, other := NewCache(1000, nil), &cachedChunks{}, &cachedChunks{}
	add := func(chunks *cachedChunks, version uint64) bool {
		return c.add(chunks, fmt.Append(nil, "k"), version, make([]byte, 1)) == nil
	}
	before := c.version(chunks)
	if !add(chunks, before) {
		t.Error("a chunk was not added before the write")
	}
	c.beginWrite(chunks)
	during := c.version(chunks)
	if c.find(chunks, []byte("k")) != nil {
		t.Error("the write did not remove the chunk")
	}
	if add(chunks, during) {
		t.Error("a chunk was added during the write")
	}
	c.endWrite(chunks)
	if add(chunks, before) || add(chunks, during) {
		t.Error("a chunk that was read before or during the write was added after it")
	}
	if !add(other, c.version(other)) || !add(chunks, c.version(chunks)) {
		t.Error("a chunk that was read after the write was not added")
	}
	for _, x := range []*cachedChunks{chunks, other} {
		c.beginWrite(x)
		c.endWrite(x)
	}
	if c.bytes != 0 || c.ring.next != &c.ring {
		t.Errorf("%d bytes remain", c.bytes)
	}
}
