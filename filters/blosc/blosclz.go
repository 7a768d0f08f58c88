package blosc

import "github.com/seed-695719ce/nczarr/filters/internal/filter"

// maxShort is the stored distance, with all bits set, that marks a long distance. Two
// more bytes follow and are added to it. A stored distance is the distance minus 1.
const maxShort = 8191

// blosclz decodes a BloscLZ stream, which must fill dst exactly.
//
// The stream is a list of literal runs and matches. A byte below 32 starts a literal
// run of one more byte than its value. In other bytes, the upper three bits are the
// match length minus 2; 7 means that bytes are added to it up to and including the
// first one that is not 255. The lower five bits and the next byte are the distance
// minus 1; all ones mean that two more bytes are added. The first byte starts a literal
// run regardless of its upper bits.
//
// Source: c-blosc 1.21, blosclz.c (the format is FastLZ level 2).
func blosclz(dst, src []byte) error {
	if len(src) == 0 {
		return filter.Corrupt("the stream is empty")
	}
	ip, op := 1, 0
	ctrl := int(src[0]) & 31
	for {
		if ctrl < 32 {
			n := ctrl + 1
			if n > len(src)-ip || n > len(dst)-op {
				return filter.Corrupt("a literal run exceeds the stream or the block")
			}
			copy(dst[op:op+n], src[ip:ip+n])
			ip, op = ip+n, op+n
		} else {
			length, dist, next, ok := lzMatch(src, ip, ctrl)
			if !ok || dist > op || length > len(dst)-op {
				return filter.Corrupt("a match exceeds the stream or the block")
			}
			ip = next
			copyMatch(dst, op, dist, length)
			op += length
		}
		if ip >= len(src) {
			break
		}
		ctrl = int(src[ip])
		ip++
	}
	if op != len(dst) {
		return filter.Corrupt("a stream decodes to %d bytes, not %d", op, len(dst))
	}
	return nil
}

// lzMatch reads the rest of a match whose first byte is ctrl.
func lzMatch(src []byte, ip, ctrl int) (length, dist, next int, ok bool) {
	length = ctrl>>5 - 1
	dist = ctrl & 31 << 8
	if length == 6 {
		for more := true; more; ip++ {
			if ip >= len(src) {
				return 0, 0, 0, false
			}
			length += int(src[ip])
			more = src[ip] == 255
		}
	}
	if ip >= len(src) {
		return 0, 0, 0, false
	}
	dist += int(src[ip])
	ip++
	if dist == maxShort {
		if ip+2 > len(src) {
			return 0, 0, 0, false
		}
		dist += int(src[ip])<<8 + int(src[ip+1])
		ip += 2
	}
	return length + 3, dist + 1, ip, true
}

// copyMatch copies length bytes from op-dist to op. If the ranges overlap, the bytes
// repeat.
func copyMatch(dst []byte, op, dist, length int) {
	for length > dist {
		copy(dst[op:op+dist], dst[op-dist:op])
		op, length = op+dist, length-dist
		dist *= 2
	}
	copy(dst[op:op+length], dst[op-dist:op-dist+length])
}
