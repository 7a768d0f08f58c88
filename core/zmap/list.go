package zmap

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// MaxDepth is the maximum number of segments below a prefix that a recursive listing
// descends. Callers that walk a store themselves must apply the same limit, because the
// memory for a walk grows with the square of the depth.
const MaxDepth = 4096

// List returns the objects and prefixes below prefix, in byte order of their keys. If
// opts is nil, List is not recursive: it yields only the objects and prefixes directly
// below prefix. The trailing slash of prefix is optional, and "" is the root. The
// sequence is empty if nothing is below prefix. If the driver does not list in order,
// List collects all entries first and fails with ncerr.ErrLimit if they exceed
// Options.MaxList or Options.MaxListBytes. If the driver does not list recursively, List
// walks the store.
//
// The sequence ends after the first error, which is yielded with a zero Entry. Info.Size
// is -1 if the listing does not report sizes. If opts.Info is set, the drivers of nczarr
// report them.
func (z *Map) List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Entry, error] {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	return func(yield func(Entry, error) bool) {
		if err := z.enter(ctx, "list", prefix); err != nil {
			yield(Entry{}, err)
			return
		}
		defer z.leave()
		p, err := normPrefix("list", prefix)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		z.list(ctx, "list", p, o)(yield)
	}
}

// ListAll is like [Map.List], for callers that store all entries. It fails with
// ncerr.ErrLimit if there are more than Options.MaxList entries or Options.MaxListBytes
// bytes of keys.
func (z *Map) ListAll(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		held := tally{z: z}
		for e, err := range z.List(ctx, prefix, opts) {
			if err == nil {
				err = held.add("list", prefix, e.Key)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Search returns the segment after prefix of each key below prefix, in byte order and
// without duplicates. The trailing slash of prefix is optional, and "" is the root. The
// result is empty if nothing is below prefix. Search fails with ncerr.ErrLimit if there
// are more than Options.MaxList segments or Options.MaxListBytes bytes of keys.
//
// Source: netcdf-c libnczarr/zmap.h, nczmap_search.
func (z *Map) Search(ctx context.Context, prefix string) ([]string, error) {
	if err := z.enter(ctx, "search", prefix); err != nil {
		return nil, err
	}
	defer z.leave()
	p, err := normPrefix("search", prefix)
	if err != nil {
		return nil, err
	}
	var names []string
	held := tally{z: z}
	for e, err := range z.list(ctx, "search", p, ListOptions{}) {
		if err == nil {
			err = held.add("search", prefix, e.Key)
		}
		if err != nil {
			return nil, err
		}
		names = append(names, strings.TrimSuffix(e.Key[len(p):], "/"))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// tally counts the entries and the bytes of keys that a listing holds in memory.
type tally struct {
	z     *Map
	n     int
	bytes int64
}

// add counts a key. It fails with ncerr.ErrLimit if there are too many keys or bytes.
func (t *tally) add(op, prefix, key string) error {
	t.n++
	t.bytes += int64(len(key))
	switch {
	case t.n > t.z.maxList:
		return ncerr.Errorf(ncerr.ErrLimit, op, prefix, "the listing has more than the limit of %d entries", t.z.maxList)
	case t.bytes > t.z.maxBytes:
		return ncerr.Errorf(ncerr.ErrLimit, op, prefix, "the keys have more than the limit of %d bytes in total", t.z.maxBytes)
	}
	return nil
}

// maxListedKey is the maximum length in bytes of a listed key if the driver declares no
// limit. It is the maximum length of a name in a zip archive.
const maxListedKey = 1<<16 - 1

// list implements List for a valid prefix. The caller has called enter.
func (z *Map) list(ctx context.Context, op, prefix string, o ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		switch {
		case !z.caps.List:
			yield(Entry{}, ncerr.Errorf(ncerr.ErrUnsupported, op, prefix, "the %s driver does not support list", z.name))
		case o.Recursive && !z.caps.RecursiveList:
			z.walk(ctx, op, prefix, o, 0, &tally{z: z}, yield)
		default:
			z.level(ctx, op, prefix, o, &tally{z: z})(yield)
		}
	}
}

// level returns one listing of the driver, checked and in order. held counts its entries
// until the listing ends.
func (z *Map) level(ctx context.Context, op, prefix string, o ListOptions, held *tally) iter.Seq2[Entry, error] {
	if z.caps.OrderedList {
		return z.ordered(ctx, op, prefix, o)
	}
	return func(yield func(Entry, error) bool) {
		var all []Entry
		defer func(before tally) { *held = before }(*held)
		for e, err := range z.checked(ctx, op, prefix, o) {
			if err == nil {
				err = held.add(op, prefix, e.Key)
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			all = append(all, e)
		}
		slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
		for i, e := range all {
			if i > 0 && e.Key == all[i-1].Key {
				continue // the driver may list an entry of a changing directory twice
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// ordered returns a listing of the driver and checks its order.
func (z *Map) ordered(ctx context.Context, op, prefix string, o ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		last := ""
		for e, err := range z.checked(ctx, op, prefix, o) {
			if err == nil && e.Key <= last {
				e, err = Entry{}, z.internal(op, prefix, "listed %q after %q, which is not in order", e.Key, last)
			}
			if !yield(e, err) || err != nil {
				return
			}
			last = e.Key
		}
	}
}

// checked returns a listing of the driver with every entry checked and errors wrapped.
func (z *Map) checked(ctx context.Context, op, prefix string, o ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for e, err := range z.m.List(ctx, prefix, &o) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = z.checkEntry(op, prefix, o, e)
			}
			if err != nil {
				yield(Entry{}, z.wrap(ctx, op, prefix, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// checkEntry returns an error if e violates the contract of List.
func (z *Map) checkEntry(op, prefix string, o ListOptions, e Entry) error {
	name, below := strings.CutPrefix(e.Key, prefix)
	body := name
	if e.Prefix {
		body = strings.TrimSuffix(name, "/")
	}
	most := z.caps.MaxKey
	if most <= 0 {
		most = maxListedKey
	}
	switch {
	case len(prefix)+len(body) > most:
		return z.internal(op, prefix, "listed a key of %d bytes, more than the limit of %d", len(prefix)+len(body), most)
	case !below || keyFlaw(body) != "" || e.Prefix == (len(body) == len(name)):
		return z.internal(op, prefix, "listed the invalid key %q", e.Key)
	case o.Recursive && e.Prefix:
		return z.internal(op, prefix, "listed the prefix %q recursively", e.Key)
	case !o.Recursive && strings.Contains(body, "/"):
		return z.internal(op, prefix, "listed %q, which is not directly below the prefix", e.Key)
	case e.Key <= o.StartAfter:
		return z.internal(op, prefix, "listed %q, which is not after %q", e.Key, o.StartAfter)
	}
	return nil
}

// walk lists recursively, level by level. Prefixes sort with their trailing slash, so
// the order of the entries is the byte order of the keys. walk reports whether to
// continue.
func (z *Map) walk(ctx context.Context, op, prefix string, o ListOptions, depth int, held *tally, yield func(Entry, error) bool) bool {
	if depth > MaxDepth {
		yield(Entry{}, ncerr.Errorf(ncerr.ErrLimit, op, prefix, "the store has more than the limit of %d levels", MaxDepth))
		return false
	}
	here, after := ListOptions{Info: o.Info}, o.StartAfter
	if rest, ok := strings.CutPrefix(after, prefix); ok {
		seg, _, _ := strings.Cut(rest, "/")
		if seg != "" {
			here.StartAfter = prefix + seg // keys below this segment may sort after the start key
		}
	} else if after > prefix {
		return true // all keys with this prefix sort before the start key
	}
	for e, err := range z.level(ctx, op, prefix, here, held) {
		if err != nil {
			yield(Entry{}, err)
			return false
		}
		if e.Prefix {
			if !z.walk(ctx, op, e.Key, o, depth+1, held, yield) {
				return false
			}
		} else if e.Key > after && !yield(e, nil) {
			return false
		}
	}
	return true
}
