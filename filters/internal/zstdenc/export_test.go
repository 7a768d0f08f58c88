package zstdenc

// Skip puts e in the state after encoding n bytes since its tables were cleared.
func (e *Encoder) Skip(n uint64) { e.finder.next += n }

// AppendHeader exports appendHeader.
var AppendHeader = appendHeader
