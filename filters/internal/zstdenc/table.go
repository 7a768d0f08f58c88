package zstdenc

import (
	"math"
	"math/bits"
)

const maxTableLog = 9

// table encodes codes with finite state entropy.
//
// Source: RFC 8878, section 4.1.
type table struct {
	log uint
	// norm is the number of states of each code, of 1<<log in total. -1 means a single
	// state at the end of the table.
	norm [64]int16
	// states holds the states of code 0, then the states of code 1, and so on.
	states [1 << maxTableLog]uint16
	codes  [64]step
}

// step is how a code changes the state.
type step struct {
	bits uint32 // the high half of state+bits is the number of bits to write
	find int32  // the remaining high bits of state plus find are the index in states
}

// next returns the state that follows state after c, which writes n bits.
func (t *table) next(c *step, state uint32, n uint) uint32 {
	return uint32(t.states[(int32(state>>(n&31))+c.find)&(1<<maxTableLog-1)])
}

// one encodes codes that are all equal, with no bits.
var one table

func newTable(log uint, norm ...int16) *table {
	t := &table{log: log}
	copy(t.norm[:], norm)
	t.build()
	return t
}

// build computes states and codes from norm.
func (t *table) build() {
	size := 1 << t.log
	var owner [1 << maxTableLog]uint8 // owner of each state: a code
	var index [64]int                 // next index in states of each code
	last, sum := size-1, 0
	for code, n := range t.norm {
		if n == 0 {
			continue
		}
		index[code] = sum
		c := &t.codes[code]
		if n < 0 {
			owner[last] = uint8(code)
			last--
			n = 1
		}
		least := uint32(t.log) // number of bits
		if n > 1 {
			least -= uint32(bits.Len(uint(n-1))) - 1
		}
		c.bits = least<<16 - uint32(n)<<least
		c.find = int32(sum) - int32(n)
		sum += int(n)
	}
	at := 0
	for code, n := range t.norm {
		for range n {
			owner[at] = uint8(code)
			for at = (at + size>>1 + size>>3 + 3) % size; at > last; {
				at = (at + size>>1 + size>>3 + 3) % size
			}
		}
	}
	for i, code := range owner[:size] {
		t.states[index[code]] = uint16(size + i)
		index[code]++
	}
}

// first returns a state for the code that is written first.
func (t *table) first(code uint8) uint32 {
	c := &t.codes[code&63]
	n := (c.bits + 1<<15) >> 16
	return uint32(t.states[(int32((n<<16-c.bits)>>n)+c.find)&(1<<maxTableLog-1)])
}

// approximate sets norm to the best approximation of the counts of codes. n is the total
// of the counts, of which at least two must not be 0.
func (t *table) approximate(counts *[64]uint32, n, log int) {
	t.log = uint(log)
	left := 1 << log
	for code, k := range counts {
		t.norm[code] = 0
		if k > 0 {
			t.norm[code] = int16(max(1, (int(k)<<log+n/2)/n))
			left -= int(t.norm[code])
		}
	}
	for left != 0 {
		step, best := 1, -1
		if left < 0 {
			step = -1
		}
		for code, k := range counts {
			if k == 0 || step < 0 && t.norm[code] == 1 {
				continue
			}
			// A step changes the number of bits of a code by about count / (norm ± 1/2).
			if best >= 0 {
				a := int(k) * (2*int(t.norm[best]) + step)
				b := int(counts[best]) * (2*int(t.norm[code]) + step)
				if step > 0 && a <= b || step < 0 && a >= b {
					continue
				}
			}
			best = code
		}
		t.norm[best] += int16(step)
		left -= step
	}
}

// logs holds 256 times the logarithms to base 2.
var logs = func() (l [1<<maxTableLog + 1]int) {
	for i := range l {
		l[i] = int(math.Round(256 * math.Log2(float64(max(i, 1)))))
	}
	return l
}()

// cost returns the approximate number of bits of the counted codes, or math.MaxInt if
// the table lacks one of them.
func (t *table) cost(counts *[64]uint32) int {
	sum := 0
	for code, k := range counts {
		if k == 0 {
			continue
		}
		n := t.norm[code]
		if n == 0 {
			return math.MaxInt
		}
		sum += int(k) * (int(t.log)<<8 - logs[max(n, -n)])
	}
	return sum>>8 + int(t.log)
}

// describe appends the description of norm, which must not have negative values.
func (t *table) describe(dst []byte) []byte {
	bits, have := uint32(t.log-5), uint(4)
	put := func(v int, n uint) {
		bits |= uint32(v) << have
		for have += n; have >= 8; have -= 8 {
			dst = append(dst, byte(bits))
			bits >>= 8
		}
	}
	// Values from 0 to left are possible. The smaller ones take one bit less.
	for code, left := 0, 1<<t.log+1; left > 1; {
		n := int(t.norm[code])
		code++
		width := uint(0)
		for 1<<width <= left {
			width++
		}
		short := 1<<width - 1 - left
		switch v := n + 1; {
		case v < short:
			put(v, width-1)
		case v >= 1<<(width-1):
			put(v+short, width)
		default:
			put(v, width)
		}
		left -= n
		if n == 0 {
			run := 0
			for ; t.norm[code] == 0; code++ {
				run++
			}
			for ; run >= 3; run -= 3 {
				put(3, 2)
			}
			put(run, 2)
		}
	}
	if have > 0 {
		dst = append(dst, byte(bits))
	}
	return dst
}
