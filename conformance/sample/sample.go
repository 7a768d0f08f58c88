// Package sample generates data for comparisons of sizes: fields, noisy floats,
// integers, text, and incompressible bytes.
//
// The data is the same on every machine: it is computed with integers and one division,
// which is rounded identically everywhere.
package sample

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// Array is an array in C order, little-endian.
type Array struct {
	// Kind is fields, noisy, integers, text or random.
	Kind string
	// Name is unique within the kind.
	Name string
	// DType is the type of an element as in Zarr v2, such as "<f4".
	DType string
	// Size is the size of an element in bytes.
	Size int
	// Data is the content.
	Data []byte
}

// Arrays returns arrays of every kind, each of at most size bytes.
func Arrays(size int) []Array {
	return []Array{
		make4("fields", "ocean", size, ocean()),
		make4("noisy", "temperature", size, hundredths(2.5)),
		make4("noisy", "quiet", size, hundredths(0.1)),
		integers("packed", "<i2", 2, size, packed()),
		integers("counts", "<i4", 4, size, counts()),
		integers("times", "<i8", 8, size, times()),
		{"text", "log", "|u1", 1, text(size)},
		{"random", "bytes", "|u1", 1, random(size)},
	}
}

// width is the length of a row of the fields.
const width = 360

// missing is the fill value of the fields.
const missing = 9.96921e+36

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 40)) }

// noise returns the sum of eight random bytes minus its mean, with a standard deviation
// of about 209.
func noise(r *rand.Rand) int {
	sum := -4 * 255
	for u := r.Uint64(); u != 0; u >>= 8 {
		sum += int(u & 255)
	}
	return sum
}

// wave is a periodic function of i that consists of parabolas between -1000 and 1000.
func wave(i, period int) int {
	at := 2000*(i%period)/period - 1000 // -1000 to 999
	if at < 0 {
		return -(4 * -at * (1000 + at)) / 1000
	}
	return 4 * at * (1000 - at) / 1000
}

// surface is a smooth function of the element i, from about -1.9 to 1.9 million.
func surface(i int) int {
	y, x := i/width, i%width
	return 1000*wave(y, 180) + 600*wave(x+y/3, 131) + 300*wave(2*y+x, 53)
}

func make4(kind, name string, size int, next func(i int) float32) Array {
	data := make([]byte, size/4*4)
	for i := range size / 4 {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(next(i)))
	}
	return Array{kind, name, "<f4", 4, data}
}

// ocean returns a field of full precision with missing values on land.
func ocean() func(int) float32 {
	r := source(1)
	return func(i int) float32 {
		y, x := i/width, i%width
		if wave(y+x/2, 97)+wave(x, 211) > 900 {
			return missing
		}
		return float32(8*surface(i)+noise(r)) / 1234567
	}
}

// hundredths returns measurements rounded to 0.01, with noise of the given standard
// deviation.
func hundredths(deviation float32) func(int) float32 {
	r, factor := source(2), int(deviation*100*1024/209)
	return func(i int) float32 { return float32(1500+surface(i)/1000+noise(r)*factor/1024) / 100 }
}

func integers(name, dtype string, width, size int, next func(i int) int) Array {
	data := make([]byte, size/width*width)
	for i := range size / width {
		var v [8]byte
		binary.LittleEndian.PutUint64(v[:], uint64(next(i)))
		copy(data[i*width:], v[:width])
	}
	return Array{"integers", name, dtype, width, data}
}

// packed returns measurements in steps of 0.001 with noise of 0.3.
func packed() func(int) int {
	r := source(3)
	return func(i int) int { return surface(i)/120 + noise(r)*3/2 }
}

// counts returns event counts of about 40.
func counts() func(int) int {
	r := source(4)
	return func(int) int { return max(0, 40+noise(r)/33) }
}

// times returns values that increase by 50 to 69 per element.
func times() func(int) int {
	r, now := source(5), 1_700_000_000
	return func(int) int { now += 50 + r.IntN(20); return now }
}

// text returns a log of stations with remarks. The frequencies of its words are as
// unequal as in a natural language.
func text(size int) []byte {
	r := source(6)
	syllables := []string{"ba", "cor", "da", "el", "fi", "gan", "ho", "in", "ju", "ker", "lo", "mi", "nor", "ost", "pa", "qui", "re", "sta", "tu", "ven"}
	words := make([]string, 4000)
	for i := range words {
		for range 1 + r.IntN(4) {
			words[i] += syllables[r.IntN(len(syllables))]
		}
	}
	quality := []string{"good", "good", "good", "doubtful", "bad", "missing"}
	b := make([]byte, 0, size+256)
	for minute := 0; len(b) < size; minute++ {
		b = fmt.Appendf(b, "2026-03-%02dT%02d:%02d:00Z station %04d temperature %d.%02d degC quality %s:",
			1+minute/1440%31, minute/60%24, minute%60, r.IntN(300), 10+wave(minute, 1440)/150, r.IntN(100), quality[r.IntN(len(quality))])
		for range r.IntN(24) {
			rank := r.IntN(1<<16) * r.IntN(1<<16) >> 16 * r.IntN(1<<16) >> 16
			b = append(append(b, ' '), words[rank*len(words)>>16]...)
		}
		b = append(b, '\n')
	}
	return b[:size]
}

func random(size int) []byte {
	r, data := source(7), make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint64() >> 56)
	}
	return data
}
