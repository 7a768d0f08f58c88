package lzmadec_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/lzmadec"
)

// The text of the test vectors, and its encoded forms from Python's lzma module.
const (
	plain     = "0000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced9"
	xzCRC64   = "fd377a585a000004e6d6b4460200210116000000742fe5a30100270000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced9003f243cb7dd9d942300014028d4524ae51fb6f37d010000000004595a"
	xzCRC32   = "fd377a585a0000016922de360200210116000000742fe5a30100270000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced90005625e8a00013c282e64c0669042990d010000000001595a"
	xzDelta   = "fd377a585a000000ff12d94102010301002101167920c4eee00027001b5d000067fed3fea11ac14c2840fd96e0249d71d3a3b6d32992b7ab49a0000000012f28bc252f0706729e7a010000000000595a"
	xzDeltas  = "fd377a585a00000ae1fb0ca103020301030301ff21010c0029e6cda301002700000001020305060708090a0b0d0e0f1011121315161718191a1b1d1e1f2021222325262728292a0086518615ca6588c8619803c55d6579eada09c74fe2f579f0000fc05e06bdd1ff00015c28890f3d03189b4b9a01000000000a595a"
	xzX86     = "fd377a585a000004e6d6b4460201040021010c00d67c18af0100270000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced9003f243cb7dd9d942300014028d4524ae51fb6f37d010000000004595a"
	xzARM     = "fd377a585a000004e6d6b4460201070021010c00780e8c290100270000000102030507090b0e1114181c2024292e33393f454b5259606870788089929ba5afb9c3ced9003f243cb7dd9d942300014028d4524ae51fb6f37d010000000004595a"
	xzEmpty   = "fd377a585a000004e6d6b446000000001cdf44211fb6f37d010000000004595a"
	xzRepeats = "fd377a585a000000ff12d941020021010c0000008f98419ce000ef00095d00309888acf4abe980000000000000011df001000000a0f2958ca8000afc020000000000595a"
	xzSizes   = "fd377a585a000000ff12d94102c01c1821011600874e4aca0100170000000102030507090b0e1114181c2024292e33393f454b0002c01410210116002b87691601000f5259606870788089929ba5afb9c3ced90000022818201000001699c6f5a8000afc020000000000595a" // made by xz -T2 --check=none --block-size=24
	alone     = "5d00008000ffffffffffffffff000067fea04eb001d3379f0d31b67dd7604bac3c189e11a2e7b802c56a663f3c1ae2d2d3341504849a7118e895cfffffb8540000"
	aloneNone = "5d00008000ffffffffffffffff0083fffbffffc0000000"
	// LZMA1 with lc 0, lp 2, pb 1: its property byte is (1*5+2)*9.
	raw1      = "000067fea04e96e32df308200c21d3931bbd94bac5db8a7fdf1319aab4e151e8cd0edca48849f6e8822bf4b7b644f7ffff05c40000"
	raw1Props = 63
	raw2Delta = "e0002700265d000067fea04e9457af393043e5d384a4bff15012dd3f70d8f5b237744e19e739887facbad84b0000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decodeXZ(dst, src []byte) (int, error) { return lzmadec.XZ(context.Background(), dst, src) }

func decodeAlone(dst, src []byte) (int, error) { return lzmadec.Alone(context.Background(), dst, src) }

func decodeRaw1(dst, src []byte) (int, error) {
	return lzmadec.LZMA1(context.Background(), dst, src, raw1Props, -1)
}

func decodeRaw2Delta(dst, src []byte) (int, error) {
	n, used, err := lzmadec.LZMA2(context.Background(), dst, src)
	if err == nil && used != len(src) {
		err = lzmadec.ErrCorrupt
	}
	if err == nil {
		lzmadec.DecodeDelta(dst[:n], 2)
	}
	return n, err
}

type vector struct {
	decode func(dst, src []byte) (int, error)
	src    string
	want   []byte
	// checked declares that all damage must be detected.
	checked bool
}

func vectors(t testing.TB) map[string]vector {
	t.Helper()
	text := unhex(t, plain)
	return map[string]vector{
		"xz":             {decodeXZ, xzCRC64, text, true},
		"xz CRC-32":      {decodeXZ, xzCRC32, text, true},
		"xz delta":       {decodeXZ, xzDelta, text, false},
		"xz two deltas":  {decodeXZ, xzDeltas, text, true},
		"xz empty":       {decodeXZ, xzEmpty, nil, true},
		"xz repeats":     {decodeXZ, xzRepeats, bytes.Repeat([]byte("abc"), 80), false},
		"xz sizes":       {decodeXZ, xzSizes, text, false},
		"xz two streams": {decodeXZ, xzCRC64 + "00000000" + xzCRC32, append(unhex(t, plain), text...), true},
		"alone":          {decodeAlone, alone, text, false},
		"alone empty":    {decodeAlone, aloneNone, nil, false},
		"raw LZMA1":      {decodeRaw1, raw1, text, false},
		"raw LZMA2":      {decodeRaw2Delta, raw2Delta, text, false},
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for name, v := range vectors(t) {
		src := unhex(t, v.src)
		dst := make([]byte, len(v.want))
		if n, err := v.decode(dst, src); err != nil || !bytes.Equal(v.want, dst[:n]) {
			t.Errorf("%s: want %x, got %x, %v", name, v.want, dst[:n], err)
		}
		if len(v.want) > 0 {
			if _, err := v.decode(dst[:len(dst)-1], src); !errors.Is(err, lzmadec.ErrShort) {
				t.Errorf("%s with a short buffer: want ErrShort, got %v", name, err)
			}
		}
		for n := range src {
			if k, err := v.decode(dst, src[:n]); err == nil && !bytes.HasPrefix(v.want, dst[:k]) {
				t.Errorf("%s truncated to %d bytes decodes to %x", name, n, dst[:k])
			}
		}
	}
}

// TestDamage flips every bit. Data with a check must never decode to different values.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, v := range vectors(t) {
		src := unhex(t, v.src)
		dst := make([]byte, len(v.want)+64)
		for i := range 8 * len(src) {
			src[i/8] ^= 1 << (i % 8)
			n, err := v.decode(dst, src)
			switch {
			case err != nil && !errors.Is(err, lzmadec.ErrCorrupt) && !errors.Is(err, lzmadec.ErrShort):
				t.Errorf("%s, bit %d: unexpected error %v", name, i, err)
			case err == nil && v.checked && !bytes.Equal(v.want, dst[:n]):
				t.Errorf("%s, bit %d: different values without an error: %x", name, i, dst[:n])
			}
			src[i/8] ^= 1 << (i % 8)
		}
	}
}

// TestSizes checks that wrong sizes in a block header or in the index are detected. The
// checksums of header and index are correct, and the data has no check, so only the sizes
// show the error.
func TestSizes(t *testing.T) {
	t.Parallel()
	src := unhex(t, xzSizes)
	dst := make([]byte, 64)
	const head = 12 // length of the stream header
	first := int(src[head]+1) * 4
	index := len(src) - 12 - int(binary.LittleEndian.Uint32(src[len(src)-8:])+1)*4
	sum := func(b []byte) { // the last four bytes of a part are its checksum
		binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
	}
	if src[head+1]&0xC0 != 0xC0 || src[index] != 0 || src[index+1] != 2 {
		t.Fatal("the test vector has an unexpected form")
	}
	for name, at := range map[string]int{
		"packed size": head + 2, "size": head + 3,
		"index, first block": index + 2, "index, first output": index + 3, "index, second block": index + 4, "index, second output": index + 5,
	} {
		bad := bytes.Clone(src)
		bad[at] ^= 1
		sum(bad[head:][:first])
		sum(bad[index : len(bad)-12])
		if n, err := lzmadec.XZ(context.Background(), dst, bad); !errors.Is(err, lzmadec.ErrCorrupt) {
			t.Errorf("%s: want ErrCorrupt, got %x, %v", name, dst[:n], err)
		}
	}
	same := bytes.Clone(src)
	sum(same[head:][:first])
	sum(same[index : len(same)-12])
	if !bytes.Equal(same, src) {
		t.Error("the checksums are not at the expected offsets")
	}
}

func TestOtherFilters(t *testing.T) {
	t.Parallel()
	unknown := unhex(t, xzX86)
	unknown[14] = 0x3F // the id of the first filter
	binary.LittleEndian.PutUint32(unknown[20:], crc32.ChecksumIEEE(unknown[12:20]))
	for want, src := range map[string][]byte{"BCJ x86": unhex(t, xzX86), "BCJ ARM": unhex(t, xzARM), "0x3f": unknown} {
		_, err := lzmadec.XZ(context.Background(), make([]byte, 100), src)
		if !errors.Is(err, lzmadec.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrUnsupported with %q, got %v", want, err)
		}
	}
}

// TestBombs decodes tiny inputs that declare, or contain, much data. They must allocate
// no more memory than the model, besides the given output.
func TestBombs(t *testing.T) { //nolint:paralleltest // the test measures memory
	huge := unhex(t, xzRepeats)
	huge[16] = 40 // the largest dictionary, 4 GiB
	binary.LittleEndian.PutUint32(huge[20:], crc32.ChecksumIEEE(huge[12:20]))
	sized := unhex(t, alone)
	binary.LittleEndian.PutUint32(sized[1:], math.MaxUint32)
	binary.LittleEndian.PutUint64(sized[5:], math.MaxInt64)
	many := bytes.Repeat(unhex(t, xzRepeats), 1000)
	dst := make([]byte, 1<<10)
	for name, c := range map[string]struct {
		decode func(dst, src []byte) (int, error)
		src    []byte
		want   error
	}{
		"dictionary":   {decodeXZ, huge, nil},
		"size":         {decodeAlone, sized, lzmadec.ErrShort},
		"chunk":        {decodeRaw2Delta, unhex(t, "ffffffffff5d0000000000"), lzmadec.ErrCorrupt},
		"many streams": {decodeXZ, many, lzmadec.ErrShort},
		"1 MiB":        {decodeXZ, bomb(t), lzmadec.ErrShort},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.decode(dst, c.src)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: want %v, got %v", name, c.want, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 256<<10 {
			t.Errorf("%s: %d bytes of input allocate %d bytes of memory", name, len(c.src), took)
		}
	}
}

// bomb returns the start of an xz stream with one block, which decodes to 1 MiB. Each
// chunk of the block is Python's encoding of 240 bytes.
func bomb(t testing.TB) []byte {
	t.Helper()
	const head, chunk = 24, 16 // offset of the chunks in xzRepeats, and length of one
	one := unhex(t, xzRepeats)
	out := bytes.Clone(one[:head])
	for range 1 << 20 / 240 {
		out = append(out, one[head:head+chunk]...)
	}
	return append(out, 0)
}

func fuzz(f *testing.F, names ...string) {
	f.Helper()
	all := vectors(f)
	for _, n := range names {
		f.Add(unhex(f, all[n].src))
	}
	decode := all[names[0]].decode
	f.Fuzz(func(t *testing.T, src []byte) {
		const room = 1 << 12
		buf := bytes.Repeat([]byte{0xC5}, room+64)
		n, err := decode(buf[32:32+room:32+room], src)
		if err == nil && (n < 0 || n > room) {
			t.Fatalf("the decoder returns a length of %d for a buffer of %d bytes", n, room)
		}
		if !bytes.Equal(buf[:32], buf[32+room:]) || buf[0] != 0xC5 {
			t.Fatal("bytes outside dst were written")
		}
		if err != nil && !errors.Is(err, lzmadec.ErrCorrupt) && !errors.Is(err, lzmadec.ErrShort) && !errors.Is(err, lzmadec.ErrUnsupported) {
			t.Fatalf("unexpected error %v", err)
		}
	})
}

func FuzzXZ(f *testing.F) {
	f.Add(bomb(f)[:2000])
	fuzz(f, "xz", "xz sizes", "xz delta", "xz two deltas", "xz empty", "xz repeats", "xz two streams")
}
func FuzzAlone(f *testing.F) { fuzz(f, "alone", "alone empty") }
func FuzzLZMA1(f *testing.F) { fuzz(f, "raw LZMA1") }
func FuzzLZMA2(f *testing.F) { fuzz(f, "raw LZMA2") }
