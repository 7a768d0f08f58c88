package codec

// Local reports whether all steps run in this process: then single calls cost
// as little as batches do.
func (p *Pipeline) Local() bool { return p.local() }
