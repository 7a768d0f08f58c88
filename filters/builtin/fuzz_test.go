package builtin_test

import (
	"bytes"
	"runtime/metrics"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

// room is the size in bytes of the output buffer of a fuzzed decoder. maxMemory is the
// number of bytes that one decoding may allocate, mostly for blocks of bzip2 and windows
// of zstd.
const (
	room      = 1 << 14
	maxMemory = 8 << 20
)

// fuzz is like fuzzAs, with 4-byte integers.
func fuzz(f *testing.F, id string, params ...string) {
	f.Helper()
	fuzzAs(f, "<i4", id, params...)
}

// fuzzAs decodes arbitrary input into a buffer between canary bytes, and limits the
// memory that decoding allocates. Decoding must return an error of a known kind, or a
// value that survives a round trip if the codec is lossless.
func fuzzAs(f *testing.F, elements, id string, params ...string) {
	f.Helper()
	typ, err := dtype.Parse(elements)
	if err != nil {
		f.Fatal(err)
	}
	in := driver.Spec{DType: typ, Shape: []int{4}, MaxBytes: room}
	if typ.Fixed() {
		in.Shape = []int{room / typ.Size}
	}
	for _, p := range params {
		c, out := filtertest.Open(f, builtin.Provider(), id, p, in)
		for _, src := range seeds(f, typ) {
			enc := make([]byte, out.MaxBytes)
			m, err := c.Encode(f.Context(), enc, src)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(enc[:m])
		}
	}
	isExact := id == "delta" || id == "json2" // these codecs are exact for the types used here
	lossy := !isExact && slices.ContainsFunc(builtin.Provider().Describe(), func(d driver.Description) bool { return d.ID == id && d.Lossy })
	c, out := filtertest.Open(f, builtin.Provider(), id, params[0], in)
	f.Fuzz(func(t *testing.T, src []byte) {
		plain, ok := decodeGuarded(t, c, src)
		if !ok {
			return
		}
		enc := make([]byte, out.MaxBytes)
		m, err := c.Encode(t.Context(), enc, plain)
		switch {
		case err != nil && (id == "delta" && len(plain)%4 != 0 || lossy && ncerr.KindOf(err) == ncerr.ErrConvert):
			return
		case err != nil:
			t.Fatal(err)
		}
		back := make([]byte, len(plain))
		k, err := c.Decode(t.Context(), back, enc[:m])
		if err != nil || !lossy && !bytes.Equal(back[:k], plain) {
			t.Fatalf("%d bytes change in a round trip: %v", len(plain), err)
		}
	})
}

// decodeGuarded decodes src and returns the value if decoding succeeds.
func decodeGuarded(t *testing.T, c driver.Codec, src []byte) ([]byte, bool) {
	t.Helper()
	b := bytes.Repeat([]byte{0xC5}, room+64)
	before := allocated()
	n, err := c.Decode(t.Context(), b[32:32+room:32+room], src)
	if took := allocated() - before; took > maxMemory {
		t.Fatalf("%d bytes of input take %d bytes of memory for %d of output", len(src), took, room)
	}
	for i, v := range b {
		if (i < 32 || i >= 32+room) && v != 0xC5 {
			t.Fatalf("byte %d outside dst was written", i-32)
		}
	}
	if err != nil {
		if k := ncerr.KindOf(err); k != ncerr.ErrCorrupt && k != ncerr.ErrShortBuffer && k != ncerr.ErrUnsupported {
			t.Fatalf("unexpected kind of %v", err)
		}
		return nil, false
	}
	return bytes.Clone(b[32 : 32+n]), true
}

// allocated returns the number of bytes that the program has allocated since its start.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// seeds returns chunks of elements of a type as seeds for fuzzing.
func seeds(t testing.TB, typ dtype.Type) (list [][]byte) {
	t.Helper()
	if !typ.Fixed() {
		for _, words := range [][]string{{"", "", "", ""}, {"a", "größe", "a", "\"b\"\n"}} {
			b := make([]byte, room)
			w, err := driver.NewValuesWriter(b, len(words))
			for i := 0; i < len(words) && err == nil; i++ {
				err = w.AddString(words[i])
			}
			if err != nil {
				t.Fatal(err)
			}
			n, err := w.Done()
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, b[:n])
		}
		return list
	}
	for _, n := range []int{0, 1, 50, room / typ.Size} {
		b := field(typ, n)
		if typ.Kind == dtype.Bool {
			for i := range b {
				b[i] &= 1
			}
		}
		list = append(list, b)
	}
	return list
}

func FuzzDecodeZlib(f *testing.F) { fuzz(f, "zlib", `{"level":6}`, `{"level":0}`) }
func FuzzDecodeGzip(f *testing.F) { fuzz(f, "gzip", `{"level":6}`, `{"level":0}`) }
func FuzzDecodeZstd(f *testing.F) { fuzz(f, "zstd", `{"level":3}`, `{"level":1,"checksum":true}`) }

func FuzzDecodeShuffle(f *testing.F) { fuzz(f, "shuffle", `{"elementsize":4}`, `{"elementsize":3}`) }
func FuzzDecodeDelta(f *testing.F)   { fuzz(f, "delta", `{"dtype":"<i4"}`) }

func FuzzDecodeLZ4(f *testing.F)      { fuzz(f, "lz4", `{}`) }
func FuzzDecodeFletcher(f *testing.F) { fuzz(f, "fletcher32", `{}`) }
func FuzzDecodeCRC32(f *testing.F)    { fuzz(f, "crc32", `{}`) }
func FuzzDecodeCRC32C(f *testing.F)   { fuzz(f, "crc32c", `{}`, `{"location":"start"}`) }
func FuzzDecodeAdler32(f *testing.F)  { fuzz(f, "adler32", `{}`) }

func FuzzDecodeAsType(f *testing.F)   { fuzzAs(f, "<f4", "astype", `{"encode_dtype":"<i2"}`) }
func FuzzDecodeBitRound(f *testing.F) { fuzzAs(f, "<f4", "bitround", `{"keepbits":9}`) }
func FuzzDecodeQuantize(f *testing.F) { fuzzAs(f, "<f8", "quantize", `{"digits":3,"astype":"<f4"}`) }
func FuzzDecodePackBits(f *testing.F) { fuzzAs(f, "|b1", "packbits", `{}`) }

func FuzzDecodeV3PackBits(f *testing.F) {
	fuzzAs(f, "|u1", "zarr.packbits", `{}`, `{"padding_encoding":"first_byte","first_bit":2,"last_bit":4}`)
}

func FuzzDecodeCastValue(f *testing.F) {
	fuzzAs(f, "<f4", "cast_value", `{"data_type":"<i2","out_of_range":"clamp","scalar_map":{"encode":[["NaN",0]],"decode":[]}}`)
}

func FuzzDecodeScaleOffset(f *testing.F) { fuzzAs(f, "<i4", "scale_offset", `{"scale":3,"offset":7}`) }

func FuzzDecodeFixedScaleOffset(f *testing.F) {
	fuzzAs(f, "<f4", "fixedscaleoffset", `{"offset":280,"scale":10,"astype":"<i2"}`)
}

func FuzzDecodeCategorize(f *testing.F) {
	fuzzAs(f, "|O", "categorize", `{"labels":["a","größe","\"b\"\n"]}`)
}
func FuzzDecodeJSON2(f *testing.F)     { fuzzAs(f, "|O", "json2", `{}`, `{"ensure_ascii":false}`) }
func FuzzDecodeMsgPack2(f *testing.F)  { fuzzAs(f, "|O", "msgpack2", `{}`, `{"use_bin_type":false}`) }
func FuzzDecodeVlenUTF8(f *testing.F)  { fuzzAs(f, "|O", "vlen-utf8", `{}`) }
func FuzzDecodeVlenBytes(f *testing.F) { fuzzAs(f, "|O", "vlen-bytes", `{}`) }
func FuzzDecodeVlenArray(f *testing.F) { fuzzAs(f, "|O", "vlen-array", `{"dtype":"|u1"}`) }

func FuzzDecodeSzip(f *testing.F) {
	f.Add([]byte{0, 16, 0, 0, 0, 0, 0, 0x80})
	fuzz(f, "szip", `{"mask":32,"pixels-per-block":16}`, `{"mask":4,"pixels-per-block":8}`)
}

func FuzzDecodeBz2(f *testing.F) { fuzz(f, "bz2", `{"level":1}`, `{"level":9}`) }
func FuzzDecodeLZMA(f *testing.F) {
	fuzz(f, "lzma", `{}`, `{"check":10,"preset":0}`, `{"check":0,"delta":4}`)
}

func FuzzDecodeLZMARaw(f *testing.F) {
	fuzz(f, "lzma", `{"format":3,"filters":[{"id":3,"dist":4},{"id":33,"preset":1}]}`)
}

func FuzzDecodeLZMAAlone(f *testing.F) { fuzz(f, "lzma", `{"format":2}`) }
func FuzzDecodeBase64(f *testing.F)    { fuzz(f, "base64", `{}`) }
func FuzzDecodeJenkins(f *testing.F)   { fuzz(f, "jenkins_lookup3", `{}`, `{"initval":7}`) }

func FuzzDecodeBloscLZ(f *testing.F) {
	fuzz(f, "blosc", `{"cname":"blosclz"}`, `{"cname":"blosclz","clevel":9,"shuffle":2,"blocksize":4096}`)
}

func FuzzDecodeBlosc(f *testing.F) {
	// A BloscLZ frame: header, one block, one stream of a literal and a match.
	f.Add([]byte{2, 1, 0x10, 1, 12, 0, 0, 0, 12, 0, 0, 0, 29, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0, 0, 'a', 7 << 5, 2, 0})
	fuzz(f, "blosc", `{"cname":"lz4","blocksize":4096}`, `{"cname":"lz4","shuffle":2}`, `{"cname":"zstd"}`, `{"cname":"zlib","shuffle":0}`, `{"cname":"snappy"}`, `{"cname":"lz4hc"}`, `{"clevel":0}`)
}
