package zstdenc

// Skip makes e take itself for one that has encoded n bytes since its tables
// were cleared.
func (e *Encoder) Skip(n uint64) { e.finder.next += n }

// AppendHeader is the function for the header of a frame.
var AppendHeader = appendHeader
