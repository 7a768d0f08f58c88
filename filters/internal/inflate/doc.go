// Package inflate decodes DEFLATE, zlib and gzip data from one buffer into
// another. Since both are whole, there is no window and no copy of it, which
// makes it about twice as fast as decoders of streams.
//
// It stands below filters/zlib, filters/gzip and filters/blosc, above
// filters/internal/kernel, and uses
// core/ncerr for its errors: ncerr.ErrCorrupt for bad input,
// ncerr.ErrShortBuffer for output that does not fit.
//
// Source: RFC 1950, RFC 1951, RFC 1952.
package inflate
