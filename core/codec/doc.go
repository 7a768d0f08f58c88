// Package codec runs the codec chain of an array. It opens the steps in order, checks
// every size, provides scratch memory, and adds the id of the step to errors. It also
// defines the catalog of codecs, which consists of the descriptions of filters.
//
//	p, err := codec.Open(ctx, steps, driver.Spec{DType: t, Shape: shape}, filters.Lookup)
//	...
//	defer p.Close()
//	n, err := p.Decode(ctx, chunk, stored)
//
// Codecs implement the interfaces of core/codec/driver, in this process or in a plugin.
// The packages core/array, core/cdl and core/dataset use this package.
//
// Stored bytes are untrusted. The spec at each point of the chain, which is fixed when
// the chain is opened, limits the output of a step. A chunk that decodes to more bytes is
// an error, and no buffer grows beyond the limit.
package codec
