package blosc_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/blosc"
)

func ramp(n int) []byte {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(i*i/7))
	}
	return b
}

func encode(t *testing.T, p blosc.Params, src []byte) (*blosc.Codec, []byte) {
	t.Helper()
	c, err := blosc.New(p)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, len(src)+16)
	n, err := c.Encode(t.Context(), dst, src)
	if err != nil {
		t.Fatal(err)
	}
	return c, dst[:n]
}

func TestIncompressibleIsStored(t *testing.T) {
	t.Parallel()
	src := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for _, name := range []string{"lz4", "lz4hc", "snappy", "zlib", "zstd"} {
		_, enc := encode(t, blosc.Params{CName: name, CLevel: 5, Shuffle: 1, TypeSize: 8}, src)
		if len(enc) != len(src)+16 || enc[2]&2 == 0 {
			t.Errorf("%s: want a frame of %d stored bytes, got %d with flags %#x", name, len(src)+16, len(enc), enc[2])
		}
	}
}

// TestHeader checks that each invalid field of the header is rejected before decoding.
func TestHeader(t *testing.T) {
	t.Parallel()
	c, enc := encode(t, blosc.Params{CName: "lz4", CLevel: 5, Shuffle: 1, TypeSize: 4}, ramp(10_000))
	put := func(at int, v uint32) []byte {
		b := bytes.Clone(enc)
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	one := func(at int, v byte) []byte {
		b := bytes.Clone(enc)
		b[at] = v
		return b
	}
	for name, src := range map[string][]byte{
		"no header": enc[:15], "version": one(0, 9), "old version": one(0, 1), "typesize": one(3, 0),
		"version of the inner codec": one(1, 2), "reserved flag": one(2, enc[2]|8),
		"negative size": put(4, 1<<31), "negative block": put(8, 1<<31), "no block": put(8, 0), "block above size": put(8, 50_000),
		"tiny blocks": put(8, 1), "longer than its bytes": put(12, uint32(len(enc)+1)), "shorter than its header": put(12, 3),
		"block outside": put(16, uint32(len(enc)+5)), "block in the header": put(16, 2),
	} {
		if _, err := c.Decode(t.Context(), make([]byte, 40_000), src); ncerr.KindOf(err) != ncerr.ErrCorrupt {
			t.Errorf("%s: want ErrCorrupt, got %v", name, err)
		}
	}
	if n, err := c.DecodedSize(enc); err != nil || n != 40_000 {
		t.Errorf("want 40000 bytes, got %d, %v", n, err)
	}
	if _, err := c.Decode(t.Context(), make([]byte, 39_999), enc); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
		t.Errorf("want ErrShortBuffer, got %v", err)
	}
}

func TestBloscLZ(t *testing.T) {
	t.Parallel()
	c, err := blosc.New(blosc.Params{CName: "blosclz", CLevel: 5, TypeSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	// One literal, then a match of 9+0 bytes that repeats it.
	frame := []byte{2, 1, 0x10, 1, 10, 0, 0, 0, 10, 0, 0, 0, 28, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, 0, 'a', 7 << 5, 0, 0}
	frame[12] = byte(len(frame))
	dst := make([]byte, 10)
	if n, err := c.Decode(t.Context(), dst, frame); err != nil || string(dst[:n]) != "aaaaaaaaaa" {
		t.Errorf("want ten letters, got %q, %v", dst[:n], err)
	}
}

// TestSnappyOnly checks that a copy of distance 0, which only S2 allows, is rejected.
func TestSnappyOnly(t *testing.T) {
	t.Parallel()
	c, err := blosc.New(blosc.Params{CName: "snappy", CLevel: 5, TypeSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	// A literal, a copy of 4 bytes at distance 1, and one of 5 bytes.
	frame := []byte{2, 1, 0x50, 1, 10, 0, 0, 0, 10, 0, 0, 0, 31, 0, 0, 0, 20, 0, 0, 0, 7, 0, 0, 0, 10, 0, 'a', 1, 1, 5, 1}
	dst := make([]byte, 10)
	if n, err := c.Decode(t.Context(), dst, frame); err != nil || string(dst[:n]) != "aaaaaaaaaa" {
		t.Errorf("want ten letters, got %q, %v", dst[:n], err)
	}
	frame[30] = 0
	if n, err := c.Decode(t.Context(), dst, frame); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("distance 0: want ErrCorrupt, got %q, %v", dst[:n], err)
	}
}
