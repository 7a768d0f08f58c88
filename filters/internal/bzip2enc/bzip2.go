// Package bzip2enc encodes bzip2, which the standard library can only decode. The filter
// bz2 uses it.
//
// Source: Julian Seward, bzip2 1.0.8, the format as its decoder reads it.
package bzip2enc

import (
	"context"
	"hash/crc32"
	"math/bits"

	"github.com/seed-695719ce/nczarr/filters/internal/bitio"
)

// MaxEncoded returns the largest encoded size of n bytes.
func MaxEncoded(n int64) int64 { return n + n/4 + 1024 }

// slack is the number of bytes of a block that bzip2 leaves unused.
const slack = 19

// Encoder holds memory for blocks. It is not safe for concurrent use.
type Encoder struct {
	level int
	block []byte // block after the first run-length step
	order sorter
	syms  []uint16 // symbols of the second run-length step
	freq  [258]int32
	used  [256]bool
	out   bitio.Writer
}

// New returns an encoder with blocks of 100 kB times level, which is 1 to 9.
func New(level int) *Encoder { return &Encoder{level: level} }

// Encode writes src to dst as one stream and returns its length. It fails with
// bitio.ErrShort if the stream does not fit, or with the error of ctx, which it checks
// before each block.
func (e *Encoder) Encode(ctx context.Context, dst, src []byte) (int, error) {
	e.out = bitio.NewWriter(dst)
	e.out.Put(24, 'B'<<16|'Z'<<8|'h')
	e.out.Put(8, uint64('0'+e.level))
	sum := uint32(0)
	for len(src) > 0 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := e.runs(src)
		crc := blockSum(src[:n])
		sum = bits.RotateLeft32(sum, 1) ^ crc
		last, start := e.order.transform(e.block)
		e.out.Put(48, 0x314159265359)
		e.out.Put(32, uint64(crc))
		e.out.Put(1, 0)
		e.out.Put(24, uint64(start))
		alphabet := e.moveToFront(last)
		e.writeUsed()
		e.writeCodes(alphabet)
		src = src[n:]
		if e.out.Short() {
			return 0, bitio.ErrShort
		}
	}
	e.out.Put(48, 0x177245385090)
	e.out.Put(32, uint64(sum))
	return e.out.End()
}

// runs fills a block with the run-length encoding of src: a run of 4 to 255 equal bytes
// becomes four of them and a count of the others. It returns the number of bytes of src
// that it used.
func (e *Encoder) runs(src []byte) int {
	top := e.level*100_000 - slack
	e.block = e.block[:0]
	i := 0
	for i < len(src) && len(e.block)+5 <= top {
		b, n := src[i], 1
		for i+n < len(src) && n < 255 && src[i+n] == b {
			n++
		}
		for range min(n, 4) {
			e.block = append(e.block, b)
		}
		if n >= 4 {
			e.block = append(e.block, byte(n-4))
		}
		i += n
	}
	return i
}

// blockSum returns the CRC-32 of bzip2, which is the IEEE CRC-32 with reversed bits.
func blockSum(src []byte) uint32 {
	var buf [512]byte
	crc := uint32(0)
	for len(src) > 0 {
		n := min(len(src), len(buf))
		for i, b := range src[:n] {
			buf[i] = bits.Reverse8(b)
		}
		crc = crc32.Update(crc, crc32.IEEETable, buf[:n])
		src = src[n:]
	}
	return bits.Reverse32(crc)
}

// moveToFront converts bytes to symbols. 0 and 1 are the digits of runs of the front
// byte, the last symbol is the end of the block, and the others are the position of a
// byte plus one. It returns the size of the alphabet.
func (e *Encoder) moveToFront(last []byte) int {
	e.used = [256]bool{}
	for _, b := range last {
		e.used[b] = true
	}
	var list []byte
	var front [256]byte
	for b, in := range e.used {
		if in {
			front[len(list)] = byte(b)
			list = front[:len(list)+1]
		}
	}
	e.freq, e.syms = [258]int32{}, e.syms[:0]
	end := uint16(len(list) + 1)
	run := 0
	for _, b := range last {
		if list[0] == b {
			run++
			continue
		}
		e.flush(&run)
		at := 1
		for list[at] != b {
			at++
		}
		copy(list[1:at+1], list[:at])
		list[0] = b
		e.add(uint16(at + 1))
	}
	e.flush(&run)
	e.add(end)
	return int(end) + 1
}

func (e *Encoder) add(s uint16) {
	e.syms = append(e.syms, s)
	e.freq[s]++
}

// flush writes the length of a run in bijective base 2, the lowest digit first.
func (e *Encoder) flush(run *int) {
	for n := *run; n > 0; n = (n - 1) >> 1 {
		e.add(uint16((n - 1) & 1))
	}
	*run = 0
}

// writeUsed writes the set of used bytes as two levels of 16 bits.
func (e *Encoder) writeUsed() {
	var rows [16]uint64
	groups := uint64(0)
	for b, in := range e.used {
		if in {
			rows[b>>4] |= 0x8000 >> (b & 15)
			groups |= 0x8000 >> (b >> 4)
		}
	}
	e.out.Put(16, groups)
	for _, r := range rows {
		if r != 0 {
			e.out.Put(16, r)
		}
	}
}
