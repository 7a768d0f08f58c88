// Package ncurl turns what a person types for a dataset, a URL or a path,
// into a [Location]: which storage driver opens it, where, as which format,
// and with which options.
//
//	loc, err := ncurl.Parse("file:///data/sst.zarr#mode=nczarr,file", nil)
//	// loc.Driver == "file", loc.Path == "/data/sst.zarr"
//
// The package is pure: it opens nothing, reads no environment variable and
// no file. What inference needs from outside comes as values in an [Env]: rc
// entries, profiles, environment variables, the current directory, and a
// function that says what lies at a path. The same input therefore always
// gives the same Location, and every decision is recorded as a [Step].
//
// # Grammar
//
//	location = *prefix scheme ":" rest [ "?" query ] [ "#" fragment ] | path [ "#" fragment ]
//	prefix   = "[" key [ "=" value ] "]"
//	fragment = item *( "&" item )
//	item     = key [ "=" value ]
//
// Schemes are file, mem, s3, gs3, http and https. Keys, values and the path
// of a URL are percent-decoded; a plain path is taken as it is, "~" included.
// A plain path has a fragment only when every item of it is one this package
// knows ("x.zarr#mode=zip"); a file whose name looks like that is named by a
// file: URL with %23. What looks like a fragment with an unknown key is part of
// the name only if something of that name exists; else it is an error. A plain
// path never has a prefix or a query.
//
// # Inference
//
// The order is that of the reference implementation: the scheme adds its
// mode, value-less keys are expanded, repeated keys are merged, modes are
// inferred to a fixed point, contradicted modes are removed, duplicates go.
// Where this package differs on purpose (value-less macros mean what the
// manual says, "mode=" may be left out, plain http endpoints work, old
// spellings are accepted) the tests say so row by row.
//
// Source: netcdf-c libdispatch/dinfermodel.c and ds3util.c, behaviour only.
//
// Above this package is core/nczarr, which gives the Location to a registry
// of drivers; below it is core/ncerr.
package ncurl
