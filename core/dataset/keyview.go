package dataset

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// keyView presents a dataset whose chunks are not stored under keys as a Zarr store: the
// documents of the dataset, and the chunks of its arrays, or the shards that contain them,
// under the keys that the documents imply. It is read-only.
type keyView struct {
	driver.Base
	ds     *Dataset
	arrays []*Var // one variable of each array
	byKey  map[string]*Var
}

var _ driver.Map = (*keyView)(nil)

// KeyView returns a read-only Map that presents the dataset as a Zarr store: its documents, and
// its chunks or shards under the keys that the documents imply. It is for datasets whose chunks
// are parts of other files. The Map owns d: closing it closes d.
func (d *Dataset) KeyView() *zmap.Map {
	k := &keyView{ds: d, byKey: make(map[string]*Var)}
	d.top.each(func(g *Group) {
		for _, v := range g.vars.list {
			if key := v.key(); k.byKey[key] == nil { // variables can be fields of one array
				k.byKey[key] = v
				k.arrays = append(k.arrays, v)
			}
		}
	})
	return zmap.New(k, &zmap.Options{Name: d.m.Name(), ReadOnly: true, MaxList: d.opts.Limits.MaxKeys, MaxListBytes: d.opts.Limits.MaxListing})
}

// Capabilities implements driver.Map.
func (k *keyView) Capabilities() driver.Capabilities {
	return driver.Capabilities{Ranges: true, List: true, RecursiveList: true, IfMatch: true, Latency: k.ds.m.Capabilities().Latency}
}

// Close implements driver.Map.
func (k *keyView) Close(ctx context.Context) error { return k.ds.Close(ctx) }

// chunks returns the Source of the objects of an array.
func (v *Var) chunks() manifest.Source {
	v.source()
	return v.data.base
}

// locate returns the location of the chunk at a key. The location is Absent if the key is not
// that of a chunk.
func (k *keyView) locate(ctx context.Context, key string) (manifest.Location, error) {
	for at := len(key); at >= 0; at = strings.LastIndexByte(key[:at], '/') {
		prefix := ""
		if at < len(key) {
			prefix = key[:at+1]
		}
		v := k.byKey[prefix]
		if v == nil || at == len(key) && !v.data.atRoot {
			continue
		}
		index := v.meta.Keys.Parse(key[len(prefix):], len(v.meta.Chunks))
		if index == nil {
			break
		}
		out := make([]manifest.Location, 1)
		err := v.chunks().Locate(ctx, [][]int64{index}, out)
		if err == nil && out[0].FilterMask != 0 {
			err = ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the chunk has filter mask %#x, which a Zarr store cannot express", out[0].FilterMask)
		}
		return out[0], err
	}
	return manifest.Location{Absent: true}, nil
}

// Get implements driver.Map.
func (k *keyView) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	data, info, err := k.ds.m.Get(ctx, key, opts, alloc)
	if ncerr.KindOf(err) != ncerr.ErrNotFound {
		return data, documentInfo(info), err
	}
	at, err := k.locate(ctx, key)
	switch {
	case err != nil:
		return nil, driver.Info{}, err
	case at.Absent:
		return nil, driver.Info{}, ncerr.ErrNotFound
	case at.Inline != nil:
		return getInline(at.Inline, opts, alloc)
	}
	o := *opts
	if o.IfMatch == "" {
		o.IfMatch = at.Version
	}
	if at.Range != nil {
		start, n := int64(0), at.Range.Length
		if opts.Range != nil {
			if start, n, err = opts.Range.Resolve(n); err != nil {
				return nil, driver.Info{Size: at.Range.Length}, err
			}
		}
		o.Range = &driver.Range{Offset: at.Range.Offset + start, Length: n}
	}
	data, info, err = at.Map.Get(ctx, at.Key, &o, alloc)
	return data, chunkInfo(&at, info), chunkError(&at, err)
}

// getInline returns the content of an inline chunk.
func getInline(content []byte, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	info := driver.Info{Size: int64(len(content))}
	if opts.Range != nil {
		start, n, err := opts.Range.Resolve(info.Size)
		if err != nil {
			return nil, info, err
		}
		content = content[start : start+n]
	}
	switch {
	case opts.IfMatch != "":
		return nil, info, ncerr.ErrConflict // inline chunks have no version
	case opts.Limit > 0 && int64(len(content)) > opts.Limit:
		return nil, info, ncerr.Errorf(ncerr.ErrLimit, "", "", "the chunk has %d bytes, more than the limit of %d", len(content), opts.Limit)
	}
	dst, err := alloc(int64(len(content)))
	if err != nil {
		return nil, info, err
	}
	copy(dst, content)
	return dst, info, nil
}

// documentInfo returns the properties of a document without its time, which is that of Open.
func documentInfo(info driver.Info) driver.Info {
	info.ModTime = time.Time{}
	return info
}

// chunkInfo returns the properties of a chunk in an object with the given properties.
func chunkInfo(at *manifest.Location, info driver.Info) driver.Info {
	if at.Range != nil {
		info.Size, info.CRC32C = at.Range.Length, ""
	}
	return info
}

// chunkError returns the error for a chunk whose object cannot be read. A missing object is not
// a missing chunk.
func chunkError(at *manifest.Location, err error) error {
	switch kind := ncerr.KindOf(err); {
	case kind == ncerr.ErrNotFound && at.Required:
		return ncerr.New(ncerr.ErrNoObject, "", zmap.Path(at.Key), err)
	case kind == ncerr.ErrRange && at.Range != nil:
		return ncerr.New(ncerr.ErrCorrupt, "", zmap.Path(at.Key), err)
	}
	return err
}

// Stat implements driver.Map.
func (k *keyView) Stat(ctx context.Context, key string) (driver.Info, error) {
	info, err := k.ds.m.Stat(ctx, key)
	if ncerr.KindOf(err) != ncerr.ErrNotFound {
		return documentInfo(info), err
	}
	at, err := k.locate(ctx, key)
	switch {
	case err != nil:
		return driver.Info{}, err
	case at.Absent:
		return driver.Info{}, ncerr.ErrNotFound
	case at.Inline != nil:
		return driver.Info{Size: int64(len(at.Inline))}, nil
	}
	info, err = at.Map.Stat(ctx, at.Key)
	if err == nil && at.Range != nil {
		_, _, err = at.Range.Resolve(info.Size)
	}
	return chunkInfo(&at, info), chunkError(&at, err)
}

// List implements driver.Map. The sizes of chunks come from the table of chunks, without a
// request.
func (k *keyView) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		seen := make(map[string]bool) // prefixes
		add := func(e driver.Entry) bool {
			if rest := e.Key[len(prefix):]; !o.Recursive && !e.Prefix {
				if slash := strings.IndexByte(rest, '/'); slash >= 0 {
					e = driver.Entry{Key: e.Key[:len(prefix)+slash+1], Prefix: true, Info: driver.Info{Size: -1}}
				}
			}
			if e.Prefix {
				if seen[e.Key] {
					return true
				}
				seen[e.Key] = true
			}
			return e.Key <= o.StartAfter || yield(e, nil)
		}
		for e, err := range k.ds.m.List(ctx, prefix, &driver.ListOptions{Recursive: o.Recursive, Info: o.Info}) {
			if err != nil {
				yield(driver.Entry{}, err)
				return
			}
			e.Info = documentInfo(e.Info)
			if !add(e) {
				return
			}
		}
		for _, v := range k.arrays {
			base := v.key()
			above := strings.HasPrefix(base, prefix)
			if above && !o.Recursive && len(base) > len(prefix) || !above && !strings.HasPrefix(prefix, base) {
				continue // its documents were listed, or it is elsewhere
			}
			for ch, err := range v.chunks().Chunks(ctx, nil) {
				if err != nil {
					yield(driver.Entry{}, err)
					return
				}
				key := string(v.meta.Keys.Append([]byte(base), ch.Index))
				if strings.HasPrefix(key, prefix) && !add(driver.Entry{Key: key, Info: driver.Info{Size: ch.Size}}) {
					return
				}
			}
		}
	}
}
