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

// Stat implements driver.Map. It sends a HEAD, or a GET of one byte if the server
// refuses HEAD or omits the length. A refused HEAD does not show whether the object
// exists: URLs that are signed for GET return 403 for HEAD, and servers without support
// for HEAD return 404.
func (m *Map) Stat(ctx context.Context, key string) (driver.Info, error) {
	req, err := m.request(ctx, http.MethodHead, key)
	if err != nil {
		return driver.Info{}, err
	}
	resp, err := m.send(req)
	if err != nil {
		return driver.Info{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // the response to HEAD has no body
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

// statByGet gets the size from the response to a range of one byte. If that response
// does not contain the size, statByGet reads the whole object.
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
	defer resp.Body.Close() //nolint:errcheck // only the header of the response is used
	text := resp.Header.Get("Content-Range")
	first, last, size, ok := contentRange(text)
	empty := resp.StatusCode == http.StatusRequestedRangeNotSatisfiable
	switch err := check(resp); {
	case err != nil && !empty:
		return driver.Info{}, err
	case m.isDocument(key) && isHTML(resp.Header) && !empty:
		return driver.Info{}, errPage()
	case resp.StatusCode == http.StatusPartialContent && (!ok || first != 0 || last != 0 || size < 0), empty && ok && size != 0:
		return driver.Info{}, protocolError("the server returned status %d with Content-Range %q to a request for the first byte", resp.StatusCode, text)
	case empty && ok && version(resp.Header, 0) != "", resp.StatusCode == http.StatusPartialContent:
		return info(resp.Header, size), nil
	case resp.StatusCode == http.StatusOK && resp.ContentLength >= 0:
		return info(resp.Header, resp.ContentLength), nil
	}
	_ = resp.Body.Close() // this frees the connection for the next request
	_, i, err := m.Get(ctx, key, &driver.GetOptions{Limit: m.o.MaxBlind}, driver.Heap)
	return i, err
}

// Get implements driver.Map.
func (m *Map) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if opts.Range != nil && opts.Range.Length == 0 && opts.Range.Offset >= 0 {
		return m.getEmpty(ctx, key, opts, alloc)
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
	defer resp.Body.Close() //nolint:errcheck // the length of the data is checked instead
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

// maxPosition is the largest position used in a header: servers may parse positions as
// floating-point numbers.
const maxPosition = 1<<53 - 1

// rangeHeader returns the Range header for a range that is not empty.
func rangeHeader(r driver.Range) string {
	switch {
	case r.Offset < 0:
		return "bytes=" + strconv.FormatInt(max(r.Offset, -maxPosition), 10) // the minus sign makes it a suffix range
	case r.Length < 0:
		return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-"
	}
	last := int64(maxPosition)
	if r.Length <= maxPosition-r.Offset {
		last = r.Offset + r.Length - 1
	}
	return "bytes=" + strconv.FormatInt(r.Offset, 10) + "-" + strconv.FormatInt(max(last, r.Offset), 10)
}

// getEmpty handles an empty range, which HTTP cannot express.
func (m *Map) getEmpty(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
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
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the object has version %q, not %q", i.Version, opts.IfMatch)
	}
	return nil
}

// get holds the state of one response that is being read.
type get struct {
	m     *Map
	ctx   context.Context //nolint:containedctx // the context has the lifetime of the Get
	key   string
	opts  *driver.GetOptions
	alloc driver.Alloc
	resp  *http.Response
}

// unsatisfiable handles status 416, which is correct for a range beyond the end and for
// an empty object.
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
		return nil, i, protocolError("the server refused a range inside an object of %d bytes", i.Size)
	}
	if i.Version == "" { // error responses may omit the headers that the version consists of
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

// partial checks and reads a 206 response.
func (g *get) partial() ([]byte, driver.Info, error) {
	if err := check(g.resp); err != nil {
		return nil, driver.Info{}, err
	}
	if g.opts.Range == nil {
		return nil, driver.Info{}, protocolError("the server sent a part of the object instead of the whole")
	}
	text := g.resp.Header.Get("Content-Range")
	first, last, size, ok := contentRange(text)
	if !ok || first < 0 || size < 0 {
		return nil, driver.Info{}, protocolError("the server sent a part with an incomplete Content-Range %q", text)
	}
	i := info(g.resp.Header, size)
	start, n, err := g.opts.Range.Resolve(size)
	if err != nil {
		return nil, i, err
	}
	if first != start || last-first+1 != n {
		return nil, i, protocolError("the server sent bytes %d to %d of %d instead of %d bytes from position %d", first, last, size, n, start)
	}
	if cl := g.resp.ContentLength; cl >= 0 && cl != n {
		return nil, i, protocolError("the server sent Content-Length %d for a range of %d bytes", cl, n)
	}
	return g.read(i, n)
}

// whole checks and reads a 200 response: the object itself, or the response of a server
// that ignores ranges.
func (g *get) whole() ([]byte, driver.Info, error) {
	if err := check(g.resp); err != nil {
		return nil, driver.Info{}, err
	}
	size := g.resp.ContentLength
	if size < 0 {
		return g.unsized()
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
		return nil, i, ncerr.Errorf(ncerr.ErrUnsupported, "", "",
			"the server does not support ranges: skipping to byte %d exceeds max_skip, which is %d bytes", start, g.m.o.MaxSkip)
	}
	if _, err := io.CopyN(io.Discard, g.resp.Body, start); err != nil {
		return nil, i, g.truncatedError(0, start, err)
	}
	return g.read(i, n)
}

// read reads n bytes from the body, which is already at the right position.
func (g *get) read(i driver.Info, n int64) ([]byte, driver.Info, error) {
	if err := sameVersion(i, g.opts); err != nil {
		return nil, i, err
	}
	if g.opts.Limit > 0 && n > g.opts.Limit {
		return nil, i, ncerr.Errorf(ncerr.ErrLimit, "", "", "the result has %d bytes, more than the limit of %d", n, g.opts.Limit)
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
		return dst[:got], i, g.truncatedError(int64(got), n, err)
	}
	if err := g.refusePage(dst, i.Size); err != nil {
		return nil, i, err
	}
	return dst, i, g.checkEnd(n)
}

// pageHead is the number of bytes needed to recognize an HTML page.
const pageHead = 64

// refusePage fails if the object is an HTML page in place of the real object. The
// server may label a chunk as HTML by mistake, so the first bytes decide. If content
// does not include them, refusePage reads them from the server.
func (g *get) refusePage(content []byte, size int64) error {
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

// checkEnd checks that a body without Content-Length ends after n bytes.
func (g *get) checkEnd(n int64) error {
	if g.resp.ContentLength >= 0 {
		return nil
	}
	var more [1]byte
	k, err := io.ReadFull(g.resp.Body, more[:])
	switch {
	case k > 0:
		return protocolError("the server sent more than the %d bytes that it announced", n)
	case errors.Is(err, io.EOF):
		return nil
	}
	return g.truncatedError(n, n, err)
}

// truncatedError returns the error for a body that ended early.
func (g *get) truncatedError(got, n int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if own := g.ctx.Err(); own != nil {
			return own
		}
		return protocolError("the connection ended after %d of %d bytes", got, n)
	}
	return web.RequestError(g.ctx, err)
}

// unsized reads a 200 response without Content-Length. It reads the whole body to learn
// the size, but keeps only the requested range if its offset and length are known.
func (g *get) unsized() ([]byte, driver.Info, error) {
	limit, asked := g.m.o.MaxBlind, g.opts.Limit > 0 && g.opts.Range == nil && g.opts.Limit <= g.m.o.MaxBlind
	if asked {
		limit = g.opts.Limit
	}
	part := driver.Range{Length: limit + 1}
	if r := g.opts.Range; r != nil && r.Offset >= 0 && r.Length >= 0 {
		part = *r
	}
	from := io.LimitReader(g.resp.Body, limit+1)
	kept := &unsizedBuffer{m: g.m}
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
	case errors.Is(err, errUnsizedFull):
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the server does not send Content-Length, and the responses being read exceed max_blind, which is %d bytes in total", g.m.o.MaxBlind)
	case err != nil && !errors.Is(err, io.EOF):
		return nil, driver.Info{}, g.truncatedError(size, -1, err)
	case size > limit && asked:
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrLimit, "", "", "the response has more than %d bytes and no Content-Length", limit)
	case size > limit:
		return nil, driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the server does not send Content-Length, and the response exceeds max_blind, which is %d bytes", limit)
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

// unsizedBuffer collects a response without Content-Length. All buffers of a Map
// together hold at most max_blind bytes.
type unsizedBuffer struct {
	bytes.Buffer
	m *Map
}

var errUnsizedFull = errors.New("max_blind exceeded")

// Write implements io.Writer.
func (h *unsizedBuffer) Write(p []byte) (int, error) {
	if n := int64(len(p)); h.m.unsized.Add(n) > h.m.o.MaxBlind {
		h.m.unsized.Add(-n)
		return 0, errUnsizedFull
	}
	return h.Buffer.Write(p)
}

// ReadFrom implements io.ReaderFrom. It calls Write.
func (h *unsizedBuffer) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{h}, r)
}

func (h *unsizedBuffer) release() { h.m.unsized.Add(-int64(h.Len())) }
