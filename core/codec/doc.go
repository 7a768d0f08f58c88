// Package codec runs the codec chain of an array: it opens the steps in
// order, checks every size, gives scratch memory, and names the step in
// errors. It also holds the catalogue of codecs, which is what their filters
// describe.
//
//	p, err := codec.Open(ctx, steps, driver.Spec{DType: t, Shape: shape}, filters.Lookup)
//	...
//	defer p.Close()
//	n, err := p.Decode(ctx, chunk, stored)
//
// Codecs themselves are below, behind core/codec/driver: in this process, or
// in a plugin. Above are core/manifest (the inner chain of shards) and
// core/nczarr (the read and write engine).
//
// Stored bytes are untrusted here. What a step may put out is bounded by the
// spec that the chain had at that point when it was opened, so a chunk that
// would decode to more is refused and never grows a buffer beyond it.
package codec
