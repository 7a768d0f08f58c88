package zip

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// change is a Put or Delete that waits for the next Flush. It is immutable.
type change struct {
	deleted bool
	mem     []byte     // content, if spill is nil
	spill   *spillFile // file with the content, or nil
	off     int64      // position of the content in spill
	size    int64
	crc     uint32
}

// spillFile holds content that does not fit in memory.
type spillFile struct {
	f    *os.File
	end  int64        // position for the next content; protected by Map.mu
	busy int          // number of Puts that write to the file; protected by Map.mu
	use  sync.RWMutex // held shared by readers
}

func (c *change) info() driver.Info {
	return driver.Info{Size: c.size, Version: versionOf(c.crc, c.size)}
}

// readAt implements reader.
func (c *change) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	if c.spill == nil {
		return window{b: c.mem}.readAt(ctx, p, off)
	}
	return readFile(ctx, c.spill.f, p, c.off+off)
}

func (c *change) get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	info := c.info()
	off, n, err := resolveRange(key, opts, info)
	if err != nil {
		return nil, info, err
	}
	dst, err := alloc(n)
	if err != nil {
		return nil, info, err
	}
	got, err := c.readAt(ctx, dst, off)
	if err == nil && n == c.size {
		err = checkSum(key, crc32.ChecksumIEEE(dst), c.crc)
	}
	return dst[:got], info, ncerr.Wrap("get", key, err)
}

// Put implements driver.Map. It copies the content. Later reads through the same Map
// return the new content, and Flush writes it to the archive.
func (m *Map) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if err := m.writable(ctx, "put", key); err != nil {
		return driver.Info{}, err
	}
	if why := classifyName([]byte(key)); why != isObject {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrBadName, "put", key, "%s", reasonText[why])
	}
	if n := len(m.prefix) + len(key); n > max16 {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrBadName, "put", key[:64]+"...", "the name has %d bytes, more than the limit of %d in a zip archive", n, max16)
	}
	m.mu.Lock()
	err := m.admit(key, opts)
	m.mu.Unlock()
	if err != nil {
		return driver.Info{}, err
	}
	c, err := m.keep(ctx, body)
	if err != nil {
		return driver.Info{}, ncerr.Wrap("put", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.spill != nil {
		c.spill.busy--
	}
	if err := m.admit(key, opts); err != nil {
		m.inMem -= int64(len(c.mem))
		return driver.Info{}, err
	}
	m.publish(key, c)
	return c.info(), nil
}

// Delete implements driver.Map.
func (m *Map) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if err := m.writable(ctx, "delete", key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.countDirs()
	if m.live(key) {
		m.publish(key, &change{deleted: true})
	}
	return nil
}

func (m *Map) writable(ctx context.Context, op, key string) error {
	if !m.mode.Writable() {
		return ncerr.Errorf(ncerr.ErrReadOnly, op, key, "the store is open for reading only")
	}
	return ctx.Err()
}

// live reports whether key has content. The caller must hold m.mu.
func (m *Map) live(key string) bool {
	if c := m.pending[key]; c != nil {
		return !c.deleted
	}
	return m.arch.find(key) >= 0
}

// admit returns an error if key cannot be written now. The caller must hold m.mu.
func (m *Map) admit(key string, opts *driver.PutOptions) error {
	m.countDirs()
	live := m.live(key)
	switch {
	case opts.IfAbsent && live:
		return ncerr.Errorf(ncerr.ErrObjectExists, "put", key, "the object already exists")
	case opts.IfMatch != "":
		return ncerr.Errorf(ncerr.ErrUnsupported, "put", key, "a zip archive does not support IfMatch: its checksums are too short to identify content")
	case live:
		return nil
	case m.dirs[key] > 0:
		return ncerr.Errorf(ncerr.ErrObjectExists, "put", key, "the key is a prefix of other objects")
	}
	for dir := range parents(key) {
		if m.live(dir) {
			return ncerr.Errorf(ncerr.ErrObjectExists, "put", key, "the prefix %q of the key is an object", dir)
		}
	}
	return nil
}

// parents returns the directories of key, innermost first, without trailing slashes.
func parents(key string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(key, '/'); i >= 0; i = strings.LastIndexByte(key[:i], '/') {
			if !yield(key[:i]) {
				return
			}
		}
	}
}

// countDirs initializes m.dirs at the first write. The caller must hold m.mu.
func (m *Map) countDirs() {
	if m.dirs != nil {
		return
	}
	m.pending, m.dirs = map[string]*change{}, map[string]int{}
	for _, s := range m.arch.table {
		if s == 0 {
			continue
		}
		for dir := range parents(string(m.arch.keyAt(s))) {
			m.dirs[dir]++
		}
	}
}

// publish sets the pending change of key. The caller must hold m.mu.
func (m *Map) publish(key string, c *change) {
	was := m.live(key)
	if old := m.pending[key]; old != nil {
		m.inMem -= int64(len(old.mem))
	}
	m.pending[key] = c
	m.sorted = nil
	if was == !c.deleted {
		return
	}
	step := 1
	if c.deleted {
		step = -1
	}
	for dir := range parents(key) {
		if m.dirs[dir] += step; m.dirs[dir] == 0 {
			delete(m.dirs, dir)
		}
	}
}

// spillFrom is the size from which content is always written to the spill file. Writing
// to a file is as fast as copying in memory, and large buffers would be garbage after
// the next Flush.
const spillFrom = 256 << 10

// keep copies body to memory, or to the spill file if the body is large or the memory
// is full.
func (m *Map) keep(ctx context.Context, body driver.Body) (*change, error) {
	n := body.Size()
	if n < 0 {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "invalid body size %d", n)
	}
	m.mu.Lock()
	if n < spillFrom && n <= int64(m.cfg.Spill)-m.inMem {
		m.inMem += n
		m.mu.Unlock()
		c, err := keepInMemory(body, n)
		if err != nil {
			m.mu.Lock()
			m.inMem -= n
			m.mu.Unlock()
		}
		return c, err
	}
	s, off, err := m.reserve(n)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c, err := s.keep(ctx, body, off, n)
	if err != nil {
		m.mu.Lock()
		s.busy--
		m.mu.Unlock()
	}
	return c, err
}

func keepInMemory(body driver.Body, n int64) (*change, error) {
	p := make([]byte, n)
	if got, err := body.ReadAt(p, 0); int64(got) < n {
		return nil, shortBody(got, n, err)
	}
	return &change{mem: p, size: n, crc: crc32.ChecksumIEEE(p)}, nil
}

func shortBody(got int, n int64, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "the body returned %d of %d bytes", got, n)
	}
	return err
}

// reserve returns the spill file, marked as busy, and the position of n reserved bytes in
// it. The caller must hold m.mu.
func (m *Map) reserve(n int64) (*spillFile, int64, error) {
	if m.spill == nil {
		f, err := m.home.spill()
		if err != nil {
			return nil, 0, err
		}
		m.spill = &spillFile{f: f}
	}
	off := m.spill.end
	m.spill.end += n
	m.spill.busy++
	return m.spill, off, nil
}

// keep writes body at off, without a copy if the body is in memory.
func (s *spillFile) keep(ctx context.Context, body driver.Body, off, n int64) (*change, error) {
	c := &change{spill: s, off: off, size: n}
	whole, inMemory := body.(driver.Bytes)
	var buf []byte
	if !inMemory {
		buf = make([]byte, min(n, spillFrom))
	}
	for done := int64(0); done < n; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var p []byte
		if inMemory {
			p = whole[done:min(done+copySize, n)]
		} else {
			p = buf[:min(n-done, spillFrom)]
			if got, err := body.ReadAt(p, done); got < len(p) {
				return nil, shortBody(int(done)+got, n, err)
			}
		}
		if _, err := s.f.WriteAt(p, off+done); err != nil {
			return nil, err
		}
		c.crc = crc32.Update(c.crc, crc32.IEEETable, p)
		done += int64(len(p))
	}
	return c, nil
}

// retire deletes the file after the last reader has finished.
func (s *spillFile) retire() error {
	s.use.Lock()
	defer s.use.Unlock()
	return discard(s.f)
}
