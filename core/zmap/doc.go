// Package zmap is the portable Map: the key-to-object abstraction of NCZarr
// in front of any storage driver. Logic that every store needs stands here
// once: keys and prefixes are validated, writes to a read-only Map are refused
// before anything is sent, undeclared capabilities are refused or emulated,
// answers of the driver are checked, and errors get their operation and key.
//
//	m := zmap.New(drv, &zmap.Options{Name: "file", ReadOnly: true})
//	defer m.Close(ctx)
//	doc, info, err := m.ReadAll(ctx, "temp/.zarray", 1<<20)
//
// # Keys
//
// A key is UTF-8 without a leading or trailing slash, without empty, "." or
// ".." segments and without control characters ("temp/0.0"). People see the
// zmap form with a leading slash, which [Path] and [Key] convert. A prefix is
// empty (the root) or a key followed by a slash. One key contains another by
// whole segments: "a" contains "a/b", never "ab".
//
// # What exists
//
// Only content-bearing keys exist, and content of length 0 is content. A key
// without content, absent or only a prefix of others, is ncerr.ErrNotFound,
// and that kind is given for nothing else: a failed request, a vanished mount
// or an error whose cause deeper down is a missing file is ncerr.ErrIO.
//
// Below stands core/zmap/driver, the interface that drivers implement;
// core/zmap/layer has decorators for such drivers and core/zmap/memmap keeps a
// store in memory. Above stand core/manifest and core/nczarr.
//
// Source: netcdf-c libnczarr/zmap.h; where its drivers differ from each other,
// the rules of core/zmap/driver hold.
package zmap
