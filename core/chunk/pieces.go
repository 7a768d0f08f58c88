package chunk

// Pieces are the parts of one chunk that a projection needs, of equal size and
// in ascending order.
type Pieces struct {
	N    int64 // how many there are, at least 1
	Size int64 // bytes of each
	// Direct says that a piece is one run of bytes in the selection's array,
	// too.
	Direct bool
}

// Pieces cuts what the projection needs of a chunk into pieces that lie more
// than gap bytes apart: parts that are nearer to each other are one piece, with
// what is between them. It is not ok when the chunk stores its dimensions in
// another order than the array. The largest N is the size of the chunk divided
// by gap.
func (m *Mover) Pieces(proj Projection, gap int64) (p Pieces, ok bool) {
	m.prepare(proj)
	p = Pieces{N: 1, Size: m.run}
	m.near = 0
	extent := m.run
	for k, l := range m.loops {
		if l.in < extent {
			return p, false
		}
		near := m.near == k && l.in-extent <= gap
		extent += (l.n - 1) * l.in
		if near {
			m.near, p.Size = k+1, extent
		} else {
			p.N *= l.n
		}
	}
	p.Direct = m.near == 0
	return p, true
}

// Piece gives where piece i begins in the selection's array and in the chunk,
// in bytes. It belongs to the call of Pieces just before.
func (m *Mover) Piece(i int64) (out, in int64) {
	out, in = m.offOut, m.offIn
	for _, l := range m.loops[m.near:] {
		out += i % l.n * l.out
		in += i % l.n * l.in
		i /= l.n
	}
	return out, in
}

// ScatterPieces copies from the pieces that Pieces gives, which lie one after
// the other in pieces, into the selection's array.
func (m *Mover) ScatterPieces(array, pieces []byte, proj Projection, gap int64) {
	p, ok := m.Pieces(proj, gap)
	if !ok {
		return // nobody has such pieces
	}
	m.square = false
	for i := range p.N {
		out, _ := m.Piece(i)
		m.walk(array, pieces[i*p.Size:(i+1)*p.Size], out, 0, m.near-1, true)
	}
}
