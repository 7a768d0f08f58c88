// Package ncurl parses the URL or path of a dataset into a [Location]: the
// storage driver, the path, the format and the options.
//
//	loc, err := ncurl.Parse("file:///data/sst.zarr#mode=nczarr,file", nil)
//	// loc.Driver == "file", loc.Path == "/data/sst.zarr"
//
// The package opens no files and reads no environment variables. An [Env]
// supplies everything else that inference needs: rc entries, profiles,
// environment variables, the current directory, and a function that reports what
// exists at a path. The same input therefore always results in the same Location.
// Every decision is recorded as a [Step].
//
// # Grammar
//
//	location = *prefix scheme ":" rest [ "?" query ] [ "#" fragment ] | path [ "#" fragment ]
//	prefix   = "[" key [ "=" value ] "]"
//	fragment = item *( "&" item )
//	item     = key [ "=" value ]
//
// Schemes are file, mem, s3, gs3, http, https and those that drivers declare (Env.Schemes),
// which are recognized only before "//". Keys, values and the path of a URL
// are percent-decoded. A plain path is not decoded, and "~" in it is an ordinary
// character. The part after "#" in a plain path is a fragment only if this package
// recognizes every item in it, as in "x.zarr#mode=zip". A file whose name contains such
// a part needs a file: URL with %23. A fragment with an unknown key is part of the name
// if a file of that name exists, and an error otherwise. A plain path never has a
// prefix or a query.
//
// # Inference
//
// Inference follows the order of netcdf-c: the scheme adds its mode, keys without a
// value are expanded, repeated keys are merged, implied modes are added until no new
// one appears, modes that another mode excludes are removed, and duplicates are removed.
// The package differs from netcdf-c on purpose: keys without a value follow the manual
// of netcdf-c, "mode=" may be omitted, plain http endpoints work, and old spellings are
// accepted. Comments in the tests mark each difference.
//
// Source: netcdf-c libdispatch/dinfermodel.c and ds3util.c, for behavior only.
//
// Package core/open calls Parse, and core/store opens the store at a Location.
package ncurl
