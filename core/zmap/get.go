package zmap

import (
	"context"
	"unsafe"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxWhole is the maximum size in bytes of an object that is read as a whole to return a
// part of it, if the store does not support ranges.
const maxWhole = 1 << 30

// maxVersion is the maximum length of an object's version in bytes. An open dataset
// stores the versions of many objects.
const maxVersion = 4 << 10

// Get reads an object, or the part that opts.Range selects, into memory returned by
// alloc. If opts is nil, Get reads the whole object. If alloc is nil, Get allocates a
// new slice. Get calls alloc at most once, with the exact length of the result. With an
// error it may return the bytes read so far.
//
// Get fails with ncerr.ErrNotFound for a key without content, with ncerr.ErrRange for a
// range that is not entirely inside the object, with ncerr.ErrConflict if the object
// does not have the version opts.IfMatch, and with ncerr.ErrLimit for a result longer
// than opts.Limit. It returns an error from alloc unchanged if the error has no kind.
// Other errors are ncerr.ErrIO or have the driver's kind. The error is ncerr.ErrInternal
// if the driver violates its contract.
//
// Source: netcdf-c libnczarr/zmap.h, nczmap_read, with an error instead of a short read
// past the end.
func (z *Map) Get(ctx context.Context, key string, opts *GetOptions, alloc Alloc) ([]byte, Info, error) {
	if err := z.enter(ctx, "get", key); err != nil {
		return nil, Info{}, err
	}
	defer z.leave()
	return z.get(ctx, key, opts, alloc)
}

// ReadAll reads a whole object into a new slice. It fails with ncerr.ErrLimit for an
// object longer than limit bytes; limit 0 means no limit. The other errors are the same
// as for [Map.Get].
func (z *Map) ReadAll(ctx context.Context, key string, limit int64) ([]byte, Info, error) {
	return z.Get(ctx, key, &GetOptions{Limit: limit}, nil)
}

// Stat returns information about an object without its content. It fails with
// ncerr.ErrNotFound for a key without content.
func (z *Map) Stat(ctx context.Context, key string) (Info, error) {
	if err := z.enter(ctx, "stat", key); err != nil {
		return Info{}, err
	}
	defer z.leave()
	if err := z.checkKey("stat", key); err != nil {
		return Info{}, err
	}
	info, err := z.m.Stat(ctx, key)
	if err != nil {
		return Info{}, z.wrap(ctx, "stat", key, err)
	}
	switch {
	case info.Size < 0:
		return Info{}, z.internal("stat", key, "returned the negative size %d", info.Size)
	case len(info.Version) > maxVersion:
		return Info{}, z.internal("stat", key, "returned a version of %d bytes, more than the limit of %d", len(info.Version), maxVersion)
	}
	return info, nil
}

// Exists reports whether key has content. The result is meaningful only if the error is
// nil.
func (z *Map) Exists(ctx context.Context, key string) (bool, error) {
	_, err := z.Stat(ctx, key)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return false, nil
	}
	return err == nil, err
}

func (z *Map) get(ctx context.Context, key string, opts *GetOptions, alloc Alloc) ([]byte, Info, error) {
	if err := z.checkGet(key, opts); err != nil {
		return nil, Info{}, err
	}
	g := z.guards.Get().(*guard) //nolint:forcetypeassert // the pool contains only *guard
	g.set(z, opts, alloc)
	data, info, err := z.m.Get(ctx, key, &g.opts, g.fn)
	data, info, err = g.finish(ctx, z, key, data, info, err)
	if err == nil {
		g.clear()
		z.guards.Put(g) // after an error the driver may still use the guard
	}
	return data, info, err
}

// checkGet validates the arguments of a Get.
func (z *Map) checkGet(key string, opts *GetOptions) error {
	if err := z.checkKey("get", key); err != nil {
		return err
	}
	if opts == nil || opts.Range == nil {
		return nil
	}
	if r := *opts.Range; r.Length < -1 || r.Offset < 0 && r.Length != -1 {
		return ncerr.Errorf(ncerr.ErrInvalid, "get", key, "invalid range: offset %d, length %d", r.Offset, r.Length)
	}
	return nil
}

// guard connects a driver to the caller's alloc during one Get. It enforces the contract
// and the limit, and emulates missing capabilities. Guards are pooled, so that Get
// itself does not allocate.
type guard struct {
	fn        Alloc      // g.take, created once
	opts      GetOptions // options passed to the driver
	rng       Range      // value to which opts.Range points
	requested Range      // range requested by the caller
	part      bool       // requested is set
	cut       bool       // the driver reads the whole object, and the guard extracts the range
	match     string     // version that the guard compares, if the driver cannot
	limit     int64      // the caller's limit; 0 means no limit

	alloc Alloc  // the caller's alloc
	calls int    // calls to take
	mem   []byte // memory returned by alloc
	err   error  // error from alloc or from the guard
	own   bool   // err is an error from the caller's alloc
}

func newGuard() *guard {
	g := &guard{}
	g.fn = g.take
	return g
}

func (g *guard) clear() { *g = guard{fn: g.fn} }

// set prepares the guard for a Get with valid options.
func (g *guard) set(z *Map, opts *GetOptions, alloc Alloc) {
	if alloc == nil {
		alloc = driver.Heap
	}
	g.alloc = alloc
	if opts == nil {
		return
	}
	g.limit = max(opts.Limit, 0)
	g.opts.Limit = g.limit
	if opts.Range != nil {
		g.requested, g.part = *opts.Range, true
		if g.cut = !z.caps.Ranges; g.cut {
			g.opts.Limit = maxWhole
		} else {
			g.rng = g.requested
			g.opts.Range = &g.rng
		}
	}
	if z.caps.IfMatch {
		g.opts.IfMatch = opts.IfMatch
	} else {
		g.match = opts.IfMatch
	}
}

// take is the Alloc passed to the driver.
func (g *guard) take(n int64) ([]byte, error) {
	g.calls++
	switch {
	case g.calls > 1:
		g.err = ncerr.Errorf(ncerr.ErrInternal, "", "", "called alloc twice")
	case n < 0:
		g.err = ncerr.Errorf(ncerr.ErrInternal, "", "", "called alloc with %d bytes", n)
	case g.opts.Limit > 0 && n > g.opts.Limit:
		g.err = ncerr.Errorf(ncerr.ErrLimit, "", "", "the result has %d bytes, more than the limit of %d", n, g.opts.Limit)
	case g.cut:
		g.mem = make([]byte, n)
	default:
		g.mem, g.err = g.callAlloc(n)
	}
	return g.mem, g.err
}

func (g *guard) callAlloc(n int64) ([]byte, error) {
	p, err := g.alloc(n)
	if err != nil {
		g.own = true
		return nil, err
	}
	if int64(len(p)) != n {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "alloc returned %d bytes, not %d", len(p), n)
	}
	return p, nil
}

// finish checks the driver's result and converts it to the result of Get.
func (g *guard) finish(ctx context.Context, z *Map, key string, data []byte, info Info, err error) ([]byte, Info, error) {
	if g.err != nil {
		return nil, Info{}, g.refusal(ctx, z, key)
	}
	if err != nil {
		if g.cut || !g.owns(data) {
			data = nil
		}
		return data, info, z.wrap(ctx, "get", key, err)
	}
	if err := g.checkResult(z, key, data, info); err != nil {
		return nil, Info{}, err
	}
	if g.match != "" && info.Version != g.match {
		return nil, info, ncerr.Errorf(ncerr.ErrConflict, "get", key, "the object has version %q, not %q", info.Version, g.match)
	}
	if !g.cut {
		return data, info, nil
	}
	return g.extract(ctx, z, key, data, info)
}

// checkResult returns an error if a successful result violates the contract.
func (g *guard) checkResult(z *Map, key string, data []byte, info Info) error {
	want := info.Size
	if g.part && !g.cut {
		_, n, err := g.requested.Resolve(info.Size)
		if err != nil {
			return z.internal("get", key, "the range with offset %d and length %d succeeded, but the object has %d bytes", g.requested.Offset, g.requested.Length, info.Size)
		}
		want = n
	}
	switch {
	case len(info.Version) > maxVersion:
		return z.internal("get", key, "returned a version of %d bytes, more than the limit of %d", len(info.Version), maxVersion)
	case int64(len(data)) != want:
		return z.internal("get", key, "returned %d bytes instead of %d", len(data), want)
	case len(data) > 0 && !(g.owns(data) && len(data) == len(g.mem)):
		return z.internal("get", key, "returned memory that is not from alloc")
	case g.calls == 1 && len(g.mem) != len(data):
		return z.internal("get", key, "called alloc with %d bytes and returned %d", len(g.mem), len(data))
	}
	return nil
}

// owns reports whether data starts where the memory returned by alloc starts.
func (g *guard) owns(data []byte) bool {
	return len(data) <= len(g.mem) && unsafe.SliceData(data) == unsafe.SliceData(g.mem)
}

// refusal returns the error of a Get in which take or the caller's alloc failed.
func (g *guard) refusal(ctx context.Context, z *Map, key string) error {
	kind := ncerr.KindOf(g.err)
	switch {
	case g.own && directKind(g.err) == 0:
		return g.err
	case !g.own && kind == ncerr.ErrInternal:
		return z.internal("get", key, "%w", unwrapped(g.err))
	}
	return z.wrap(ctx, "get", key, g.err)
}

func unwrapped(err error) error {
	if e, ok := err.(*ncerr.Error); ok && e.Err != nil { //nolint:errorlint // the error was created here and is not wrapped
		return e.Err
	}
	return err
}

// extract returns the range that the caller requested from a whole object.
func (g *guard) extract(ctx context.Context, z *Map, key string, whole []byte, info Info) ([]byte, Info, error) {
	start, n, err := g.requested.Resolve(info.Size)
	if err != nil {
		return nil, info, z.wrap(ctx, "get", key, err)
	}
	if g.limit > 0 && n > g.limit {
		return nil, info, ncerr.Errorf(ncerr.ErrLimit, "get", key, "the result has %d bytes, more than the limit of %d", n, g.limit)
	}
	dst, err := g.callAlloc(n)
	if err != nil {
		g.err = err
		return nil, Info{}, g.refusal(ctx, z, key)
	}
	copy(dst, whole[start:start+n])
	return dst, info, nil
}
