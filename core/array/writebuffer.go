package array

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
)

// WriteBuffer holds parts of chunks that were written but not stored yet, so that a chunk
// that is written row by row is encoded and stored once. The arrays of one dataset share
// it. A buffered chunk is stored when all its elements are written, when the buffer needs
// its memory for another chunk, before it is read, and by Flush. A chunk that cannot be
// stored stays in the buffer, and Flush returns the error. A nil WriteBuffer buffers nothing. A
// WriteBuffer is safe for concurrent use.
//
// A call claims the chunks that it stores, or replaces in the store. Other calls that need
// these chunks wait until they are released. The mutex is not held during requests.
type WriteBuffer struct {
	most   int64 // limit for bytes, which concurrent writes can exceed
	budget *budget.Budget

	mu     sync.Mutex
	least  int64            // maximum of Array.Memory of the arrays that have added chunks
	want   int64            // the same
	bytes  int64            // sum of the charges of the chunks
	chunks []*bufferedChunk // of all arrays
	random uint64           // state of the generator that selects chunks to store early
	held   chan struct{}    // not nil during a Flush, when nothing may be added; closed at its end
}

// buffered holds the chunks of one array in a WriteBuffer, whose mutex guards it.
type buffered struct {
	n      atomic.Int64 // length of chunks, for calls without the mutex
	chunks map[string]*bufferedChunk
	shape  []int64 // of the array, after the latest write
	closed bool
}

// bufferedChunk is a chunk of which a part was written. While the chunk is claimed, only
// the fields at, busy, wanted, stored and refused change. The call that stores the chunk
// sets stored and refused.
type bufferedChunk struct {
	array   *Array
	at      int // index in WriteBuffer.chunks
	key     string
	index   []int64
	start   []int64       // first element, in the array
	size    []int64       // shape of the chunk
	last    []int64       // largest indices in the array that may have been written
	data    []byte        // decoded chunk, in storage order
	written []byte        // for each element 1 if it was written, in the same order
	count   int64         // number of written elements
	busy    chan struct{} // not nil while the chunk is claimed; closed when it is released
	wanted  int           // number of calls that wait to claim it; makeRoom skips the chunk unless it is 0
	stored  bool          // the store contains the elements
	refused error         // why the chunk cannot be decoded or encoded
}

// NewWriteBuffer returns a WriteBuffer for at most most bytes, or nil if most is not
// positive. Concurrent writes can exceed most by the parts of chunks that they write. The
// buffer takes its memory from b, which must be the Env.Budget of its arrays.
func NewWriteBuffer(most int64, b *budget.Budget) *WriteBuffer {
	if most <= 0 {
		return nil
	}
	return &WriteBuffer{most: min(most, b.Buffer().Size()), budget: b, random: 1}
}

// reserve acquires the memory for storing chunks of a, and of all arrays in the buffer if all
// is set. It returns a context with that memory and a function that releases it. A call must
// hold this memory before it claims chunks, because a call that holds memory may wait for
// claimed chunks. The mutex is held after reserve has succeeded.
func (b *WriteBuffer) reserve(ctx context.Context, a *Array, all bool) (inner context.Context, done func(), err error) {
	from, have := budget.From(ctx, b.budget), int64(0)
	for {
		b.mu.Lock()
		least, want := int64(0), int64(0)
		if a != nil {
			least, want = a.Memory()
		}
		if all && (a != nil || len(b.chunks) > 0) {
			// A caller may have acquired the memory of from before chunks that need more were
			// added. If these chunks cannot be stored, its own write is not buffered.
			least, want = max(least, min(b.least, from.ForCalls())), max(want, b.want)
		}
		if have >= least {
			return budget.With(ctx, from.Part(have, 0)), func() { from.Release(have) }, nil
		}
		b.mu.Unlock()
		from.Release(have)
		if have, err = from.Acquire(ctx, least, want); err != nil {
			return nil, nil, err
		}
	}
}

// Memory returns the working memory in bytes for storing chunks of any array in the buffer,
// as [Array.Memory] does.
func (b *WriteBuffer) Memory() (least, want int64) {
	if b == nil {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.least, b.want
}

// wait releases the mutex until done is closed.
func (b *WriteBuffer) wait(ctx context.Context, done <-chan struct{}) error {
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unlocked calls f without the mutex, even if f panics.
func (b *WriteBuffer) unlocked(f func()) {
	b.mu.Unlock()
	defer b.mu.Lock()
	f()
}

// release ends the claim of chunks and removes those that remove selects. The caller
// holds the mutex.
func (b *WriteBuffer) release(chunks []*bufferedChunk, remove func(*bufferedChunk) bool) {
	for _, c := range chunks {
		if remove(c) {
			b.remove(c)
		}
		close(c.busy)
		c.busy = nil
	}
}

// storeAll stores each chunk once, or waits until another call has stored it. It returns
// the chunks that cannot be encoded or decoded, with the error of the first, and the
// error of the store, if any. The caller holds the mutex.
func (b *WriteBuffer) storeAll(ctx context.Context, chunks []*bufferedChunk) (refused []*bufferedChunk, first, err error) {
	var idle, busy []*bufferedChunk
	for _, c := range chunks {
		if c.busy == nil {
			c.busy = make(chan struct{})
			idle = append(idle, c)
		} else {
			busy = append(busy, c)
		}
	}
	store := func(list []*bufferedChunk) {
		err = b.store(ctx, list, true)
		for _, c := range list { // check before another call claims the chunk
			if c.refused != nil && b.has(c) {
				refused, first = append(refused, c), cmp.Or(first, c.refused)
			}
		}
	}
	store(idle)
	for _, c := range busy {
		for err == nil && c.busy != nil {
			c.wanted++
			err = b.wait(ctx, c.busy)
			c.wanted--
		}
		if err == nil && b.has(c) { // the other call could not store it
			c.busy = make(chan struct{})
			store([]*bufferedChunk{c})
		}
	}
	return refused, first, err
}

// Flush stores all buffered chunks and then calls the function then. Nothing is added to the
// buffer until that function returns. A chunk that cannot be stored stays in the buffer. If
// the reason is that the chunk cannot be decoded or encoded, Flush stores all other chunks and
// passes the error, which contains the chunk's key, as unstored. Flush returns any other
// error. beyond reports whether elements of a chunk that was not stored may be outside the
// lengths in the store: see [Env.Beyond].
func (b *WriteBuffer) Flush(ctx context.Context, then func(unstored error, beyond bool) error) error {
	if b == nil {
		return then(nil, false)
	}
	inner, done, err := b.reserve(ctx, nil, true)
	for err == nil && b.held != nil {
		done()
		err = b.wait(ctx, b.held)
		b.mu.Unlock()
		if err == nil {
			inner, done, err = b.reserve(ctx, nil, true)
		}
	}
	if err != nil {
		return err
	}
	defer b.mu.Unlock()
	b.held = make(chan struct{})
	defer func() {
		close(b.held)
		b.held = nil
	}()
	refused, first, err := b.storeAll(inner, slices.Clone(b.chunks))
	if done(); err != nil {
		return err
	}
	b.unlocked(func() {
		err = then(first, slices.ContainsFunc(refused, func(c *bufferedChunk) bool {
			return c.array.env.Beyond != nil && c.array.env.Beyond(c.last)
		}))
	})
	return err
}

// StoreBuffered stores all chunks of the array that are in Env.Buffer.
func (a *Array) StoreBuffered(ctx context.Context) error {
	return a.storeBuffered(ctx, a.buffered.all)
}

// storeOverlapping stores the chunks in Env.Buffer that a plan overlaps.
func (a *Array) storeOverlapping(ctx context.Context, plan *chunk.Plan) error {
	return a.storeBuffered(ctx, func() []*bufferedChunk { return a.buffered.overlapping(plan, nil) })
}

func (a *Array) storeBuffered(ctx context.Context, find func() []*bufferedChunk) error {
	b := a.env.Buffer
	if b == nil || a.buffered.n.Load() == 0 {
		return nil
	}
	inner, done, err := b.reserve(ctx, a, false)
	if err != nil {
		return err
	}
	defer b.mu.Unlock()
	defer done()
	_, first, err := b.storeAll(inner, find())
	return cmp.Or(err, first)
}

// drop discards the chunks of a. Later writes are not buffered.
func (b *WriteBuffer) drop(a *Array) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.buffered.closed = true
	for _, c := range a.buffered.all() {
		b.remove(c)
	}
}

// all returns the chunks in C order of the grid.
func (s *buffered) all() []*bufferedChunk {
	out := make([]*bufferedChunk, 0, len(s.chunks))
	for _, c := range s.chunks {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *bufferedChunk) int { return slices.Compare(a.index, b.index) })
	return out
}

// overlapping returns the chunks that a plan overlaps, in C order of the grid. only, if
// not nil, selects chunks of the plan.
func (s *buffered) overlapping(plan *chunk.Plan, only []bool) []*bufferedChunk {
	var out []*bufferedChunk
	if plan.Len() < int64(len(s.chunks)) {
		proj := make(chunk.Projection, plan.Rank())
		for i := range plan.Len() {
			if only != nil && !only[i] {
				continue
			}
			plan.At(i, proj)
			if c := s.chunks[projectionKey(proj)]; c != nil {
				out = append(out, c)
			}
		}
		return out
	}
	for _, c := range s.all() {
		if i, ok := plan.Number(c.index); ok && (only == nil || only[i]) {
			out = append(out, c)
		}
	}
	return out
}

func projectionKey(proj chunk.Projection) string {
	index := make([]int64, len(proj))
	for d, s := range proj {
		index[d] = s.Index
	}
	return string(cacheKey(nil, index))
}

// buffers reports whether the parts of chunks that t writes are buffered. It returns
// false if the array has shards or strings of variable length. It also returns false if a
// codec converts the elements, because the codec may refuse a value, and earlier writes
// to the same chunk would then be lost as well.
func (a *Array) buffers(t *transfer) bool {
	if a.env.Buffer == nil || t.varies || t.target.Units().Rank() > 0 {
		return false
	}
	for _, s := range a.pipe.Specs() {
		if s.Kind == driver.Array && (s.DType.Kind != a.meta.DType.Kind || s.DType.Size != a.meta.DType.Size) {
			return false
		}
	}
	return true
}

// write writes t. It adds the chunks of which a part remains unwritten to the buffer,
// unless these exceed the size of the buffer, and stores all other chunks. If it fails, it
// has added nothing.
func (b *WriteBuffer) write(ctx context.Context, t *transfer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	a := t.a
	bounds := slices.Clone(t.shape)
	a.extend(bounds)
	maximize(bounds, a.env.Unlimited) // later writes may add to the last chunk
	ctx, done, err := b.reserve(ctx, a, true)
	if err != nil {
		return err
	}
	b.mu.Unlock()
	defer done()
	add := b.plan(ctx, t, bounds)
	if err := a.openPipes(ctx, t.plan, add); err != nil {
		return err
	}
	if int64(len(add)) < t.plan.Len() {
		if err := b.writeRest(ctx, t, add, bounds); err != nil {
			return err
		}
	}
	if len(add) == 0 {
		return nil
	}
	return b.add(ctx, t, add, bounds)
}

// plan makes room in the buffer and returns, in order, the numbers of the chunks of t to
// add to it. If the chunks do not fit, it returns only those of which parts are in the
// buffer.
func (b *WriteBuffer) plan(ctx context.Context, t *transfer, bounds []int64) []int64 {
	a := t.a
	own := map[*bufferedChunk]bool{} // chunks of t of which parts are in the buffer
	var add, added []int64
	need := int64(0)
	proj := make(chunk.Projection, t.plan.Rank())
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.buffered.closed {
		return nil
	}
	t.plan.Parts(bounds, func(i int64) bool {
		t.plan.At(i, proj)
		if len(a.buffered.chunks) > 0 {
			if c := a.buffered.chunks[projectionKey(proj)]; c != nil {
				own[c] = true
				added = append(added, i)
				return true
			}
		}
		if need <= b.most {
			need += a.charge(proj)
			add = append(add, i)
		}
		return need <= b.most || len(a.buffered.chunks) > 0
	})
	if len(add) > 0 && (need > b.most || !b.makeRoom(ctx, need, own)) {
		add = nil
	}
	add = append(add, added...)
	slices.Sort(add)
	return add
}

// free returns the number of bytes that can be added to the buffer.
func (b *WriteBuffer) free() int64 { return min(b.most-b.bytes, b.budget.Buffer().Free()) }

// makeRoom stores chunks, except those in keep, until the buffer has room for n bytes. It
// reports whether the buffer has that room. The caller holds the mutex.
//
// makeRoom selects the chunks at random. If it selected the least recently written chunks, a
// program that writes in turn to slightly more chunks than fit in the buffer would find none
// of them there.
func (b *WriteBuffer) makeRoom(ctx context.Context, n int64, keep map[*bufferedChunk]bool) bool {
	for b.free() < n {
		var list []*bufferedChunk
		b.random ^= b.random << 13
		b.random ^= b.random >> 7
		b.random ^= b.random << 17
		free := b.free()
		for i := range b.chunks {
			c := b.chunks[(b.random+uint64(i))%uint64(len(b.chunks))]
			if c.busy != nil || c.wanted > 0 || c.refused != nil || keep[c] {
				continue
			}
			c.busy = make(chan struct{})
			list = append(list, c)
			if free += c.charge(); free >= n {
				break
			}
		}
		if len(list) == 0 || b.store(ctx, list, true) != nil { // Flush tries again
			return false
		}
	}
	return true
}

// writeRest stores the chunks of t except those with the given numbers, in C order. A
// chunk in the buffer that is replaced completely is removed from it.
func (b *WriteBuffer) writeRest(ctx context.Context, t *transfer, except, bounds []int64) error {
	if len(except) > 0 {
		t.only = slices.Repeat([]bool{true}, int(t.plan.Len()))
		for _, i := range except {
			t.only[i] = false
		}
	}
	a := t.a
	if a.buffered.n.Load() == 0 {
		return a.writeThrough(ctx, t)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Claim the chunks in C order. Only this function waits for a chunk while it holds claims
	// of others, and always in the same order, so that two calls cannot wait for each other.
	var replaced []*bufferedChunk
	written := false
	defer func() { b.release(replaced, func(*bufferedChunk) bool { return written }) }()
	proj := make(chunk.Projection, t.plan.Rank())
	for _, c := range a.buffered.overlapping(t.plan, t.only) {
		for c.busy != nil {
			c.wanted++
			err := b.wait(ctx, c.busy)
			c.wanted--
			if err != nil {
				return err
			}
		}
		if !b.has(c) {
			continue
		}
		c.busy = make(chan struct{})
		i, _ := t.plan.Number(c.index)
		if t.plan.At(i, proj); t.plan.Covers(proj, bounds) {
			replaced = append(replaced, c)
			continue
		}
		err := b.store(ctx, []*bufferedChunk{c}, true) // another call has added the chunk in the meantime
		if err = cmp.Or(err, c.refused); err != nil {
			return err
		}
	}
	var err error
	b.unlocked(func() { err = a.writeThrough(ctx, t) })
	written = err == nil
	return err
}

// add copies the chunks of t with the given numbers to the buffer, and stores those of
// which all elements within bounds are now written. It copies all of the chunks or none.
func (b *WriteBuffer) add(ctx context.Context, t *transfer, numbers, bounds []int64) error {
	a := t.a
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.waitToAdd(ctx, t, numbers); err != nil {
		return err
	}
	values := chunk.NewMover(t.plan, t.sel.Count, a.meta.Grid.Largest(), a.meta.Transpose, a.meta.DType.Size)
	flags := chunk.NewMover(t.plan, t.sel.Count, a.meta.Grid.Largest(), a.meta.Transpose, 1)
	proj := make(chunk.Projection, t.plan.Rank())
	var done []*bufferedChunk
	for _, i := range numbers {
		t.plan.At(i, proj)
		c := a.buffered.chunks[projectionKey(proj)]
		if c == nil {
			c = a.newBuffered(proj)
			b.link(c)
		}
		for d := range c.last {
			c.last[d] = max(c.last[d], min(t.sel.Last(d), c.start[d]+c.size[d]-1))
		}
		values.Gather(c.data, t.Raw, proj)
		flags.EachRun(proj, func(at, n int64) {
			written := c.written[at : at+n]
			c.count += int64(bytes.Count(written, []byte{0}))
			chunk.Repeat(written, []byte{1})
		})
		if c.covers(bounds) {
			c.busy = make(chan struct{})
			done = append(done, c)
		}
	}
	if a.buffered.shape == nil {
		a.buffered.shape = make([]int64, len(t.shape))
	}
	for d, n := range t.shape {
		a.buffered.shape[d] = max(a.buffered.shape[d], n)
	}
	_ = b.store(ctx, done, false) // Flush tries again
	return nil
}

// waitToAdd waits until no Flush is in progress and no chunk of t with one of the given
// numbers is claimed. The caller holds the mutex.
func (b *WriteBuffer) waitToAdd(ctx context.Context, t *transfer, numbers []int64) error {
	proj := make(chunk.Projection, t.plan.Rank())
	for k := 0; k < len(numbers); {
		t.plan.At(numbers[k], proj)
		c := t.a.buffered.chunks[projectionKey(proj)]
		switch {
		case b.held != nil:
			if err := b.wait(ctx, b.held); err != nil {
				return err
			}
			k = 0
		case c != nil && c.busy != nil:
			c.wanted++
			err := b.wait(ctx, c.busy)
			c.wanted--
			if err != nil {
				return err
			}
			k = 0 // other chunks may have been claimed in the meantime
		default:
			k++
		}
	}
	return nil
}

// newBuffered returns an empty buffered chunk.
func (a *Array) newBuffered(proj chunk.Projection) *bufferedChunk {
	n := len(proj)
	index := make([]int64, 4*n)
	c := &bufferedChunk{array: a, index: index[:n:n], start: index[n : 2*n : 2*n], size: index[2*n : 3*n : 3*n], last: index[3*n:]}
	for d, s := range proj {
		c.index[d] = s.Index
		c.start[d], c.size[d] = a.meta.Grid.Chunk(d, s.Index)
	}
	elements := chunk.Product(c.size)
	c.key, c.data, c.written = string(cacheKey(nil, c.index)), make([]byte, elements*int64(a.meta.DType.Size)), make([]byte, elements)
	return c
}

// charge returns the number of bytes that the chunk of proj takes in the buffer.
func (a *Array) charge(proj chunk.Projection) int64 {
	n := int64(1)
	for _, s := range proj {
		n *= s.Size
	}
	return a.chargeFor(n)
}

func (a *Array) chargeFor(elements int64) int64 {
	return itemBytes + 40*int64(a.meta.Grid.Rank()) + elements*int64(a.meta.DType.Size+1)
}

func (c *bufferedChunk) charge() int64 { return c.array.chargeFor(int64(len(c.written))) }

func (b *WriteBuffer) link(c *bufferedChunk) {
	if c.array.buffered.chunks == nil {
		c.array.buffered.chunks = map[string]*bufferedChunk{}
	}
	c.array.buffered.chunks[c.key], c.at = c, len(b.chunks)
	b.chunks = append(b.chunks, c)
	if c.array.buffered.n.Add(1) == 1 {
		least, want := c.array.Memory()
		b.least, b.want = max(b.least, least), max(b.want, want)
	}
	b.bytes += c.charge()
	b.budget.Buffer().Add(c.charge())
}

// has reports whether c is in the buffer.
func (b *WriteBuffer) has(c *bufferedChunk) bool { return c.array.buffered.chunks[c.key] == c }

func (b *WriteBuffer) remove(c *bufferedChunk) {
	if !b.has(c) { // drop has removed it
		return
	}
	delete(c.array.buffered.chunks, c.key)
	last := len(b.chunks) - 1
	b.chunks[c.at] = b.chunks[last]
	b.chunks[c.at].at = c.at
	b.chunks[last] = nil
	b.chunks = b.chunks[:last]
	c.array.buffered.n.Add(-1)
	b.bytes -= c.charge()
	b.budget.Buffer().Add(-c.charge())
}

// covers reports whether all elements of c within bounds were written. c must not have
// written elements outside bounds.
func (c *bufferedChunk) covers(bounds []int64) bool {
	n := int64(1)
	for d, size := range c.size {
		n *= min(size, bounds[d]-c.start[d])
	}
	return c.count == n
}

// copyTo copies the written elements of c to the decoded chunk dst.
func (c *bufferedChunk) copyTo(dst []byte) {
	size := int64(len(c.data) / len(c.written))
	for at := int64(0); ; {
		n := int64(bytes.IndexByte(c.written[at:], 1))
		if n < 0 {
			return
		}
		at += n
		if n = int64(bytes.IndexByte(c.written[at:], 0)); n < 0 {
			n = int64(len(c.written)) - at
		}
		copy(dst[at*size:(at+n)*size], c.data[at*size:])
		at += n
	}
}

// store stores claimed chunks, releases them, and removes those that it has stored. It
// returns the error of the store, if any; the errors of single chunks are in their field
// refused. The caller holds the mutex, which store releases during requests. If check is set,
// store first calls Env.CheckBuffered, which is necessary unless a write in progress has just
// added to the chunks.
func (b *WriteBuffer) store(ctx context.Context, chunks []*bufferedChunk, check bool) error {
	if len(chunks) == 0 {
		return nil
	}
	defer b.release(chunks, func(c *bufferedChunk) bool { return c.stored })
	var arrays []*Array // in the order of their first chunks, so that the order of requests is reproducible
	lists := map[*Array][]*bufferedChunk{}
	for _, c := range chunks {
		c.stored, c.refused = false, nil
		if lists[c.array] == nil {
			arrays = append(arrays, c.array)
		}
		lists[c.array] = append(lists[c.array], c)
	}
	var boxes []*box
	for _, a := range arrays {
		slices.SortFunc(lists[a], func(a, b *bufferedChunk) int { return slices.Compare(a.index, b.index) })
		boxes = appendBoxes(boxes, lists[a], slices.Clone(a.buffered.shape))
	}
	var err error
	b.unlocked(func() {
		if f := arrays[0].env.CheckBuffered; check && f != nil { // the arrays belong to one dataset
			err = f(ctx)
		}
		if err == nil {
			err = storeBoxes(ctx, boxes)
		}
	})
	return err
}
