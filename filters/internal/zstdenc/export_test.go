package zstdenc

// Skip advances the position numbers of e as if it had encoded n more bytes.
func (e *Encoder) Skip(n uint64) { e.finder.next += n }

// AppendHeader exports appendHeader.
var AppendHeader = appendHeader

// NewQuick returns an encoder of level 3 that searches contents of all sizes with
// parseFast.
func NewQuick(checksum bool) *Encoder {
	e := New(Lowest, checksum)
	e.effort.minRows = e.effort.maxRows
	return e
}
