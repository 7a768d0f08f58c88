package lzmadec

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
)

// LZMA1 decodes a raw stream with the given property byte into dst. size is the length of
// the output, or -1 if an end mark terminates it.
func LZMA1(ctx context.Context, dst, src []byte, props byte, size int64) (int, error) {
	d := decoder{dst: dst, stop: ctx.Err}
	if err := d.props(props); err != nil {
		return 0, err
	}
	d.reset()
	if err := d.begin(src); err != nil {
		return 0, err
	}
	if size > int64(len(dst)) {
		return 0, ErrShort
	}
	if size >= 0 {
		if err := d.run(int(size), false); err != nil {
			return 0, lengthError(err)
		}
		return d.tail(int(size))
	}
	switch err := d.run(len(dst), true); {
	case errors.Is(err, errEnd), err == nil:
		return d.at, d.ended()
	default:
		return 0, err
	}
}

// tail reads the optional end mark after output of a known size.
func (d *decoder) tail(size int) (int, error) {
	if !d.rngDone() {
		if err := d.run(size, true); !errors.Is(err, errEnd) && err != nil {
			return 0, ErrCorrupt
		}
	}
	return size, d.ended()
}

// lengthError returns the error for output that differs from the size declared in the
// input.
func lengthError(err error) error {
	if errors.Is(err, ErrShort) || errors.Is(err, errEnd) {
		return ErrCorrupt
	}
	return err
}

func (d *decoder) ended() error {
	if d.over || d.ip != len(d.src) || d.code != 0 {
		return ErrCorrupt
	}
	return nil
}

// Alone decodes a file of the old format: properties, dictionary size and output size,
// then a raw stream.
func Alone(ctx context.Context, dst, src []byte) (int, error) {
	const head = 13
	if len(src) < head {
		return 0, ErrCorrupt
	}
	size := binary.LittleEndian.Uint64(src[5:])
	if size > math.MaxInt64 && size != math.MaxUint64 {
		return 0, ErrCorrupt
	}
	return LZMA1(ctx, dst, src[head:], src[0], int64(size)) // all ones is -1
}

// LZMA2 decodes a stream of chunks into dst. It returns the lengths of the output and of
// the input it used.
func LZMA2(ctx context.Context, dst, src []byte) (n, used int, err error) {
	d := decoder{dst: dst, stop: ctx.Err}
	needDict, needProps, needState := true, true, true
	ip := 0
	for {
		if err := d.stop(); err != nil {
			return 0, 0, err
		}
		if ip >= len(src) {
			return 0, 0, ErrCorrupt
		}
		control := src[ip]
		if control == 0 {
			return d.at, ip + 1, nil
		}
		if control == 1 || control >= 0xE0 {
			d.start, needDict, needProps = d.at, false, needProps || control == 1
			if control == 1 {
				needState = true
			}
		} else if needDict {
			return 0, 0, ErrCorrupt
		}
		if control < 0x80 {
			ip, err = d.stored(src, ip)
			if err != nil {
				return 0, 0, err
			}
			continue
		}
		if len(src)-ip < 6 {
			return 0, 0, ErrCorrupt
		}
		size := int(control&31)<<16 + int(binary.BigEndian.Uint16(src[ip+1:])) + 1
		packed := int(binary.BigEndian.Uint16(src[ip+3:])) + 1
		ip += 5
		switch {
		case control >= 0xC0:
			if err := d.props(src[ip]); err != nil {
				return 0, 0, ErrCorrupt
			}
			ip++
			needProps, needState = false, false
			d.reset()
		case needProps:
			return 0, 0, ErrCorrupt
		case control >= 0xA0:
			d.reset()
			needState = false
		case needState:
			return 0, 0, ErrCorrupt
		}
		if packed > len(src)-ip {
			return 0, 0, ErrCorrupt
		}
		if size > len(dst)-d.at {
			return 0, 0, ErrShort
		}
		if err := d.begin(src[ip : ip+packed]); err != nil {
			return 0, 0, err
		}
		if err := d.run(d.at+size, false); err != nil {
			return 0, 0, lengthError(err)
		}
		if err := d.ended(); err != nil {
			return 0, 0, err
		}
		ip += packed
	}
}

// stored copies an uncompressed chunk.
func (d *decoder) stored(src []byte, ip int) (int, error) {
	if src[ip] > 2 || len(src)-ip < 3 {
		return 0, ErrCorrupt
	}
	size := int(binary.BigEndian.Uint16(src[ip+1:])) + 1
	ip += 3
	if size > len(src)-ip {
		return 0, ErrCorrupt
	}
	if size > len(d.dst)-d.at {
		return 0, ErrShort
	}
	copy(d.dst[d.at:], src[ip:ip+size])
	d.at += size
	return ip + size, nil
}

// DecodeDelta adds to each byte the one dist bytes before it, which reverses xz's delta
// filter. dist is 1 to 256.
func DecodeDelta(b []byte, dist int) {
	for i := dist; i < len(b); i++ {
		b[i] += b[i-dist]
	}
}
