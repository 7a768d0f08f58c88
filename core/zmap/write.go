package zmap

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Put replaces the whole object atomically: readers see the old content or
// the new, and after a failure the old. A Body of length 0 is content. body
// must not change until Put returns; nil opts sets no condition.
//
// A read-only Map is ncerr.ErrReadOnly; a store that cannot write, or cannot
// honour the condition, ncerr.ErrUnsupported; a condition that does not hold
// ncerr.ErrObjectExists (IfAbsent) or ncerr.ErrConflict (IfMatch); a key that
// would be a prefix of another, or below one that has content,
// ncerr.ErrObjectExists where the store is PrefixExclusive; an outcome that
// cannot be known ncerr.ErrAmbiguous. An error that is the context's leaves
// open whether the object is the old one or the new; it is not changed any
// more once Put has returned.
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

// put is Put of an open Map.
func (z *Map) put(ctx context.Context, key string, body Body, o PutOptions) (Info, error) {
	if err := z.checkPut(key, body, &o); err != nil {
		return Info{}, err
	}
	info, err := z.m.Put(ctx, key, body, &o)
	return z.stored(ctx, key, body, info, err)
}

// stored judges the driver's answer to a put.
func (z *Map) stored(ctx context.Context, key string, body Body, info Info, err error) (Info, error) {
	if err != nil {
		return Info{}, z.wrap(ctx, "put", key, err)
	}
	if info.Size != body.Size() {
		return Info{}, z.internal("put", key, "stored %d bytes of %d", info.Size, body.Size())
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
		return ncerr.Errorf(ncerr.ErrInvalid, "put", key, "no body")
	case body.Size() < 0:
		return ncerr.Errorf(ncerr.ErrInvalid, "put", key, "body of %d bytes", body.Size())
	case o.IfAbsent && o.IfMatch != "":
		return ncerr.Errorf(ncerr.ErrInvalid, "put", key, "two conditions at once")
	case o.IfAbsent && !z.caps.IfAbsent, o.IfMatch != "" && !z.caps.IfMatch:
		return ncerr.Errorf(ncerr.ErrUnsupported, "put", key, "the %s map has no conditional put of this kind", z.name)
	}
	return nil
}

// checkWrite refuses writes that cannot be, before anything is sent.
func (z *Map) checkWrite(op, key string, able bool) error {
	switch {
	case z.readOnly:
		return ncerr.New(ncerr.ErrReadOnly, op, key, nil)
	case !able:
		return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the %s map cannot %s", z.name, op)
	}
	return nil
}

// Delete removes an object. Deleting what is not there is no error. A
// read-only Map is ncerr.ErrReadOnly, a store that cannot delete
// ncerr.ErrUnsupported.
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

// DeletePrefix removes all objects below prefix, which may be written with or
// without its trailing slash; "" is the whole store. An object whose key is
// the prefix itself stays. It ends at the first failure, and what was removed
// by then stays removed. More than Options.MaxList objects, or
// Options.MaxListBytes in their keys, is ncerr.ErrLimit, and then nothing has
// been removed.
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
