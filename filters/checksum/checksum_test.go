package checksum_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/checksum"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
	"github.com/seed-695719ce/nczarr/filters/shuffle"
	"github.com/seed-695719ce/nczarr/filters/zlib"
)

func squares() []byte {
	b := make([]byte, 40)
	for i := range b {
		b[i] = byte(i * i / 7 % 251)
	}
	return b
}

func spec(n int) driver.Spec {
	return driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 2, Order: dtype.Little}, Shape: []int{n / 2}, MaxBytes: int64(n)}
}

// TestNumcodecs compares the checksums with those of numcodecs.
func TestNumcodecs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, params, sum string
		end             bool
	}{
		{"crc32", `{}`, "05625e8a", false},
		{"crc32", `{"location":"end"}`, "05625e8a", true},
		{"crc32c", `{}`, "533ac56d", true},
		{"adler32", `{}`, "6c0b3d76", false},
		{"fletcher32", `{}`, "f283a797", true},
		{"jenkins_lookup3", `{}`, "3d587041", true},
	} {
		sum, err := hex.DecodeString(c.sum)
		if err != nil {
			t.Fatal(err)
		}
		want := append(bytes.Clone(sum), squares()...)
		if c.end {
			want = append(squares(), sum...)
		}
		f, out := filtertest.Open(t, checksum.Provider(), c.id, c.params, spec(40))
		enc, dst := make([]byte, out.MaxBytes), make([]byte, 40)
		if n, err := f.Encode(t.Context(), enc, squares()); err != nil || !bytes.Equal(want, enc[:n]) {
			t.Errorf("%s: want %x, got %x, %v", c.id, want, enc[:n], err)
		}
		if n, err := f.Decode(t.Context(), dst, want); err != nil || !bytes.Equal(squares(), dst[:n]) {
			t.Errorf("%s: want %x, got %x, %v", c.id, squares(), dst[:n], err)
		}
		for i := range 8 * len(want) { // every flipped bit must be detected
			want[i/8] ^= 1 << (i % 8)
			if _, err := f.Decode(t.Context(), dst, want); ncerr.KindOf(err) != ncerr.ErrCorrupt {
				t.Errorf("%s, bit %d: want ErrCorrupt, got %v", c.id, i, err)
			}
			want[i/8] ^= 1 << (i % 8)
		}
		if _, err := f.Decode(t.Context(), dst, want[:3]); ncerr.KindOf(err) != ncerr.ErrCorrupt {
			t.Errorf("%s of three bytes: want ErrCorrupt, got %v", c.id, err)
		}
	}
}

// swap swaps the bytes within each half of the checksum at the end, the order in which
// old HDF5 releases wrote it on big-endian machines.
func swap(b []byte) []byte {
	b = bytes.Clone(b)
	sum := b[len(b)-4:]
	binary.LittleEndian.PutUint32(sum, bits.RotateLeft32(bits.ReverseBytes32(binary.LittleEndian.Uint32(sum)), 16))
	return b
}

// TestFletcherOrders checks that exactly two byte orders of the checksum are accepted.
func TestFletcherOrders(t *testing.T) {
	t.Parallel()
	f, out := filtertest.Open(t, checksum.Provider(), "fletcher32", `{}`, spec(40))
	enc, dst := make([]byte, out.MaxBytes), make([]byte, 40)
	n, err := f.Encode(t.Context(), enc, squares())
	if err != nil {
		t.Fatal(err)
	}
	other := swap(enc[:n])
	if want := "83f297a7"; hex.EncodeToString(other[40:]) != want {
		t.Fatalf("want the checksum %s, got %x", want, other[40:])
	}
	if n, err := f.Decode(t.Context(), dst, other); err != nil || !bytes.Equal(squares(), dst[:n]) {
		t.Errorf("want %x, got %x, %v", squares(), dst[:n], err)
	}
	reversed := bytes.Clone(enc[:n])
	binary.BigEndian.PutUint32(reversed[40:], binary.LittleEndian.Uint32(enc[40:]))
	for i := range 8 * len(other) {
		other[i/8] ^= 1 << (i % 8)
		if _, err := f.Decode(t.Context(), dst, other); ncerr.KindOf(err) != ncerr.ErrCorrupt {
			t.Errorf("bit %d: want ErrCorrupt, got %v", i, err)
		}
		other[i/8] ^= 1 << (i % 8)
	}
	if _, err := f.Decode(t.Context(), dst, reversed); ncerr.KindOf(err) != ncerr.ErrCorrupt {
		t.Errorf("all four bytes reversed: want ErrCorrupt, got %v", err)
	}
}

// TestFletcherPositions puts the checksum at each position of a pipeline: first, as
// netCDF-C does, between other filters, and last. Damage must be detected.
func TestFletcherPositions(t *testing.T) {
	t.Parallel()
	providers := map[string]driver.Provider{"fletcher32": checksum.Provider(), "shuffle": shuffle.Provider(), "zlib": zlib.Provider()}
	sum, sh, zl := driver.Step{ID: "fletcher32"}, driver.Step{ID: "shuffle"}, driver.Step{ID: "zlib"}
	for place, steps := range [][]driver.Step{{sum, sh, zl}, {sh, sum, zl}, {sh, zl, sum}, {sum}, {sum, sum}} {
		p, err := codec.Open(t.Context(), steps, spec(40), func(id string) (driver.Provider, error) { return providers[id], nil })
		if err != nil {
			t.Fatal(err)
		}
		enc, dst := make([]byte, p.MaxEncoded()), make([]byte, p.DecodedSize())
		n, err := p.Encode(t.Context(), enc, squares())
		if err != nil {
			t.Fatal(err)
		}
		if k, err := p.Decode(t.Context(), dst, enc[:n]); err != nil || !bytes.Equal(squares(), dst[:k]) {
			t.Errorf("position %d: want %x, got %x, %v", place, squares(), dst[:k], err)
		}
		if steps[len(steps)-1].ID == sum.ID {
			other := swap(enc[:n])
			if k, err := p.Decode(t.Context(), dst, other); err != nil || !bytes.Equal(squares(), dst[:k]) {
				t.Errorf("position %d, bytes swapped: want %x, got %x, %v", place, squares(), dst[:k], err)
			}
		}
		for i := range 8 * n {
			enc[i/8] ^= 1 << (i % 8)
			if k, err := p.Decode(t.Context(), dst, enc[:n]); err == nil && !bytes.Equal(squares(), dst[:k]) {
				t.Errorf("position %d, bit %d: different values without an error", place, i)
			}
			enc[i/8] ^= 1 << (i % 8)
		}
	}
}
