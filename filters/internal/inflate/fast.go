package inflate

import (
	"encoding/binary"
	"unsafe"
)

// The fast loop reads 8 bytes and writes up to writeSlack bytes at a time without bounds
// checks. It stops readSlack and writeSlack bytes before the ends of the buffers, and
// slow decodes the rest.
const (
	readSlack  = 16
	writeSlack = 258 + 4 + 32
)

func ld(p unsafe.Pointer) uint64    { return binary.LittleEndian.Uint64((*[8]byte)(p)[:]) }
func st(p unsafe.Pointer, v uint64) { binary.LittleEndian.PutUint64((*[8]byte)(p)[:], v) }

// fast decodes while both buffers have room for a whole step. It reports whether it
// reached the end of the block.
//
// These invariants make the unsafe accesses safe: at the start of the loop, ip+readSlack
// <= len(src) and op+writeSlack <= len(dst). One round refills twice, each time reading 8
// bytes at ip and advancing it by at most 7, so the last byte read is before ip+15. It
// writes at most 4 literals and one match of at most 258 bytes, rounded up to the next
// multiple of 16 or, for short distances, of 8. It checks that a distance is at most op
// before it copies a match.
func (d *Decoder) fast() (bool, error) {
	ipEnd, opEnd := len(d.src)-readSlack, len(d.dst)-writeSlack
	ip, op, hold, have := d.ip, d.op, d.hold, uint64(d.have)
	if ip > ipEnd || op > opEnd {
		return false, nil
	}
	src, dst := unsafe.Pointer(unsafe.SliceData(d.src)), unsafe.Pointer(unsafe.SliceData(d.dst))
	lit, dists := &d.lit, &d.dist
	end := false
	var fault error
	for ip <= ipEnd && op <= opEnd {
		hold |= ld(unsafe.Add(src, ip)) << (have & 63)
		ip += int((63 - have) >> 3)
		have |= 56
		e := lit[hold&(1<<litBits-1)]
		if e&flagLiteral != 0 { // at most 11 bits each: 44 of 56
			hold >>= e & 31
			have -= uint64(e & 31)
			*(*byte)(unsafe.Add(dst, op)) = byte(e >> 16)
			op++
			e = lit[hold&(1<<litBits-1)]
			if e&flagLiteral != 0 {
				hold >>= e & 31
				have -= uint64(e & 31)
				*(*byte)(unsafe.Add(dst, op)) = byte(e >> 16)
				op++
				e = lit[hold&(1<<litBits-1)]
				if e&flagLiteral != 0 {
					hold >>= e & 31
					have -= uint64(e & 31)
					*(*byte)(unsafe.Add(dst, op)) = byte(e >> 16)
					op++
					e = lit[hold&(1<<litBits-1)]
					if e&flagLiteral != 0 {
						hold >>= e & 31
						have -= uint64(e & 31)
						*(*byte)(unsafe.Add(dst, op)) = byte(e >> 16)
						op++
						continue
					}
				}
			}
			hold |= ld(unsafe.Add(src, ip)) << (have & 63)
			ip += int((63 - have) >> 3)
			have |= 56
		}
		if e&flagSpecial != 0 {
			if e&flagLink != 0 {
				hold >>= e & 31
				have -= uint64(e & 31)
				e = lit[e>>16+uint32(hold&(1<<(e>>8&15)-1))]
				if e&flagLiteral != 0 {
					hold >>= e & 31
					have -= uint64(e & 31)
					*(*byte)(unsafe.Add(dst, op)) = byte(e >> 16)
					op++
					continue
				}
			}
			if e&flagSpecial != 0 {
				if e&flagEnd == 0 {
					fault = corrupt("invalid code")
					break
				}
				hold >>= e & 31
				have -= uint64(e & 31)
				end = true
				break
			}
		}
		// At most 15+5 bits for the length and 15+13 for the distance, 48 of 56.
		length := int(e>>16) + int(hold&(1<<(e&31)-1)>>(e>>8&15))
		hold >>= e & 31
		have -= uint64(e & 31)
		e = dists[hold&(1<<distBits-1)]
		if e&flagSpecial != 0 {
			if e&flagLink != 0 {
				hold >>= e & 31
				have -= uint64(e & 31)
				e = dists[e>>16+uint32(hold&(1<<(e>>8&15)-1))]
			}
			if e&flagSpecial != 0 {
				fault = corrupt("undefined distance code")
				break
			}
		}
		dist := int(e>>16) + int(hold&(1<<(e&31)-1)>>(e>>8&15))
		hold >>= e & 31
		have -= uint64(e & 31)
		if dist > op {
			fault = corrupt("distance %d is before the start of the output", dist)
			break
		}
		to := unsafe.Add(dst, op)
		from := unsafe.Add(to, -dist)
		op += length
		switch {
		case dist >= 16:
			for {
				a, b := ld(from), ld(unsafe.Add(from, 8))
				st(to, a)
				st(unsafe.Add(to, 8), b)
				if length -= 16; length <= 0 {
					break
				}
				from, to = unsafe.Add(from, 16), unsafe.Add(to, 16)
			}
		case dist >= 8:
			for {
				st(to, ld(from))
				if length -= 8; length <= 0 {
					break
				}
				from, to = unsafe.Add(from, 8), unsafe.Add(to, 8)
			}
		case dist&(dist-1) == 0: // 1, 2 or 4: repeat a word
			v := ld(from) & (1<<(8*uint(dist)) - 1) * [5]uint64{1: 0x0101010101010101, 2: 0x0001000100010001, 4: 0x0000000100000001}[dist]
			for {
				st(to, v)
				st(unsafe.Add(to, 8), v)
				if length -= 16; length <= 0 {
					break
				}
				to = unsafe.Add(to, 16)
			}
		default: // 3, 5, 6 or 7: each store writes dist valid bytes
			for {
				st(to, ld(from))
				if length -= dist; length <= 0 {
					break
				}
				from, to = unsafe.Add(from, dist), unsafe.Add(to, dist)
			}
		}
	}
	d.ip, d.op, d.hold, d.have = ip, op, hold, uint(have)
	return end, fault
}
