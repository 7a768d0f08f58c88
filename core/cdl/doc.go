// Package cdl writes a dataset as CDL, the text form of netCDF, exactly as ncdump
// prints it, and reads CDL as ncgen does.
//
//	err := cdl.Write(ctx, os.Stdout, ds, &cdl.WriteOptions{HeaderOnly: true})
//
//	file, err := cdl.Parse(r, "ocean.cdl", nil)
//	err = cdl.Generate(ctx, file, "ocean.zarr", &dataset.CreateOptions{...})
//
// [Write] streams: it holds at most a few MiB of values at a time. [Parse] keeps the
// whole input, except the values of variables, as a tree ([File]). [Generate] and [Build]
// turn a tree into a dataset.
//
// The language is netCDF-4 CDL without user-defined types, which NCZarr cannot
// represent. Parse rejects them, except enums if ParseOptions.MapTypes is set.
//
// The package uses core/dataset with its value types (core/chunk, core/dtype, core/zarr)
// and the table of filter numbers in core/codec. conformance and nczctl use it.
//
// Source: the netCDF CDL manual; netcdf-c ncdump and ncgen, whose rules and output are
// reproduced.
package cdl
