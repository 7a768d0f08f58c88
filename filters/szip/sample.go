package szip

import "encoding/binary"

// load fills v with consecutive samples of src. The first one has index at. Indexes are
// in coding order, that is, plane by plane.
func (c *Codec) load(v []uint32, src []byte, at int) {
	switch {
	case c.planes > 1:
		n := len(src) / c.planes
		for len(v) > 0 {
			from := at%n*c.planes + at/n
			k := min(len(v), n-at%n)
			for i := range v[:k] {
				v[i] = uint32(src[from+i*c.planes])
			}
			v, at = v[k:], at+k
		}
	case c.size == 1:
		for i, b := range src[at:][:len(v)] {
			v[i] = uint32(b)
		}
	case c.size == 2 && c.msb:
		for i := range v {
			v[i] = uint32(binary.BigEndian.Uint16(src[2*(at+i):]))
		}
	case c.size == 2:
		for i := range v {
			v[i] = uint32(binary.LittleEndian.Uint16(src[2*(at+i):]))
		}
	case c.msb:
		for i := range v {
			v[i] = binary.BigEndian.Uint32(src[4*(at+i):])
		}
	default:
		for i := range v {
			v[i] = binary.LittleEndian.Uint32(src[4*(at+i):])
		}
	}
}

// store reverses load.
func (c *Codec) store(dst []byte, v []uint32, at int) {
	switch {
	case c.planes > 1:
		n := len(dst) / c.planes
		for len(v) > 0 {
			to := at%n*c.planes + at/n
			k := min(len(v), n-at%n)
			for i, x := range v[:k] {
				dst[to+i*c.planes] = byte(x)
			}
			v, at = v[k:], at+k
		}
	case c.size == 1:
		for i, x := range v {
			dst[at+i] = byte(x)
		}
	case c.size == 2 && c.msb:
		for i, x := range v {
			binary.BigEndian.PutUint16(dst[2*(at+i):], uint16(x))
		}
	case c.size == 2:
		for i, x := range v {
			binary.LittleEndian.PutUint16(dst[2*(at+i):], uint16(x))
		}
	case c.msb:
		for i, x := range v {
			binary.BigEndian.PutUint32(dst[4*(at+i):], x)
		}
	default:
		for i, x := range v {
			binary.LittleEndian.PutUint32(dst[4*(at+i):], x)
		}
	}
}
