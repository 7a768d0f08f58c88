package inflate_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	kflate "github.com/klauspost/compress/flate"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
)

// samples returns inputs of many kinds: matches at distances 1 to 40, noise, runs.
func samples() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 100_000)
	planes := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for i := range planes {
		planes[i] = byte(i/70_000*40) + byte(r.NormFloat64()*3)
	}
	s := map[string][]byte{
		"empty": nil, "one": {7}, "noise": noise, "planes": planes, "zeros": make([]byte, 300_000),
		"text": bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; "), 3000),
	}
	for dist := 1; dist <= 40; dist++ {
		var b []byte
		for len(b) < 5000 {
			b = append(b, noise[len(b):len(b)+dist]...)
			for n := 3 + r.IntN(300); n > 0; n-- {
				b = append(b, b[len(b)-dist])
			}
		}
		s[fmt.Sprintf("dist%02d", dist)] = b
	}
	return s
}

func deflated(t testing.TB, plain []byte, level int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(plain)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// decode decodes src with f into a buffer of room bytes, and checks the canary bytes
// around it.
func decode(t testing.TB, src []byte, room int, f func(context.Context, []byte, []byte) (int, error)) ([]byte, error) {
	t.Helper()
	b := bytes.Repeat([]byte{0xC5}, room+64)
	n, err := f(t.Context(), b[32:32+room:32+room], src)
	for i, c := range b {
		if (i < 32 || i >= 32+room) && c != 0xC5 {
			t.Fatalf("byte %d outside dst was written", i-32)
		}
	}
	return b[32 : 32+n], err
}

func raw(d *inflate.Decoder) func(context.Context, []byte, []byte) (int, error) {
	return func(ctx context.Context, dst, src []byte) (int, error) {
		n, _, err := d.Deflate(ctx, dst, src)
		return n, err
	}
}

func TestDeflate(t *testing.T) {
	t.Parallel()
	var d inflate.Decoder
	for name, plain := range samples() {
		for _, level := range []int{0, 1, 6, 9, flate.HuffmanOnly} {
			src := deflated(t, plain, level)
			got, err := decode(t, src, len(plain), raw(&d))
			if err != nil || !bytes.Equal(plain, got) {
				t.Fatalf("%s, level %d: got %d of %d bytes, or wrong bytes, %v", name, level, len(got), len(plain), err)
			}
			if _, err := decode(t, src, len(plain)+1000, raw(&d)); err != nil {
				t.Errorf("%s, level %d, with a larger buffer: %v", name, level, err)
			}
			if len(plain) > 0 {
				if _, err := decode(t, src, len(plain)-1, raw(&d)); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
					t.Errorf("%s, level %d: want ErrShortBuffer, got %v", name, level, err)
				}
			}
			if _, read, _ := d.Deflate(t.Context(), make([]byte, len(plain)), append(bytes.Clone(src), 1, 2, 3, 4, 5, 6, 7, 8, 9)); read != len(src) {
				t.Errorf("%s, level %d: want %d bytes read, got %d", name, level, len(src), read)
			}
		}
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	var d inflate.Decoder
	for name, plain := range samples() {
		var z, g bytes.Buffer
		zw, gw := zlib.NewWriter(&z), gzip.NewWriter(&g)
		gw.Name, gw.Comment, gw.Extra = "name", "comment", []byte("extra")
		_, _ = zw.Write(plain)
		_, _ = gw.Write(plain)
		if err := errors.Join(zw.Close(), gw.Close()); err != nil {
			t.Fatal(err)
		}
		for frame, src := range map[string][]byte{"zlib": z.Bytes(), "gzip": g.Bytes()} {
			got, err := decode(t, src, len(plain), d.Any)
			if err != nil || !bytes.Equal(plain, got) {
				t.Errorf("%s/%s: want the original, got %d bytes, %v", frame, name, len(got), err)
			}
		}
		two := append(append(bytes.Clone(g.Bytes()), make([]byte, 300)...), g.Bytes()...)
		got, err := decode(t, append(two, 0, 0, 0), 2*len(plain), d.Gzip)
		if err != nil || !bytes.Equal(append(bytes.Clone(plain), plain...), got) {
			t.Errorf("%s: two members with padding: want the original twice, got %d bytes, %v", name, len(got), err)
		}
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	var d inflate.Decoder
	plain := []byte(strings.Repeat("some text, some more text. ", 40))
	var z, g bytes.Buffer
	zw, gw := zlib.NewWriter(&z), gzip.NewWriter(&g)
	_, _ = zw.Write(plain)
	_, _ = gw.Write(plain)
	if err := errors.Join(zw.Close(), gw.Close()); err != nil {
		t.Fatal(err)
	}
	for name, src := range map[string][]byte{"zlib": z.Bytes(), "gzip": g.Bytes()} {
		for n := range src {
			if _, err := decode(t, src[:n], len(plain), d.Any); ncerr.KindOf(err) != ncerr.ErrCorrupt {
				t.Errorf("%s cut to %d bytes: want ErrCorrupt, got %v", name, n, err)
			}
		}
		for i := range 8 * len(src) {
			bad := bytes.Clone(src)
			bad[i/8] ^= 1 << (i % 8)
			got, err := decode(t, bad, len(plain), d.Any)
			if err == nil && !bytes.Equal(plain, got) {
				t.Errorf("%s with bit %d flipped decodes to wrong bytes without an error", name, i)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var d inflate.Decoder
	if _, _, err := d.Deflate(ctx, make([]byte, 10), deflated(t, []byte("abc"), 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
}

func TestPoolAllocatesNothing(t *testing.T) { //nolint:paralleltest // the test counts allocations
	if raceOn {
		t.Skip("allocations are not counted under the race detector")
	}
	var p inflate.Pool
	plain := samples()["planes"]
	src, dst := deflated(t, plain, 6), make([]byte, len(plain))
	ctx := t.Context()
	got := testing.AllocsPerRun(50, func() {
		d := p.Get()
		_, _, _ = d.Deflate(ctx, dst, src)
		p.Put(d)
	})
	if got != 0 {
		t.Errorf("want no allocations, got %v", got)
	}
}

// FuzzDeflate compares the decoder with two others. All three must return the same
// bytes, or all three must fail.
func FuzzDeflate(f *testing.F) {
	for name, plain := range samples() {
		if len(plain) > 6000 && !strings.HasPrefix(name, "dist") {
			plain = plain[:6000]
		}
		for _, level := range []int{0, 1, 9} {
			f.Add(deflated(f, plain, level))
		}
	}
	f.Add([]byte{0x03, 0x00})
	f.Add([]byte{0x05, 0xE0, 0x81, 0x08, 0, 0, 0, 0, 0x20, 0x7F})
	f.Fuzz(func(t *testing.T, src []byte) {
		const room = 1 << 17
		want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(src)), room+1))
		var d inflate.Decoder
		got, err := decode(t, src, room, raw(&d))
		if len(want) > room {
			if ncerr.KindOf(err) != ncerr.ErrShortBuffer {
				t.Fatalf("want ErrShortBuffer, got %v", err)
			}
			return
		}
		if (wantErr == nil) != (err == nil) {
			t.Fatalf("compress/flate returns %v, we return %v", wantErr, err)
		}
		if err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrCorrupt && k != ncerr.ErrShortBuffer {
				t.Fatalf("unexpected kind of %v", err)
			}
			return
		}
		if !bytes.Equal(want, got) {
			t.Fatalf("want %d bytes, got %d different ones", len(want), len(got))
		}
		if other, err := io.ReadAll(kflate.NewReader(bytes.NewReader(src))); err != nil || !bytes.Equal(other, got) {
			t.Fatalf("klauspost returns %d bytes, %v; we return %d", len(other), err, len(got))
		}
		if exact, err := decode(t, src, len(got), raw(&d)); err != nil || !bytes.Equal(exact, got) {
			t.Fatalf("with a buffer of exact size: %v", err)
		}
	})
}

func FuzzFrames(f *testing.F) {
	var z, g bytes.Buffer
	zw, gw := zlib.NewWriter(&z), gzip.NewWriter(&g)
	_, _ = zw.Write([]byte("hello hello hello"))
	_, _ = gw.Write([]byte("hello hello hello"))
	_ = errors.Join(zw.Close(), gw.Close())
	f.Add(z.Bytes())
	f.Add(g.Bytes())
	f.Add([]byte{0x1F, 0x8B, 8, 0x1F, 0, 0, 0, 0, 0, 0, 1, 0, 'x', 'n', 0, 'c', 0, 0, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		var d inflate.Decoder
		got, err := decode(t, src, 1<<16, d.Any)
		if err != nil || src[0] == 0x1F {
			return
		}
		r, err := zlib.NewReader(bytes.NewReader(src))
		if err != nil {
			t.Fatalf("compress/zlib rejects input that we decode: %v", err)
		}
		if want, err := io.ReadAll(r); err != nil || !bytes.Equal(want, got) {
			t.Fatalf("compress/zlib returns %d bytes, %v; we return %d", len(want), err, len(got))
		}
	})
}

func BenchmarkDeflate(b *testing.B) {
	for _, name := range []string{"planes", "text", "noise"} {
		plain := samples()[name]
		src, dst := deflated(b, plain, 6), make([]byte, len(plain))
		b.Run(name+"/ours", func(b *testing.B) {
			var d inflate.Decoder
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := d.Deflate(b.Context(), dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/klauspost", func(b *testing.B) {
			r := kflate.NewReader(bytes.NewReader(src))
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				_ = r.(kflate.Resetter).Reset(bytes.NewReader(src), nil)
				if _, err := io.ReadFull(r, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
