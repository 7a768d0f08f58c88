package zstdenc

// Skip advances the position numbers of e as if it had encoded n more bytes.
func (e *Encoder) Skip(n uint64) { e.finder.next += n }

// AppendHeader exports appendHeader.
var AppendHeader = appendHeader
