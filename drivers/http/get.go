package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// Stat implements driver.Map: a HEAD, or a GET of one byte where the server
// refuses HEAD or leaves out the length. That HEAD is refused says nothing about
// the object: addresses that are signed for GET answer it with 403, and servers
// that know of no HEAD with 404.
func (m *Map) Stat(ctx context.Context, key string) (driver.Info, error) {
	req, err := m.request(ctx, http.MethodHead, key)
	if err != nil {
		return driver.Info{}, err
	}
	resp, err := m.send(req)
	if err != nil {
		return driver.Info{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it has no content
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented,
		http.StatusNotFound, http.StatusGone:
		return m.statByGet(ctx, key)
	}
	if err := check(resp); err != nil {
		return driver.Info{}, err
	}
	if m.isDocument(key) && isHTML(resp.Header) {
		return driver.Info{}, errPage()
	}
	if resp.ContentLength < 0 || resp.StatusCode == http.StatusPartialContent {
		return m.statByGet(ctx, key)
	}
	return info(resp.Header, resp.ContentLength), nil
}

// statByGet learns the size from the answer to a range of one byte. Where that
// does not tell it, the whole object does.
func (m *Map) statByGet(ctx context.Context, key string) (driver.Info, error) {
	req, err := m.request(ctx, http.MethodGet, key)
	if err != nil {
		return driver.Info{}, err
	}
	req.Header.Set("Range", "bytes=0-0")
	resp, err := m.send(req)
	if err != nil {
		return driver.Info{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only its head counts
	text := resp.Header.Get("Content-Range")
	first, last, size, ok := contentRange(text)
	empty := resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
	switch err := check(resp); {
	case err != nil && !empty:
		return driver.Info{}, err
	case m.isDocument(key) && isHTML(resp.Header) && !empty:
		return driver.Info{}, errPage()
	case resp.StatusCode == http.StatusPartialContent && (!ok || first != 0 || last != 0 || size < 0), empty && ok && size != 0:
		return driver.Info{}, broken("the server answered %d with Content-Range %q when asked for the first byte", resp.StatusCode, text)
	case empty && ok && version(resp.Header, 0) != "", resp.StatusCode == http.StatusPartialContent:
		return info(resp.Header, size), nil
	case resp.StatusCode == http.StatusOK && resp.ContentLength >= 0:
		return info(resp.Header, resp.ContentLength), nil
	}
	_ = resp.Body.Close() // the connection serves the next request
	_, i, err := m.Get(ctx, key, &driver.GetOptions{Limit: m.o.MaxBlind}, driver.Heap)
	return i, err
}

// Get implements driver.Map.
func (m *Map) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if opts.Range != nil && opts.Range.Length == 0 && opts.Range.Offset >= 0 {
		return m.getNothing(ctx, key, opts, alloc)
	}
	req, err := m.request(ctx, http.MethodGet, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if opts.Range != nil {
		req.Header.Set("Range", rangeHeader(*opts.Range))
	}
	if opts.IfMatch != "" && opts.IfMatch[0] == '"' {
		req.Header.Set("If-Match", opts.IfMatch)
	}
	resp, err := m.send(req)
	if err != nil {
		return nil, driver.Info{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // what was read is judged by its length
	g := &get{m: m, ctx: ctx, key: key, opts: opts, alloc: alloc, resp: resp}
	switch {
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && opts.Range != nil:
		return g.unsatisfiable()
	case resp.StatusCode == http.StatusPartialContent:
		return g.partial()
	case resp.StatusCode == http.StatusOK:
		return g.whole()
	}
	return nil, driver.Info{}, check(resp)
}

// farthest is the largest position that is put into a header: servers may
// count in numbers of floating point.
const farthest = 1<<53 - 1

// rangeHeader gives the header of a range that is not empty.
func rangeHeader(r driver.Range) string {
	switch {
	case r.Offset < 0:
		return "bytes=" + strconv.FormatInt(max(r.Offset, -farthest), 10) // with its minus sign: a suffix
	case r.Length < 0:
		return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-"
	}
	last := int64(farthest)
	if r.Length <= farthest-r.Offset {
		last = r.Offset + r.Length - 1
	}
	return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-" + strconv.FormatInt(max(last, r.Offset), 10)
}

// getNothing answers a range of no bytes, which HTTP cannot ask for.
func (m *Map) getNothing(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	i, err := m.Stat(ctx, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if _, _, err := opts.Range.Resolve(i.Size); err != nil {
		return nil, i, err
	}
	if err := sameVersion(i, opts); err != nil {
		return nil, i, err
	}
	data, err := alloc(0)
	return data, i, err
}

func sameVersion(i driver.Info, opts *driver.GetOptions) error {
	if opts.IfMatch != "" && i.Version != opts.IfMatch {
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "version %q, expected %q", i.Version, opts.IfMatch)
	}
	return nil
}

// get is one answer that is being read.
type get struct {
	m     *Map
	ctx   context.Context //nolint:containedctx // lives as long as the Get
	key   string
	opts  *driver.GetOptions
	alloc driver.Alloc
	resp  *http.Response
}

// unsatisfiable judges a 416: right for a range beyond the end, and the only
// way for a server to give no bytes.
func (g *get) unsatisfiable() ([]byte, driver.Info, error) {
	_, _, size, ok := contentRange(g.resp.Header.Get("Content-Range"))
	i := driver.Info{Size: size}
	if ok && size >= 0 {
		i = info(g.resp.Header, size)
	} else {
		var err error
		if i, err = g.m.Stat(g.ctx, g.key); err != nil {
			return nil, driver.Info{}, err
		}
	}
	_, n, err := g.opts.Range.Resolve(i.Size)
	if err != nil {
		return nil, i, err
	}
	if n > 0 {
		return nil, i, broken("the server says that a range inside of an object of %d bytes cannot be had", i.Size)
	}
	if i.Version == "" { // error answers need not name it
		if i, err = g.m.Stat(g.ctx, g.key); err != nil {
			return nil, driver.Info{}, err
		}
	}
	if err := sameVersion(i, g.opts); err != nil {
		return nil, i, err
	}
	data, err := g.alloc(0)
	return data, i, err
}

// partial judges and reads a 206.
func (g *get) partial() ([]byte, driver.Info, error) {
	if err := check(g.resp); err != nil {
		return nil, driver.Info{}, err
	}
	if g.opts.Range == nil {
		return nil, driver.Info{}, broken("the server answered with a part although the whole was asked for")
	}
	text := g.resp.Header.Get("Content-Range")
	first, last, size, ok := contentRange(text)
	if !ok || first < 0 || size < 0 {
		return nil, driver.Info{}, broken("the server sent a part without saying which, or of how much: Content-Range %q", text)
	}
	i := info(g.resp.Header, size)
	start, n, err := g.opts.Range.Resolve(size)
	if err != nil {
		return nil, i, err
	}
	if first != start || last-first+1 != n {
		return nil, i, broken("the server sent bytes %d to %d of %d, asked for were %d from %d", first, last, size, n, start)
	}
	if cl := g.resp.ContentLength; cl >= 0 && cl != n {
		return nil, i, broken("the server announced %d bytes for a range of %d", cl, n)
	}
	return g.read(i, n)
}

// whole judges a 200: the object, or the answer of a server without ranges.
func (g *get) whole() ([]byte, driver.Info, error) {
	if err := check(g.resp); err != nil {
		return nil, driver.Info{}, err
	}
	size := g.resp.ContentLength
	if size < 0 {
		return g.blind()
	}
	i := info(g.resp.Header, size)
	if g.opts.Range == nil {
		return g.read(i, size)
	}
	i.NoRanges = true
	start, n, err := g.opts.Range.Resolve(size)
	if err != nil {
		return nil, i, err
	}
	if start > g.m.o.MaxSkip {
		return nil, i, g.noRanges(start)
	}
	if _, err := io.CopyN(io.Discard, g.resp.Body, start); err != nil {
		return nil, i, g.cut(0, start, err)
	}
	return g.read(i, n)
}

func (g *get) noRanges(start int64) error {
	return ncerr.Errorf(ncerr.ErrUnsupported, "", "",
		"the server does not give ranges: to read from byte %d everything before it would have to come, more than the %d bytes of max_skip", start, g.m.o.MaxSkip)
}

// read reads n bytes from the body, which stands at the right place.
func (g *get) read(i driver.Info, n int64) ([]byte, driver.Info, error) {
	if err := sameVersion(i, g.opts); err != nil {
		return nil, i, err
	}
	if g.opts.Limit > 0 && n > g.opts.Limit {
		return nil, i, ncerr.Errorf(ncerr.ErrLimit, "", "", "%d bytes, the limit is %d", n, g.opts.Limit)
	}
	if g.m.isDocument(g.key) && isHTML(g.resp.Header) {
		return nil, i, errPage()
	}
	dst, err := g.alloc(n)
	if err != nil {
		return nil, i, err
	}
	got, err := io.ReadFull(g.resp.Body, dst)
	if err != nil {
		return dst[:got], i, g.cut(int64(got), n, err)
	}
	if err := g.noPage(dst, i.Size); err != nil {
		return nil, i, err
	}
	return dst, i, g.noMore(n)
}

// pageHead is how many bytes of an object show whether it is an HTML page.
const pageHead = 64

// noPage makes sure that content is not, and is not part of, an HTML page in
// the place of an object. A server may call a chunk one that only begins like
// HTML, so the beginning decides; it is asked for where it is not in content.
func (g *get) noPage(content []byte, size int64) error {
	r, head := g.opts.Range, min(size, pageHead)
	switch {
	case g.m.isDocument(g.key) && r != nil, !g.m.isDocument(g.key) && !isHTML(g.resp.Header):
		return nil
	case r != nil && (r.Offset != 0 || int64(len(content)) < head):
		opts := &driver.GetOptions{Range: &driver.Range{Length: head}, IfMatch: g.opts.IfMatch}
		_, _, err := g.m.Get(g.ctx, g.key, opts, driver.Heap)
		return err
	case htmlPage(content):
		return errPage()
	}
	return nil
}

// noMore makes sure that a body of unannounced length ends.
func (g *get) noMore(n int64) error {
	if g.resp.ContentLength >= 0 {
		return nil
	}
	var more [1]byte
	k, err := io.ReadFull(g.resp.Body, more[:])
	switch {
	case k > 0:
		return broken("the server sent more than the %d bytes that it announced", n)
	case errors.Is(err, io.EOF):
		return nil
	}
	return g.cut(n, n, err)
}

// cut is the error of a body that ended early.
func (g *get) cut(got, n int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if own := g.ctx.Err(); own != nil {
			return own
		}
		return broken("the connection ended after %d of %d bytes", got, n)
	}
	return web.Failed(g.ctx, err)
}

// blind reads a 200 whose length the server does not announce. To know the
// size all of it must come; what lies outside of the range that was asked for is
// not kept.
func (g *get) blind() ([]byte, driver.Info, error) {
	limit, asked := g.m.o.MaxBlind, g.opts.Limit > 0 && g.opts.Range == nil && g.opts.Limit <= g.m.o.MaxBlind
	if asked {
		limit = g.opts.Limit
	}
	part := driver.Range{Length: limit + 1}
	if r := g.opts.Range; r != nil && r.Offset >= 0 && r.Length >= 0 {
		part = *r
	}
	from := io.LimitReader(g.resp.Body, limit+1)
	kept := &held{m: g.m}
	defer kept.release()
	before, err := io.CopyN(io.Discard, from, part.Offset)
	if err == nil {
		_, err = io.CopyN(kept, from, part.Length)
	}
	var after int64
	if err == nil {
		after, err = io.Copy(io.Discard, from)
	}
	size := before + int64(kept.Len()) + after
	switch {
	case errors.Is(err, errHeld):
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the server does not announce lengths, and the answers under way exceed the %d bytes of max_blind in total", g.m.o.MaxBlind)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, driver.Info{}, g.cut(size, -1, err)
	case size > limit && asked:
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrLimit, "", "", "more than %d bytes, of unannounced length", limit)
	case size > limit:
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the server does not announce the length, and the answer exceeds the %d bytes of max_blind", limit)
	}
	i := info(g.resp.Header, size)
	start, n := int64(0), size
	if g.opts.Range != nil {
		i.NoRanges = true
		if start, n, err = g.opts.Range.Resolve(size); err != nil {
			return nil, i, err
		}
	}
	g.resp.Body = io.NopCloser(bytes.NewReader(kept.Bytes()[start-before : start-before+n]))
	return g.read(i, n)
}

// held is what has come of an answer whose length is not announced. All of a
// Map together hold at most max_blind bytes.
type held struct {
	bytes.Buffer
	m *Map
}

var errHeld = errors.New("too much is held")

// Write implements io.Writer.
func (h *held) Write(p []byte) (int, error) {
	if n := int64(len(p)); h.m.blind.Add(n) > h.m.o.MaxBlind {
		h.m.blind.Add(-n)
		return 0, errHeld
	}
	return h.Buffer.Write(p)
}

// ReadFrom implements io.ReaderFrom, by way of Write.
func (h *held) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{h}, r)
}

func (h *held) release() { h.m.blind.Add(-int64(h.Len())) }
