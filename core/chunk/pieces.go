package chunk

// Pieces describes the parts of one chunk that a projection needs. The pieces have equal
// size and are in ascending order.
type Pieces struct {
	N    int64 // number of pieces, at least 1
	Size int64 // size of each piece in bytes
	// Direct is set if each piece is also one run of bytes in the selection's array.
	Direct bool
}

// Pieces divides the parts of a chunk that the projection needs into pieces that are
// more than gap bytes apart. It combines parts that are closer together, including the
// bytes between them, into one piece. ok is false if the chunk stores its dimensions in
// another order than the array. The largest possible N is the size of the chunk divided
// by gap.
func (m *Mover) Pieces(proj Projection, gap int64) (p Pieces, ok bool) {
	m.prepare(proj)
	p = Pieces{N: 1, Size: m.run}
	m.merged = 0
	extent := m.run
	for k, l := range m.loops {
		if l.in < extent {
			return p, false
		}
		merge := m.merged == k && l.in-extent <= gap
		extent += (l.n - 1) * l.in
		if merge {
			m.merged, p.Size = k+1, extent
		} else {
			p.N *= l.n
		}
	}
	p.Direct = m.merged == 0
	return p, true
}

// Piece returns the offsets in bytes of piece i in the selection's array and in the
// chunk. The pieces are the result of the most recent call to Pieces.
func (m *Mover) Piece(i int64) (out, in int64) {
	out, in = m.offOut, m.offIn
	for _, l := range m.loops[m.merged:] {
		out += i % l.n * l.out
		in += i % l.n * l.in
		i /= l.n
	}
	return out, in
}

// ScatterPieces copies into the selection's array from pieces, which is the
// concatenation of the pieces described by Pieces.
func (m *Mover) ScatterPieces(array, pieces []byte, proj Projection, gap int64) {
	p, ok := m.Pieces(proj, gap)
	if !ok {
		return // the chunk cannot be read in pieces
	}
	m.square = false
	for i := range p.N {
		out, _ := m.Piece(i)
		m.walk(array, pieces[i*p.Size:(i+1)*p.Size], out, 0, m.merged-1, true)
	}
}
