package rice

import "github.com/seed-695719ce/nczarr/filters/internal/bitio"

// Encode writes src, whose length is padded to whole blocks with its last
// sample, and gives the length. It uses the split codes and the blocks as they
// are; every decoder reads those. src is overwritten when Predict is set. What
// does not fit is bitio.ErrShort.
func Encode(dst []byte, src []uint32, p Params) (int, error) {
	w := bitio.NewWriter(dst)
	per := p.Block * p.Interval
	for len(src) > 0 {
		n := min(per, len(src))
		p.interval(&w, src[:n])
		src = src[n:]
	}
	return w.End()
}

func (p *Params) interval(w *bitio.Writer, v []uint32) {
	if p.Predict {
		remap(v, p.max())
	}
	var buf [256]uint32
	for at := 0; at < len(v); at += p.Block {
		part := v[at:min(at+p.Block, len(v))]
		if len(part) < p.Block {
			n := copy(buf[:], part)
			clear(buf[n:p.Block])
			if !p.Predict {
				for i := n; i < p.Block; i++ {
					buf[i] = part[n-1]
				}
			}
			part = buf[:p.Block]
		}
		ref := 0
		if at == 0 && p.Predict {
			ref = 1
		}
		p.block(w, part, ref)
	}
}

// block writes one block with the cheapest split.
func (p *Params) block(w *bitio.Writer, v []uint32, ref int) {
	last := uint(1)<<p.idBits() - 1
	best, code := uint64(len(v)-ref)*uint64(p.Bits), last
	for k := uint(0); k+1 < last && k < p.Bits; k++ {
		cost := uint64(0)
		for _, x := range v[ref:] {
			cost += uint64(x>>k) + 1 + uint64(k)
		}
		if cost < best {
			best, code = cost, k+1
		}
	}
	w.Put(p.idBits(), uint64(code))
	if code == last {
		for _, x := range v {
			w.Put(p.Bits, uint64(x))
		}
		return
	}
	if ref == 1 {
		w.Put(p.Bits, uint64(v[0]))
	}
	k := code - 1
	for _, x := range v[ref:] {
		for n := x >> k; n > 0; n-- {
			w.Put(1, 0)
		}
		w.Put(1, 1)
	}
	if k > 0 {
		for _, x := range v[ref:] {
			w.Put(k, uint64(x&(1<<k-1)))
		}
	}
}

// remap turns samples into differences but for the first.
func remap(v []uint32, top uint32) {
	before := v[0]
	for i := 1; i < len(v); i++ {
		x := v[i]
		near := min(before, top-before)
		switch d := int64(x) - int64(before); {
		case d >= 0 && d <= int64(near):
			v[i] = uint32(2 * d)
		case d < 0 && -d <= int64(near):
			v[i] = uint32(-2*d - 1)
		case d < 0:
			v[i] = near + uint32(-d)
		default:
			v[i] = near + uint32(d)
		}
		before = x
	}
}

// MaxEncoded is the largest size of n samples in bytes.
func MaxEncoded(n int64, p Params) int64 {
	blocks := (n+int64(p.Block)-1)/int64(p.Block) + 1
	return blocks*(int64(p.Block)*int64(p.Bits)+8)/8 + 16
}
