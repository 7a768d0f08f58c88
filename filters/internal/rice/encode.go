package rice

import "github.com/seed-695719ce/nczarr/filters/internal/bitio"

// Encoder writes a stream with split codes and uncompressed blocks, which every decoder
// reads. It is not safe for concurrent use.
type Encoder struct {
	Params
	w    bitio.Writer
	last uint // the code of an uncompressed block
	k    uint // the split of the previous block
}

// NewEncoder returns an Encoder that writes to dst.
func NewEncoder(dst []byte, p Params) Encoder {
	return Encoder{Params: p, w: bitio.NewWriter(dst), last: 1<<p.idBits() - 1}
}

// Next writes the next interval, of Len samples below 2^Bits. It overwrites v if Predict
// is set.
func (e *Encoder) Next(v []uint32) {
	if e.Predict {
		remap(v, e.max())
	}
	ref := 0
	if e.Predict {
		ref = 1
	}
	for len(v) > 0 {
		e.block(v[:e.Block], ref)
		v, ref = v[e.Block:], 0
	}
}

// End returns the length of the stream in bytes, or bitio.ErrShort if it does not fit.
func (e *Encoder) End() (int, error) { return e.w.End() }

// block writes one block with the cheapest split, or uncompressed.
func (e *Encoder) block(v []uint32, ref int) {
	cost := e.split(v[ref:])
	if cost >= uint64(len(v)-ref)*uint64(e.Bits) {
		e.w.Put(e.idBits(), uint64(e.last))
		for _, x := range v {
			e.w.Put(e.Bits, uint64(x))
		}
		return
	}
	e.w.Put(e.idBits(), uint64(e.k+1))
	if ref == 1 {
		e.w.Put(e.Bits, uint64(v[0]))
	}
	for _, x := range v[ref:] {
		n := x >> e.k
		for ; n >= 32; n -= 32 {
			e.w.Put(32, 0)
		}
		e.w.Put(uint(n)+1, 1)
	}
	if e.k == 0 {
		return
	}
	low := uint32(1)<<e.k - 1
	for _, x := range v[ref:] {
		e.w.Put(e.k, uint64(x&low))
	}
}

// split sets k to the cheapest split of v and returns its cost in bits. The savings of
// one more bit never grow with k, so a descent from the split of the previous block finds
// the best.
func (e *Encoder) split(v []uint32) uint64 {
	most := min(e.last-2, e.Bits-1)
	k, best := e.k, splitCost(v, e.k)
	for k < most {
		c := splitCost(v, k+1)
		if c >= best {
			break
		}
		k, best = k+1, c
	}
	for k > 0 {
		c := splitCost(v, k-1)
		if c > best {
			break
		}
		k, best = k-1, c
	}
	e.k = k
	return best
}

// splitCost returns the size of v in bits if k low bits are split off.
func splitCost(v []uint32, k uint) uint64 {
	sum := uint64(len(v)) * uint64(k+1)
	for _, x := range v {
		sum += uint64(x >> k)
	}
	return sum
}
