package builtin_test

import (
	"bytes"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

// fuzz decodes anything between canaries: an error of a known kind, or a
// value that survives a round trip.
func fuzz(f *testing.F, id string, params ...string) {
	f.Helper()
	typ := dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Little}
	const room = 1 << 14
	in := driver.Spec{DType: typ, Shape: []int{room / 4}, MaxBytes: room}
	for _, p := range params {
		c, out := filtertest.Open(f, builtin.Provider(), id, p, in)
		for _, n := range []int{0, 1, 50, room / 4} {
			enc := make([]byte, out.MaxBytes)
			m, err := c.Encode(f.Context(), enc, field(typ, n))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(enc[:m])
		}
	}
	c, out := filtertest.Open(f, builtin.Provider(), id, params[0], in)
	f.Fuzz(func(t *testing.T, src []byte) {
		b := bytes.Repeat([]byte{0xC5}, room+64)
		n, err := c.Decode(t.Context(), b[32:32+room:32+room], src)
		for i, v := range b {
			if (i < 32 || i >= 32+room) && v != 0xC5 {
				t.Fatalf("byte %d outside dst was written", i-32)
			}
		}
		if err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrCorrupt && k != ncerr.ErrShortBuffer {
				t.Fatalf("unexpected kind of %v", err)
			}
			return
		}
		plain := bytes.Clone(b[32 : 32+n])
		enc := make([]byte, out.MaxBytes)
		m, err := c.Encode(t.Context(), enc, plain)
		if err != nil {
			if id == "delta" && n%4 != 0 {
				return
			}
			t.Fatal(err)
		}
		back := make([]byte, n)
		if k, err := c.Decode(t.Context(), back, enc[:m]); err != nil || !bytes.Equal(back[:k], plain) {
			t.Fatalf("%d bytes come back changed: %v", n, err)
		}
	})
}

func FuzzDecodeZlib(f *testing.F) { fuzz(f, "zlib", `{"level":6}`, `{"level":0}`) }
func FuzzDecodeGzip(f *testing.F) { fuzz(f, "gzip", `{"level":6}`, `{"level":0}`) }
func FuzzDecodeZstd(f *testing.F) { fuzz(f, "zstd", `{"level":3}`, `{"level":1,"checksum":true}`) }

func FuzzDecodeShuffle(f *testing.F) { fuzz(f, "shuffle", `{"elementsize":4}`, `{"elementsize":3}`) }
func FuzzDecodeDelta(f *testing.F)   { fuzz(f, "delta", `{"dtype":"<i4"}`) }

func FuzzDecodeLZ4(f *testing.F)      { fuzz(f, "lz4", `{}`) }
func FuzzDecodeFletcher(f *testing.F) { fuzz(f, "fletcher32", `{}`) }

func FuzzDecodeBz2(f *testing.F)  { fuzz(f, "bz2", `{"level":1}`) }
func FuzzDecodeLZMA(f *testing.F) { fuzz(f, "lzma", `{}`, `{"check":10,"preset":0}`) }

func FuzzDecodeLZMARaw(f *testing.F) {
	fuzz(f, "lzma", `{"format":3,"filters":[{"id":3,"dist":4},{"id":33,"preset":1}]}`)
}

func FuzzDecodeLZMAAlone(f *testing.F) { fuzz(f, "lzma", `{"format":2}`) }
func FuzzDecodeBase64(f *testing.F)    { fuzz(f, "base64", `{}`) }
func FuzzDecodeJenkins(f *testing.F)   { fuzz(f, "jenkins_lookup3", `{}`, `{"initval":7}`) }

func FuzzDecodeBlosc(f *testing.F) {
	// A BloscLZ frame: header, one block, one stream of a literal and a match.
	f.Add([]byte{2, 1, 0x10, 1, 12, 0, 0, 0, 12, 0, 0, 0, 29, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, 0, 'a', 7 << 5, 2, 0})
	fuzz(f, "blosc", `{"cname":"lz4","blocksize":4096}`, `{"cname":"lz4","shuffle":2}`, `{"cname":"zstd"}`, `{"cname":"zlib","shuffle":0}`, `{"cname":"snappy"}`, `{"cname":"lz4hc"}`, `{"clevel":0}`)
}
