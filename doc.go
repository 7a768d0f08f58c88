// Package nczarr reads and writes netCDF data stored as NCZarr or Zarr in directories,
// in zip archives, on web servers and, with the driver of package drivers/s3, in
// buckets. A program needs only this import:
//
//	func mean(ctx context.Context, url string) (_ float64, err error) {
//		ds, err := nczarr.Open(ctx, url)
//		if err != nil {
//			return 0, err
//		}
//		defer ds.Finish(ctx, &err)
//		temp, err := ds.Var("surface/temp")
//		if err != nil {
//			return 0, err
//		}
//		// The tenth time, the northern mid-latitudes, every longitude.
//		a, err := nczarr.ReadUnpacked[float64](ctx, temp, nczarr.At(9), nczarr.Along("lat", nczarr.Between(30, 60)))
//		...
//	}
//
// # Model
//
// A [Dataset] is a tree of groups. A [Group] has dimensions, variables and attributes. A
// [Var] is an array with named dimensions and attributes. The dimensions of a group are
// visible in the groups below it. Names are relative to a group, "surface/temp", or
// absolute, "/surface/temp". Positions are counted from 0. Lengths are numbers of
// elements.
//
// # Reading and writing
//
// [Read] returns the values that a list of selectors selects. [At], [Span], [From] and
// [All] select by position. [Nearest], [Exact] and [Between] select by coordinate
// value, including times. Selectors apply to the dimensions in order; [Along] applies
// one to a named dimension. A dimension without a selector is read whole. The result is
// an [Array]: values in C order (the last dimension varies fastest) and their shape.
// [Write] takes the same selectors.
//
// [ReadUnpacked] applies scale_factor, add_offset and the attributes that mark missing
// values. [ReadTimes] decodes the numbers of a time coordinate. [ReadInto] reads into a
// slice of the caller.
//
// # Closing
//
// Written data is complete in the store when [Dataset.Close] returns nil. The deferred
// call of [Dataset.Finish] above closes the dataset if the function succeeds and aborts
// it if the function fails. It assigns an error of Close to err. Aborting removes a
// dataset that [Create] created and that was never flushed. In a dataset opened with
// [Writable], chunks that are already stored remain, including overwritten ones.
//
// # Errors
//
// Every error has exactly one kind, for use with errors.Is: errors.Is(err,
// nczarr.ErrNoVar). An unreadable group or variable does not make the rest of the
// dataset unreadable: see [Dataset.Problems]. Errors of a context are returned
// unchanged.
//
// # Concurrency
//
// All types are safe for concurrent use, with two exceptions. No method may be called
// during Close, Abort or Finish, and only Finish may be called after them. Concurrent
// writes of overlapping elements happen in an undefined order.
//
// # Plugins and configuration
//
// Storage drivers and codecs run in this process. The package starts no plugins, and
// reads no configuration files and no environment variables other than those of HTTP
// and S3. A program that needs the settings and plugins of nczctl uses core/session. A
// program that needs only plugins uses core/plugin/host. See [WithOptions].
package nczarr
