package zmap

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Put replaces the whole object atomically. Readers see either the old or the new
// content, and the old content after a failure. A Body may have length 0. body must not
// change until Put returns. If opts is nil, Put has no condition.
//
// Put fails with ncerr.ErrReadOnly on a read-only Map, with ncerr.ErrUnsupported if the
// store does not support writing or the condition, with ncerr.ErrObjectExists (IfAbsent)
// or ncerr.ErrConflict (IfMatch) if the condition does not hold, and with
// ncerr.ErrAmbiguous if the outcome is unknown. If the store is PrefixExclusive, Put
// also fails with ncerr.ErrObjectExists if key is a prefix of an existing key, or the
// reverse. After a context error the object may be the old or the new one, but it no
// longer changes once Put has returned.
func (z *Map) Put(ctx context.Context, key string, body Body, opts *PutOptions) (Info, error) {
	if err := z.enter(ctx, "put", key); err != nil {
		return Info{}, err
	}
	defer z.leave()
	var o PutOptions
	if opts != nil {
		o = *opts
	}
	return z.put(ctx, key, body, o)
}

// put implements Put. The caller has called enter.
func (z *Map) put(ctx context.Context, key string, body Body, o PutOptions) (Info, error) {
	if err := z.checkPut(key, body, &o); err != nil {
		return Info{}, err
	}
	info, err := z.m.Put(ctx, key, body, &o)
	return z.stored(ctx, key, body, info, err)
}

// LendBody returns n bytes of memory for bodies that the driver reads without a copy. It
// returns nil if the driver has no such memory. The caller may then use any memory. See
// driver.BodyLender for the rules. The memory may be used and released after Close.
func (z *Map) LendBody(n int64) (mem []byte, release func()) {
	if l, ok := z.m.(driver.BodyLender); ok {
		return l.LendBody(n)
	}
	return nil, nil
}

// stored checks the driver's result of a put.
func (z *Map) stored(ctx context.Context, key string, body Body, info Info, err error) (Info, error) {
	if err != nil {
		return Info{}, z.wrap(ctx, "put", key, err)
	}
	if info.Size != body.Size() {
		return Info{}, z.internal("put", key, "stored %d of %d bytes", info.Size, body.Size())
	}
	return info, nil
}

func (z *Map) checkPut(key string, body Body, o *PutOptions) error {
	if err := z.checkWrite("put", key, z.caps.Write); err != nil {
		return err
	}
	if err := z.checkKey("put", key); err != nil {
		return err
	}
	switch {
	case body == nil:
		return ncerr.Errorf(ncerr.ErrInvalid, "put", key, "the body is nil")
	case body.Size() < 0:
		return ncerr.Errorf(ncerr.ErrInvalid, "put", key, "the body has negative size %d", body.Size())
	case o.IfAbsent && o.IfMatch != "":
		return ncerr.Errorf(ncerr.ErrInvalid, "put", key, "both IfAbsent and IfMatch are set")
	case o.IfAbsent && !z.caps.IfAbsent:
		return ncerr.Errorf(ncerr.ErrUnsupported, "put", key, "the %s driver does not support the condition IfAbsent", z.name)
	case o.IfMatch != "" && !z.caps.IfMatch:
		return ncerr.Errorf(ncerr.ErrUnsupported, "put", key, "the %s driver does not support the condition IfMatch", z.name)
	}
	return nil
}

// checkWrite fails if the Map is read-only, or if supported, a capability of the
// driver, is false.
func (z *Map) checkWrite(op, key string, supported bool) error {
	switch {
	case z.readOnly:
		return ncerr.New(ncerr.ErrReadOnly, op, key, nil)
	case !supported:
		return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the %s driver does not support %s", z.name, op)
	}
	return nil
}

// Delete removes an object. It succeeds if the object does not exist. It fails with
// ncerr.ErrReadOnly on a read-only Map, and with ncerr.ErrUnsupported if the store does
// not support deletion.
func (z *Map) Delete(ctx context.Context, key string) error {
	if err := z.enter(ctx, "delete", key); err != nil {
		return err
	}
	defer z.leave()
	if err := z.checkWrite("delete", key, z.caps.Delete); err != nil {
		return err
	}
	if err := z.checkKey("delete", key); err != nil {
		return err
	}
	return z.wrap(ctx, "delete", key, z.m.Delete(ctx, key, &driver.DeleteOptions{}))
}

// DeletePrefix removes all objects below prefix. The trailing slash of prefix is
// optional, and "" is the whole store. It does not remove an object whose key is prefix
// itself. DeletePrefix stops at the first failure; objects that were already removed
// stay removed. It fails with ncerr.ErrLimit before it removes anything if there are
// more than Options.MaxList objects or Options.MaxListBytes bytes of keys.
func (z *Map) DeletePrefix(ctx context.Context, prefix string) error {
	if err := z.enter(ctx, "delete", prefix); err != nil {
		return err
	}
	defer z.leave()
	if err := z.checkWrite("delete", prefix, z.caps.Delete && z.caps.List); err != nil {
		return err
	}
	prefix, err := normPrefix("delete", prefix)
	if err != nil {
		return err
	}
	var keys []string
	held := tally{z: z}
	for e, err := range z.list(ctx, "delete", prefix, ListOptions{Recursive: true}) {
		if err == nil {
			err = held.add("delete", prefix, e.Key)
		}
		if err != nil {
			return err
		}
		keys = append(keys, e.Key)
	}
	return z.each(ctx, len(keys), func(i int) error {
		return z.wrap(ctx, "delete", keys[i], z.m.Delete(ctx, keys[i], &driver.DeleteOptions{}))
	})
}
