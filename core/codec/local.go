package codec

// MaxInput is the largest size in bytes of an encoded chunk that is worth
// reading: MaxEncoded, and some room for foreign writers that need more than
// our own encoders. skip is the chunk's filter mask.
func (p *Pipeline) MaxInput(skip uint32) int64 { return p.limit(len(p.specs)-1, decode, skip) }

// Local reports whether all steps run in this process: then single calls cost
// as little as batches do.
func (p *Pipeline) Local() bool { return p.local() }
