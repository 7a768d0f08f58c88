// Package zmap provides the portable Map, NCZarr's mapping of keys to objects, on top of
// any storage driver. It validates keys and prefixes, refuses writes to a read-only Map
// before it calls the driver, emulates or refuses missing capabilities, checks the
// driver's results, and adds the operation and key to errors.
//
//	m := zmap.New(drv, &zmap.Options{Name: "file", ReadOnly: true})
//	defer m.Close(ctx)
//	doc, info, err := m.ReadAll(ctx, "temp/.zarray", 1<<20)
//
// # Keys
//
// A key is UTF-8 without a leading or trailing slash, without empty, "." or ".."
// segments and without control characters ("temp/0.0"). Messages show a key with a leading
// slash. [Path] and [Key] convert between the two forms. A prefix is empty (the root) or a
// key followed by a slash. A prefix consists of whole segments: "a/b" is below "a", but
// "ab" is not.
//
// # Existence
//
// A key exists only if it has content, which may have length 0. For any other key, even
// one that is a prefix of others, methods return ncerr.ErrNotFound. They return that
// kind in no other case. A failed request, an unmounted file system, or an error caused
// by another missing file is ncerr.ErrIO.
//
// Drivers implement the interface in core/zmap/driver. The package core/zmap/layer
// provides decorators for drivers, and core/zmap/memmap a store in memory. core/manifest
// and core/dataset use this package.
//
// Source: netcdf-c libnczarr/zmap.h. Where its drivers differ from each other, the rules
// of core/zmap/driver apply.
package zmap
