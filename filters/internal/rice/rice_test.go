package rice_test

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-695719ce/nczarr/filters/internal/bitio"
	"github.com/seed-695719ce/nczarr/filters/internal/rice"
)

// decode fills v interval by interval. The last interval may be shorter.
func decode(v []uint32, src []byte, p rice.Params) error {
	d := rice.NewDecoder(src, p)
	part := make([]uint32, p.Len())
	for len(v) > 0 {
		if err := d.Next(part); err != nil {
			return err
		}
		v = v[copy(v, part):]
	}
	return nil
}

// encode encodes v, which holds whole intervals, and overwrites it.
func encode(dst []byte, v []uint32, p rice.Params) (int, error) {
	e := rice.NewEncoder(dst, p)
	for part := range slices.Chunk(v, p.Len()) {
		e.Next(part)
	}
	return e.End()
}

func quadratic() []uint32 {
	v := make([]uint32, 40)
	for i := range v {
		v[i] = uint32(i * i / 7 % 251)
	}
	return v
}

func saw() []uint32 {
	v := make([]uint32, 32)
	for i := range v {
		v[i] = uint32(i*37%500 + 1000)
	}
	return v
}

func noise() []uint32 {
	v := make([]uint32, 32)
	for i := range v {
		v[i] = uint32((i*167 + 91*i*i) % 256)
	}
	return v
}

// TestLibaec checks that output of libaec is decoded, with and without prediction, with
// zero blocks, split codes, second extensions and uncompressed blocks. Truncated output
// must be rejected.
func TestLibaec(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		src  string
		p    rice.Params
		want []uint32
	}{
		"differences": {"201a4842d55248540455550929248a9249db0002849249294926c0", rice.Params{Bits: 8, Block: 8, Interval: 5, Predict: true}, quadratic()},
		"as they are": {"5ea445ef55337c2918195549225d3cfcabea4b2c0d0e0f10113e4a6e96bee70f3b64", rice.Params{Bits: 8, Block: 8, Interval: 5}, quadratic()},
		"zeros":       {"000080", rice.Params{Bits: 8, Block: 8, Interval: 8, Predict: true}, make([]uint32, 64)},
		"16 bits":     {"803e8fff80e54a952a54a952a54a952a51d951ffe03e54a952a54a952a54a9528eca9528", rice.Params{Bits: 16, Block: 16, Interval: 2, Predict: true}, saw()},
		"noise":       {"e000575ae90976d180eabda60af1d0027e3f10c11f0dd07ecda091bf01a08606b0", rice.Params{Bits: 8, Block: 16, Interval: 2, Predict: true}, noise()},
	} {
		src, err := hex.DecodeString(c.src)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint32, len(c.want))
		if err := decode(got, src, c.p); err != nil || !slices.Equal(c.want, got) {
			t.Errorf("%s: want %v, got %v, %v", name, c.want, got, err)
		}
		for n := range src[:len(src)-1] { // the last byte may be padding
			if err := decode(got, src[:n], c.p); !errors.Is(err, rice.ErrCorrupt) {
				t.Errorf("%s, cut to %d bytes: want ErrCorrupt, got %v", name, n, err)
			}
		}
	}
}

// TestTooLarge checks that codes for samples with too many bits, and for pairs that the
// reference decoder rejects, are an error.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bits uint
		src  []byte
	}{
		"split":                  {3, []byte{0b001_00000, 0b00000000, 0b00010000, 0}},                       // 16 zeros: 16 in 3 bits
		"low bits of a split":    {3, []byte{0b110_11_111, 0b11_111110}},                                    // 5 bits in 3
		"second extension":       {3, append([]byte{0b0001_0000}, append(make([]byte, 16), 0b00010000)...)}, // more than 7 and 7
		"beyond pairs of 12":     {8, append([]byte{0b0001_0000}, append(make([]byte, 11), 0b00010000)...)}, // 95 zeros: 9 and 4
		"far beyond pairs of 12": {16, append([]byte{0b00001_000}, append(make([]byte, 100), 0b00010000)...)},
	} {
		v := make([]uint32, 2)
		err := decode(v, c.src, rice.Params{Bits: c.bits, Block: 2, Interval: 1})
		if !errors.Is(err, rice.ErrCorrupt) {
			t.Errorf("%s: want ErrCorrupt, got %v and %v", name, v, err)
		}
	}
	v := make([]uint32, 2)
	if err := decode(v, []byte{0b010_00000, 0b00000000, 0}, rice.Params{Bits: 32, Block: 2, Interval: 1}); !errors.Is(err, rice.ErrCorrupt) {
		t.Errorf("a unary code without an end: want ErrCorrupt, got %v and %v", v, err)
	}
}

// TestRoundTrip checks that samples of every size survive a round trip with several block
// sizes, and that the output fits in MaxEncoded bytes.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for bits := uint(1); bits <= 32; bits++ {
		for _, block := range []int{2, 8, 16, 32} {
			for kind := range 4 {
				p := rice.Params{Bits: bits, Block: block, Interval: 1 + r.IntN(6), Predict: kind%2 == 0}
				v := make([]uint32, p.Block*p.Interval*(1+r.IntN(4)))
				for i := range v {
					if v[i] = r.Uint32() & uint32(1<<bits-1); kind < 2 {
						v[i] = uint32(i/3) & uint32(1<<bits-1)
					}
				}
				dst := make([]byte, rice.MaxEncoded(int64(len(v)), p))
				n, err := encode(dst, slices.Clone(v), p)
				if err != nil {
					t.Fatalf("%+v: %v", p, err)
				}
				got := make([]uint32, len(v))
				if err := decode(got, dst[:n], p); err != nil || !slices.Equal(v, got) {
					t.Errorf("%+v: %d samples change in a round trip, %v", p, len(v), err)
				}
				if _, err := encode(dst[:n-1], slices.Clone(v), p); !errors.Is(err, bitio.ErrShort) {
					t.Errorf("%+v with a short buffer: want ErrShort, got %v", p, err)
				}
			}
		}
	}
}

// FuzzDecode checks that any input either fails with ErrCorrupt or decodes to samples
// that survive a round trip.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x00\x00\x80"), uint8(8), uint8(4), true)
	f.Add([]byte("\x20\x1a\x48\x42\xd5\x52\x48\x54\x04\x55"), uint8(8), uint8(4), true)
	f.Add(binary.BigEndian.AppendUint64(nil, 1<<63), uint8(32), uint8(1), false)
	f.Fuzz(func(t *testing.T, src []byte, bits, half uint8, predict bool) {
		p := rice.Params{Bits: 1 + uint(bits-1)%32, Block: 2 + 2*int(half%16), Interval: 4, Predict: predict}
		v := make([]uint32, 2*p.Block*p.Interval)
		if err := decode(v, src, p); err != nil {
			if !errors.Is(err, rice.ErrCorrupt) {
				t.Fatalf("want ErrCorrupt, got %v", err)
			}
			return
		}
		dst := make([]byte, rice.MaxEncoded(int64(len(v)), p))
		n, err := encode(dst, slices.Clone(v), p)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]uint32, len(v))
		if err := decode(got, dst[:n], p); err != nil || !slices.Equal(v, got) {
			t.Fatalf("%+v: samples change in a round trip, %v", p, err)
		}
	})
}
