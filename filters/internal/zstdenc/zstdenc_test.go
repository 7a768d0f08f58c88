package zstdenc_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/filters/internal/zstdenc"
)

// quick is level 3 with parseFast for contents of all sizes.
const quick = 0

// newEncoder returns an encoder of a level, which may be quick.
func newEncoder(level int, checksum bool) *zstdenc.Encoder {
	if level == quick {
		return zstdenc.NewQuick(checksum)
	}
	return zstdenc.New(level, checksum)
}

// levels are the levels and quick.
var levels = []int{quick, 3, 4, 5, 6, 7, 8, 9}

// check encodes src with new memory and with reused memory, and decodes the result with
// klauspost/compress.
func check(t *testing.T, used *zstdenc.Encoder, level int, checksum bool, src []byte) []byte {
	t.Helper()
	const before = "before"
	frame := used.Append([]byte(before), src)
	if string(frame[:len(before)]) != before {
		t.Errorf("want the frame appended to dst, but dst was changed to %q", frame[:len(before)])
	}
	frame = frame[len(before):]
	if fresh := newEncoder(level, checksum).Append(nil, src); !bytes.Equal(fresh, frame) {
		t.Errorf("level %d, %d bytes: %d bytes from a new encoder, %d that differ from a used one", level, len(src), len(fresh), len(frame))
	}
	if most := len(src) + len(src)>>8 + 128; len(frame) > most {
		t.Errorf("level %d, %d bytes: want at most %d, got %d", level, len(src), most, len(frame))
	}
	var h zstd.Header
	if err := h.Decode(frame); err != nil || !h.HasFCS || h.FrameContentSize != uint64(len(src)) || h.HasCheckSum != checksum {
		t.Errorf("level %d, %d bytes: the header is %+v, %v", level, len(src), h, err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(4<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.DecodeAll(frame, nil)
	if err != nil || !bytes.Equal(src, got) {
		t.Errorf("level %d, %d bytes: %d bytes are decoded that differ: %v", level, len(src), len(got), err)
	}
	return frame
}

func random(r *rand.Rand, n int, mask byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32()) & mask
	}
	return b
}

const block = 128 << 10

// fours returns content that consists of four-byte matches without literals between
// them, from two positions in turn. The format needs three bytes for the number of
// matches. The first matches are longer, because the encoder would not find them
// otherwise.
func fours(r *rand.Rand) []byte {
	b := make([]byte, 2*block)
	for i := range b[:block+1] {
		b[i] = byte(r.Uint32())
		if i > 0 && b[i] == b[i-1] {
			b[i]++
		}
	}
	for i := block + 1; i < len(b); i++ {
		k := i - block - 1
		if k < 16 {
			k /= 2
		}
		b[i] = b[i-block-k>>2&1]
	}
	return b
}

// crosses returns copies of earlier bytes that are separated by a byte that occurs
// nowhere else.
func crosses(r *rand.Rand) []byte {
	b := append(random(r, 8<<10, 0x7f), make([]byte, block-8<<10)...)
	for at := 0; at < 6000; at += 60 {
		b = append(append(b, b[at:at+50]...), 0x80)
	}
	return b
}

// spread returns noise and copies of earlier bytes, with lengths and distances of all
// magnitudes, so that the numbers of bits of sequences differ as much as possible.
func spread(r *rand.Rand) []byte {
	b := random(r, 1<<20, 0xff)
	for len(b) < 4<<20 {
		n := 8 + 1<<r.IntN(5)
		if r.IntN(100) == 0 {
			n = 1 << (7 + r.IntN(8))
			b = append(b, random(r, n, 0xff)...)
		}
		b = append(b, random(r, 1+r.IntN(20), 0xff)...)
		at := r.IntN(len(b) - n)
		b = append(b, b[at:at+n]...)
	}
	return b
}

// inputs returns inputs for all cases that the format distinguishes.
func inputs(r *rand.Rand) map[string][]byte {
	noise := random(r, 300_000, 0xff)
	window := append(random(r, 4<<20, 0xff), noise...) // repeats inside and outside the window
	window = append(window, window[:70_000]...)
	window = append(window, noise[:200_000]...)
	mixed := []byte{} // compressed, raw, repeated and treeless blocks
	for range 3 {
		mixed = append(mixed, bytes.Repeat([]byte("station 12 temperature 3.5 "), 10_000)...)
		mixed = append(mixed, noise...)
		mixed = append(mixed, make([]byte, 300_000)...)
		mixed = append(mixed, random(r, 300_000, 0x3f)...)
	}
	floats := make([]byte, 0, 600_000) // rounded and noisy floats
	for i := 0; len(floats) < cap(floats); i++ {
		v := r.IntN(200) + i/1000
		floats = append(floats, byte(v*0x47), byte(v*0xe1>>3), byte(v), 0x41)
	}
	return map[string][]byte{
		"noise": noise, "window": window, "mixed": mixed, "floats": floats, "fours": fours(r), "crosses": crosses(r), "spread": spread(r),
		"zeros": make([]byte, 1<<20), "one of a block": make([]byte, block+1), "nibbles": random(r, 200_000, 0x0f),
		"long": append(append(bytes.Clone(noise), noise...), noise[1:]...), "pairs": bytes.Repeat([]byte{1, 2}, 100_000),
	}
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.New(t), 11))
	all := inputs(r)
	for _, level := range levels {
		e := newEncoder(level, level%2 == 0)
		for name, src := range all {
			if level != quick && level != 8 && len(src) > 1<<20 {
				continue
			}
			n := len(check(t, e, level, level%2 == 0, src))
			if t.Failed() {
				t.Fatalf("the input is %q", name)
			}
			if most := map[string]int{"zeros": 100, "pairs": 100, "nibbles": 101_000, "long": 301_000}[name]; most > 0 && n > most {
				t.Errorf("level %d, %s: want at most %d bytes, got %d", level, name, most, n)
			}
		}
	}
}

func TestSmall(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.New(t), 12))
	for _, level := range []int{quick, 3, 7} {
		for _, checksum := range []bool{false, true} {
			e := newEncoder(level, checksum)
			for _, n := range []int{0, 1, 3, 4, 5, 7, 8, 9, 12, 13, 16, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 5000, 16383, 16384, 16385, 65791, 65792} {
				for _, mask := range []byte{0, 1, 0x11, 0x7f, 0xff} {
					check(t, e, level, checksum, random(r, n, mask))
				}
			}
		}
	}
}

// TestPositionReset checks that frames are correct after a reset of the position numbers,
// which otherwise increase from frame to frame.
func TestPositionReset(t *testing.T) {
	t.Parallel()
	src := crosses(rand.New(rand.NewPCG(testseed.New(t), 14)))
	e := zstdenc.New(4, false)
	for range 3 {
		check(t, e, 4, false, src)
		e.Skip(1<<30 - uint64(len(src))/2)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 255, 256, 255 + 1<<16, 256 + 1<<16, 4 << 20, 4<<20 + 1, 1<<31 - 1, 1<<32 - 1, 1 << 32, 1 << 40} {
		if int64(int(n)) != n {
			continue // on 32-bit machines
		}
		var h zstd.Header
		err := h.Decode(append(zstdenc.AppendHeader(nil, int(n), true), make([]byte, 8)...))
		if err != nil || !h.HasFCS || h.FrameContentSize != uint64(n) || !h.HasCheckSum || h.SingleSegment != (n <= 4<<20) || !h.SingleSegment && h.WindowSize != 4<<20 {
			t.Errorf("%d bytes: the header is %+v, %v", n, h, err)
		}
	}
}

// grow makes content from instructions. Each appends three bytes or a copy of earlier
// bytes.
func grow(ops []byte) []byte {
	var b []byte
	for len(ops) >= 4 && len(b) < 400_000 {
		n, back := int(ops[1])<<(ops[0]>>1&7), int(ops[2])|int(ops[3])<<8
		if ops[0]&0x80 != 0 {
			back <<= 4
		}
		if ops[0]&1 == 0 || len(b) == 0 {
			b, ops = append(b, ops[1:4]...), ops[4:]
			continue
		}
		for at := max(0, len(b)-1-back); n > 0; n-- {
			b = append(b, b[at])
			at++
		}
		ops = ops[4:]
	}
	return append(b, ops...)
}

// FuzzRoundTrip checks that content made of copies of earlier bytes survives a round
// trip.
func FuzzRoundTrip(f *testing.F) {
	r := rand.New(rand.NewPCG(testseed.New(f), 13))
	for i := range 24 {
		f.Add(random(r, 40<<(i/3), byte(0xff>>(i%3))), uint8(i))
	}
	var used [zstdenc.Highest + 1][2]*zstdenc.Encoder
	f.Fuzz(func(t *testing.T, ops []byte, choice uint8) {
		level := levels[int(choice>>1)%len(levels)]
		e := &used[level][choice&1]
		if *e == nil {
			*e = newEncoder(level, choice&1 == 1)
		}
		check(t, *e, level, choice&1 == 1, grow(ops))
	})
}

// TestMediumContentsAreSearchedMore checks that level 3 searches contents of more than 128
// and at most 256 KiB for more matches, like the reference implementation.
func TestMediumContentsAreSearchedMore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.New(t), 15))
	var src []byte // noisy floats rounded to 0.01
	for len(src) <= 256<<10 {
		src = binary.LittleEndian.AppendUint32(src, math.Float32bits(float32(math.Round(28000+250*r.NormFloat64())/100)))
	}
	size := func(n int) int { return len(zstdenc.New(3, false).Append(nil, src[:n])) }
	if medium, large := size(256<<10), size(256<<10+1); medium*100 > large*99 {
		t.Errorf("want 256 KiB to become at least 1%% smaller than one byte more, got %d and %d bytes", medium, large)
	}
	if small, medium := size(128<<10), size(128<<10+1); medium*100 > small*99 {
		t.Errorf("want 128 KiB and a byte to become at least 1%% smaller than 128 KiB, got %d and %d bytes", medium, small)
	}
}

// TestAllocations checks that a reused encoder allocates nothing.
func TestAllocations(t *testing.T) { //nolint:paralleltest // parallel tests would allocate too
	src := bytes.Repeat(random(rand.New(rand.NewPCG(1, 2)), 3000, 0x1f), 100)
	for _, level := range []int{3, 5} {
		e := zstdenc.New(level, true)
		dst := e.Append(nil, src)
		if got := testing.AllocsPerRun(5, func() { dst = e.Append(dst[:0], src) }); got != 0 {
			t.Errorf("level %d: want no allocations, got %.0f", level, got)
		}
	}
}
