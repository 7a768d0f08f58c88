// Package inflate decodes DEFLATE, zlib and gzip data from one buffer into another.
// Because both buffers are complete, it neither keeps nor copies a window, which makes it
// about twice as fast as decoders of streams.
//
// It uses filters/internal/kernel for checksums and core/ncerr for errors:
// ncerr.ErrCorrupt for invalid input and ncerr.ErrShortBuffer for output that does not
// fit. filters/zlib, filters/gzip and filters/blosc use it.
//
// Source: RFC 1950, RFC 1951, RFC 1952.
package inflate
