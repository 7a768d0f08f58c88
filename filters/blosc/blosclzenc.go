package blosc

import (
	"encoding/binary"
	"math/bits"
)

// Parameters of the search for matches.
const (
	lzBits    = 14 // size of the hash in bits
	lzMin     = 4  // shortest match
	lzMaxDist = maxShort + 65534
	lzRun     = 32 // longest literal run
	lzPause   = 6  // at the highest levels, the step grows by one after every 2^6 failed searches
	lzTail    = 2  // literals required at the end, without which c-blosc's decoder stops early
)

// lzTable holds, for each hash, the last position with that hash plus one.
type lzTable [1 << lzBits]uint32

// blosclzEncode writes src as a BloscLZ stream (see blosclz) and returns its length, or 0
// if it does not fit in dst. Higher levels search more thoroughly.
func blosclzEncode(dst, src []byte, t *lzTable, level int) int {
	clear(t[:])
	w := lzWriter{dst: dst}
	pause := uint(lzPause - 4 + level/2)
	from, misses := 0, 0
	for ip := 1; ip+lzMin+4 <= len(src); {
		seq := binary.LittleEndian.Uint32(src[ip:])
		h := seq * 2654435761 >> (32 - lzBits)
		ref := int(t[h]) - 1
		t[h] = uint32(ip) + 1
		if ref < 0 || ip-ref > lzMaxDist || binary.LittleEndian.Uint32(src[ref:]) != seq {
			misses++
			ip += 1 + misses>>pause
			continue
		}
		misses = 0
		n := lzMin + same(src[ip+lzMin:len(src)-lzTail], src[ref+lzMin:])
		w.literals(src[from:ip])
		w.match(n, ip-ref-1)
		ip += n
		from = ip
	}
	w.literals(src[from:])
	if w.full {
		return 0
	}
	return w.at
}

// same returns the number of equal bytes at the start of a and b. a must not be longer
// than b.
func same(a, b []byte) int {
	n := 0
	for n+8 <= len(a) {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// lzWriter writes the literal runs and matches of a stream.
type lzWriter struct {
	dst  []byte
	at   int
	full bool
}

func (w *lzWriter) literals(b []byte) {
	for len(b) > 0 {
		n := min(len(b), lzRun)
		if n+1 > len(w.dst)-w.at {
			w.full = true
			return
		}
		w.dst[w.at] = byte(n - 1)
		copy(w.dst[w.at+1:], b[:n])
		w.at += n + 1
		b = b[n:]
	}
}

// match writes a match of n bytes at distance dist+1.
func (w *lzWriter) match(n, dist int) {
	if need := 6 + n/255; need > len(w.dst)-w.at {
		w.full = true
		return
	}
	short, code := min(dist, maxShort), min(n-2, 7)
	w.dst[w.at] = byte(code<<5 | short>>8)
	w.at++
	if code == 7 {
		rest := n - 9
		for ; rest >= 255; rest -= 255 {
			w.dst[w.at] = 255
			w.at++
		}
		w.dst[w.at] = byte(rest)
		w.at++
	}
	w.dst[w.at] = byte(short)
	w.at++
	if short == maxShort {
		binary.BigEndian.PutUint16(w.dst[w.at:], uint16(dist-maxShort))
		w.at += 2
	}
}
