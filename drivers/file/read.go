package file

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxRead is the maximum size of one read or write call, so that the driver notices
// when a context is done.
const maxRead = 16 << 20

// Get implements driver.Map.
func (m *Map) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	h, err := m.open(ctx, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	defer h.close()
	x, err := h.stat()
	if err != nil {
		return nil, driver.Info{}, classify(err)
	}
	if err := x.object(); err != nil {
		return nil, driver.Info{}, err
	}
	info := x.info()
	if err := matches(info, opts.IfMatch); err != nil {
		return nil, info, err
	}
	start, n := int64(0), x.size
	if opts.Range != nil {
		if start, n, err = opts.Range.Resolve(x.size); err != nil {
			return nil, info, err
		}
	}
	if opts.Limit > 0 && n > opts.Limit {
		return nil, info, ncerr.Errorf(ncerr.ErrLimit, "", "", "the object has %d bytes, more than the limit of %d", n, opts.Limit)
	}
	dst, err := alloc(n)
	if err != nil {
		return nil, info, err
	}
	got, err := readFull(ctx, h, dst, start)
	return dst[:got], info, err
}

// readFull fills dst with the bytes from offset off and returns the number of bytes
// read.
func readFull(ctx context.Context, h handle, dst []byte, off int64) (int, error) {
	got := 0
	for got < len(dst) {
		n, err := h.readAt(dst[got:min(len(dst), got+maxRead)], off+int64(got))
		got += n
		if got == len(dst) {
			return got, nil
		}
		if err == nil && n == 0 || errors.Is(err, io.EOF) {
			return got, ncerr.Errorf(ncerr.ErrIO, "", "", "the file became shorter while it was read")
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return got, classify(err)
		}
	}
	return got, nil
}

// Stat implements driver.Map.
func (m *Map) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	if err := checkName(key); err != nil {
		return driver.Info{}, err
	}
	x, err := m.stat(key)
	if err != nil {
		return driver.Info{}, m.absent(key, err)
	}
	if err := x.object(); err != nil {
		return driver.Info{}, err
	}
	return x.info(), nil
}

// open opens a file of any type for reading, without blocking.
func (m *Map) open(ctx context.Context, key string) (handle, error) {
	if err := ctx.Err(); err != nil {
		return handle{}, err
	}
	if err := checkName(key); err != nil {
		return handle{}, err
	}
	h, err := m.openAs(key, nonblock)
	if err != nil {
		return handle{}, m.absent(key, err)
	}
	return h, nil
}

// openAs opens a path below the root for reading, with openFast if the system supports
// it. flags may contain nonblock and directory.
func (m *Map) openAs(path string, flags int) (handle, error) {
	h, err := m.openFast(path, flags)
	if errors.Is(err, errNoFastOpen) {
		h.f, err = m.root.OpenFile(path, os.O_RDONLY|flags, 0)
	}
	return h, err
}

// stat returns the metadata of the file at key. It follows links below the root.
func (m *Map) stat(key string) (meta, error) {
	x, err := m.statFast(key)
	if !errors.Is(err, errNoFastOpen) {
		return x, err
	}
	info, err := m.root.Stat(key)
	if err != nil {
		return meta{}, err
	}
	return metaOf(info), nil
}

// errNoFastOpen is returned by openFast and statFast if the caller must use package os
// instead.
var errNoFastOpen = errors.New("no fast open")
