// Package nczarr reads and writes netCDF data stored as NCZarr or Zarr: in
// directories, zip archives, on web servers and, with one more import, in
// buckets. This import is all that a program needs:
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
// A [Dataset] is a tree of groups. A [Group] has dimensions, variables and
// attributes; a [Var] is an array with named dimensions and attributes. The
// dimensions of a group are visible in the groups below it. Names are relative
// to a group, "surface/temp", or absolute, "/surface/temp". All positions and
// lengths count elements from 0.
//
// # Reading and writing
//
// [Read] returns the values that a list of selectors picks: [At], [Span],
// [From] and [All] by position, [Nearest], [Exact] and [Between] by the value
// of the coordinate, times included. A selector counts for the next dimension,
// or for the one that [Along] names; dimensions without one are taken whole.
// The result is an [Array]: values in C order (the last dimension varies
// fastest) beside their shape. [Write] takes the same selectors.
//
// [ReadUnpacked] applies scale_factor, add_offset and the attributes for missing
// values; [ReadTimes] decodes the numbers of a time coordinate. [ReadInto] reads
// into a slice of the caller.
//
// # Closing
//
// What was written is complete when [Dataset.Close] returns nil. The deferred
// call of [Dataset.Finish] above closes the dataset if the function succeeds,
// aborts it if it fails, and puts an error of closing into err. Aborting removes
// what [Create] made; of a dataset opened with [Writable] the chunks that are
// already stored stay, also those written over others.
//
// # Errors
//
// Every error is of one kind, which errors.Is finds: errors.Is(err,
// nczarr.ErrNoVar). A group or variable that cannot be understood does not make
// the rest unreadable: see [Dataset.Problems]. The error of a context is
// returned as it is.
//
// # Concurrency
//
// All types are safe for concurrent use, except that nothing may be called
// during Close, Abort and Finish, nor after them but Finish, and that two writes of overlapping
// elements land in no particular order.
//
// # Plugins and configuration
//
// Storage drivers and codecs run in this process; none is started, and no
// configuration file or environment variable is read but for what HTTP and S3
// need. A program that wants the settings and plugins of nczctl takes both from
// core/session; core/plugin/host alone gives plugins. See [WithOptions].
package nczarr
