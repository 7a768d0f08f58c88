package codec

import "github.com/seed-695719ce/nczarr/core/codec/driver"

// MaxInput returns the maximum size in bytes of an encoded chunk that can be decoded. It
// is larger than MaxEncoded, because chunks from other writers may be larger than chunks
// from the encoders of this module. skip is the chunk's filter mask.
func (p *Pipeline) MaxInput(skip uint32) int64 { return p.limit(len(p.specs)-1, decode, skip) }

// LendInput returns n bytes of memory for encoded chunks that DecodeMany reads without a
// copy. It returns nil if the chain has no such memory. The caller may then use any
// memory. See driver.InputLender for the rules. LendInput is safe for concurrent use.
func (p *Pipeline) LendInput(n int64) (mem []byte, release func()) {
	if len(p.stages) == 0 {
		return nil, nil
	}
	return p.stages[len(p.stages)-1].lend(n)
}

// LendDecoded is like LendInput, for decoded chunks that EncodeMany reads.
func (p *Pipeline) LendDecoded(n int64) (mem []byte, release func()) {
	if len(p.stages) == 0 {
		return nil, nil
	}
	return p.stages[0].lend(n)
}

func (s *stage) lend(n int64) (mem []byte, release func()) {
	if l, ok := s.run.(driver.InputLender); ok {
		return l.LendInput(n)
	}
	return nil, nil
}

// Local reports whether all steps run in this process. If so, single calls are as cheap
// as batches.
func (p *Pipeline) Local() bool { return p.local() }

// Scratch returns the maximum size in bytes of the memory that one job uses in this process
// between the steps of the chain.
func (p *Pipeline) Scratch() int64 {
	if n := len(p.ids); len(p.stages) == 1 && p.stages[0].run != nil || n < 2 {
		return 0
	} else if n == 2 {
		return p.widest
	}
	return 2 * p.widest
}
