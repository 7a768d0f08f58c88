package cdl

import (
	"runtime"
	"sync"
)

// partValues is the number of values that a goroutine formats at a time. The texts of a part
// take less than a megabyte.
const partValues = 16 << 10

// part holds the texts of consecutive values. Its memory is reused.
type part struct {
	text []byte
	ends []int32 // end of each text
}

// formatParts formats vals, one part per core at a time. It sets r.item to each text in order
// and calls f. The texts of values are independent, but their place in a line is not: f
// decides it.
func formatParts[T any](r *rows, vals []T, one func(dst []byte, v T) []byte, f func()) {
	if len(vals) < partValues/8 { // not worth a goroutine
		for _, v := range vals {
			r.item = one(r.item[:0], v)
			f()
		}
		return
	}
	cores := runtime.GOMAXPROCS(0)
	for len(r.parts) < cores {
		r.parts = append(r.parts, part{})
	}
	for len(vals) > 0 {
		size := min(partValues, (len(vals)+cores-1)/cores)
		var wait sync.WaitGroup
		n := 0
		for ; n < cores && len(vals) > 0; n++ {
			p, own := &r.parts[n], vals[:min(size, len(vals))]
			vals = vals[len(own):]
			wait.Go(func() {
				text, ends := p.text[:0], p.ends[:0] // local, because parts share cache lines
				for _, v := range own {
					text = one(text, v)
					ends = append(ends, int32(len(text))) //nolint:gosec // a number has less than 400 bytes
				}
				p.text, p.ends = text, ends
			})
		}
		wait.Wait()
		for i := range n {
			start := int32(0)
			for _, end := range r.parts[i].ends {
				r.item = append(r.item[:0], r.parts[i].text[start:end]...)
				f()
				start = end
			}
		}
	}
}
