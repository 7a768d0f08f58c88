package zstdenc

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

const (
	longLog  = 17
	shortLog = 16
)

// fastFinder finds the latest earlier position whose first eight bytes, and the latest
// one whose first five bytes, have the same hash as those at the current position. The
// tables hold positions modulo 1<<32. They are cleared before each content, so that every
// entry is an earlier position: the bytes there can be loaded without a check, which the
// processor would often mispredict.
type fastFinder struct {
	long  [1 << longLog]uint32
	short [1 << shortLog]uint32
	mask  uint64 // bits of hashes in use; small contents use fewer
}

// begin prepares for a content of n bytes.
func (f *fastFinder) begin(n int) {
	f.mask = 1<<min(longLog, bits.Len(uint(n))) - 1
	clear(f.long[:f.mask+1])
	clear(f.short[:min(f.mask+1, 1<<shortLog)])
}

// at32 and at64 load from the address p+i.
func at32(p unsafe.Pointer, i int) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(p, i))[:])
}

func at64(p unsafe.Pointer, i int) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, i))[:])
}

func hashLong(v uint64) uint64  { return v * 0x9E3779B185EBCA87 >> (64 - longLog) }
func hashShort(v uint64) uint64 { return v << 24 * 0x9E3779B185EBCA87 >> (64 - shortLog) }

// matchAt returns the length of the common prefix of the bytes at i, which end at end,
// and those at j < i.
func matchAt(p unsafe.Pointer, i, j, end int) int {
	n := i
	for ; n+8 <= end; n, j = n+8, j+8 {
		if x := at64(p, n) ^ at64(p, j); x != 0 {
			return n - i + bits.TrailingZeros64(x)>>3
		}
	}
	for n < end && *(*byte)(unsafe.Add(p, n)) == *(*byte)(unsafe.Add(p, j)) {
		n, j = n+1, j+1
	}
	return n - i
}

// parseFast finds matches in src[at:end] and fills e.literals and e.sequences. It
// searches as the reference implementation does at level 3.
//
// These invariants make the unsafe loads safe: 1 <= i < next <= limit, which is margin
// bytes before end. An entry of a table is 0 or was added by an earlier step, before i
// moved beyond it, and so it is less than i. The latest offset is at most i: it was used
// before, or it is 1. Loads are at these positions, at most one byte after i or two bytes
// before it, and in matchAt, which stops at end.
func (e *Encoder) parseFast(src []byte, at, end int) {
	f := e.fast
	mask := f.mask
	p := unsafe.Pointer(unsafe.SliceData(src))
	limit := end - margin
	low := max(0, end-1<<windowLog) // matches are not before it
	done := at                      // everything before it is in sequences
	for i := max(at, 1); i < limit; {
		rep := e.rep[0]
		v := at64(p, i)
		entry := &f.long[hashLong(v)&mask]
		next := i + 1
		var length, j int
		for {
			h := hashShort(v) & mask
			atShort, atLong := int(f.short[h]), int(*entry)
			*entry, f.short[h] = uint32(i), uint32(i)
			if uint32(v>>8) == at32(p, i+1-rep) { // with a literal before it, the offset has a code
				i++
				j = i - rep
				length = 4 + matchAt(p, i+4, j+4, end)
				break
			}
			w := at64(p, next)
			if at64(p, atLong) == v && atLong >= low {
				j = atLong
				length = 8 + matchAt(p, i+8, j+8, end)
				if next < i+length {
					f.long[hashLong(w)&mask] = uint32(next)
				}
				break
			}
			entry = &f.long[hashLong(w)&mask]
			if at32(p, atShort) == uint32(v) && atShort >= low {
				j = atShort
				length = 4 + matchAt(p, i+4, j+4, end)
				if atLong := int(*entry); at64(p, atLong) == w && atLong >= low {
					if n := 8 + matchAt(p, next+8, atLong+8, end); n > length {
						i, length, j = next, n, atLong
					}
				}
				if next < i+length {
					*entry = uint32(next)
				}
				break
			}
			i, v = next, w
			next += 1 + (next-done)>>6
			if next > limit {
				e.literals = append(e.literals, src[done:end]...)
				return
			}
		}
		start, offset := i, i-j
		for i > done && j > 0 && src[i-1] == src[j-1] {
			i--
			j--
			length++
		}
		e.add(src, done, i, offset, length)
		i += length
		done = i
		if i >= limit {
			break
		}
		k := start + 2 // a match has at least four bytes
		v = at64(p, k)
		f.long[hashLong(v)&mask], f.short[hashShort(v)&mask] = uint32(k), uint32(k)
		f.long[hashLong(at64(p, i-2))&mask] = uint32(i - 2)
		f.short[hashShort(at64(p, i-1))&mask] = uint32(i - 1)
		for i <= limit {
			rep := e.rep[1]
			if i < rep || at32(p, i) != at32(p, i-rep) {
				break
			}
			n := 4 + matchAt(p, i+4, i+4-rep, end)
			v := at64(p, i)
			f.long[hashLong(v)&mask], f.short[hashShort(v)&mask] = uint32(i), uint32(i)
			e.add(src, i, i, rep, n)
			i += n
			done = i
		}
	}
	e.literals = append(e.literals, src[done:end]...)
}
