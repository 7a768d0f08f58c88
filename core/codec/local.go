package codec

import "github.com/seed-695719ce/nczarr/core/codec/driver"

// MaxInput is the largest size in bytes of an encoded chunk that is worth
// reading: MaxEncoded, and some room for foreign writers that need more than
// our own encoders. skip is the chunk's filter mask.
func (p *Pipeline) MaxInput(skip uint32) int64 { return p.limit(len(p.specs)-1, decode, skip) }

// LendInput gives memory of n bytes for encoded chunks that DecodeMany reads
// where it is, or nil when there is none: then any memory does. See
// driver.InputLender for its use; it may be called by several goroutines.
func (p *Pipeline) LendInput(n int64) (mem []byte, release func()) {
	if len(p.stages) == 0 {
		return nil, nil
	}
	if l, ok := p.stages[len(p.stages)-1].run.(driver.InputLender); ok {
		return l.LendInput(n)
	}
	return nil, nil
}

// Local reports whether all steps run in this process: then single calls cost
// as little as batches do.
func (p *Pipeline) Local() bool { return p.local() }
