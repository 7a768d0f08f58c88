package codecsuite

import (
	"bytes"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/internal/leak"
)

// lastingCalls encodes and decodes so often that a codec reuses its counters, tables and
// pools many times.
func lastingCalls(t conformance.T, e *Env) {
	c := e.first(t, 200)
	for i := 0; i < 1200 && !t.Failed(); i++ {
		src := c.data(200, patterns[i%len(patterns)], uint64(i))
		c.checkDecode(t, c.encode(t, src), e.value(t, c, src), len(src))
	}
	c = e.first(t, smallest)
	src := c.data(smallest, "smooth", t.Seed())
	enc, value := c.encode(t, src), e.value(t, c, src)
	for i := 0; i < e.effort.tiny && !t.Failed(); i++ {
		if again := c.encode(t, src); !bytes.Equal(again, enc) {
			t.Errorf("call %d encodes the same bytes differently", i+1)
		}
		c.checkDecode(t, enc, value, len(src))
	}
}

// lastingMemory measures memory and descriptors while it opens codecs for many
// different shapes and encodes and decodes large and small chunks, some into buffers
// that are too small and some from damaged input.
func lastingMemory(t conformance.T, e *Env) {
	const calls, size = 64, 1 << 20
	typ := e.first(t, 1000).in.DType
	n := size / int(room(typ, 1))
	c, small := e.open(t, e.params[0], typ, n), e.open(t, e.params[0], typ, 50)
	src, little := data(typ, n, "smooth", t.Seed()), data(typ, 50, "smooth", t.Seed())
	enc, value, littleValue := c.encode(t, src), e.value(t, c, src), e.value(t, small, little)
	var medium []*opened // incompressible and damaged input may leak too
	var noise, encoded [][]byte
	for _, n := range []int{4 << 10, 16 << 10, 64 << 10} {
		n /= int(room(typ, 1))
		m := e.open(t, e.params[0], typ, n)
		medium, noise = append(medium, m), append(noise, m.data(n, "noise", t.Seed()))
		encoded = append(encoded, m.encode(t, noise[len(noise)-1]))
	}
	shapes, tight := 0, make([]byte, 1<<10) // too small even for the first chunk in medium
	short := func(c *opened, dst, src, enc []byte) {
		_, _ = c.Encode(t.Context(), dst[:min(len(dst), len(enc)/2)], src) // checked by codec.ceiling
		_, _ = c.Decode(t.Context(), dst[:min(len(dst), len(src)/2)], enc)
	}
	memory, descriptors, at, err := leak.Find(func() bool {
		for i := range calls {
			c.checkDecode(t, enc, value, len(src))
			if i%16 == 0 {
				c.encode(t, src)
			}
			for k := range 12 { // each call may leak only a little
				enc := small.encode(t, little)
				small.checkDecode(t, enc, littleValue, len(little))
				if k%2 == 0 {
					short(small, tight, little, enc)
				}
				cut := len(enc) * k / 12 // cuts may fall inside the header
				small.decodeDamaged(t, "truncated input", enc[:cut:cut])
			}
			shapes++
			e.open(t, e.params[0], typ, n+shapes)
			for k, m := range medium {
				m.encode(t, noise[k])
				m.decodeDamaged(t, "truncated input", encoded[k][:len(encoded[k])/2:len(encoded[k])/2])
				short(m, tight, noise[k], encoded[k])
			}
		}
		return !t.Failed()
	}, e.target.Usage, calls/2)
	if err != nil {
		t.Fatalf("measure resource usage: %v", err)
	}
	if memory {
		t.Errorf("memory grows with every %d codecs that are opened and used for chunks of %d bytes and smaller ones: %+v", calls, size, at)
	}
	if descriptors {
		t.Errorf("the number of open descriptors grows with every %d codecs that are opened and used: %+v", calls, at)
	}
}
