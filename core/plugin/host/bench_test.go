package host_test

import (
	"bytes"
	"path/filepath"
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestSpill checks that ranges of an object can be read back after a put if the object is
// too large for the plugin to keep in memory.
func TestSpill(t *testing.T) {
	t.Parallel()
	const size = 66<<20 + 5
	h := newHost(t, host.Options{})
	m := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i % 251)
	}
	if _, err := m.Put(t.Context(), "big", driver.Bytes(data), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []driver.Range{{Offset: 0, Length: 100}, {Offset: 64<<20 - 50, Length: 100}, {Offset: -100, Length: -1}} {
		got, info, err := m.Get(t.Context(), "big", &driver.GetOptions{Range: &r}, driver.Heap)
		start, n, _ := r.Resolve(size)
		if err != nil || info.Size != size || !bytes.Equal(got, data[start:start+n]) {
			t.Errorf("range %v: got %d bytes of an object of %d bytes, %v", r, len(got), info.Size, err)
		}
	}
}

func benchmark(b *testing.B, f func(b *testing.B, h *host.Host)) {
	b.Helper()
	for _, isolation := range []host.Isolation{host.InProcess, host.Process} {
		b.Run(string(isolation), func(b *testing.B) {
			h, err := host.New(&host.Options{Self: self, Isolation: isolation})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = h.Close(b.Context()) }()
			f(b, h)
		})
	}
}

// BenchmarkGet reads an object of 1 MiB from the page cache.
func BenchmarkGet(b *testing.B) {
	benchmark(b, func(b *testing.B, h *host.Host) {
		o, err := h.Driver("file")
		if err != nil {
			b.Fatal(err)
		}
		m, err := o.Open(b.Context(), driver.OpenSpec{Path: filepath.Join(b.TempDir(), "s"), Mode: driver.Create})
		if err != nil {
			b.Fatal(err)
		}
		dst := make([]byte, 1<<20)
		if _, err := m.Put(b.Context(), "k", driver.Bytes(dst), &driver.PutOptions{}); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(1 << 20)
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := m.Get(b.Context(), "k", &driver.GetOptions{}, driver.Into(dst)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkDecode decodes a zstd chunk to 1 MiB.
func BenchmarkDecode(b *testing.B) {
	benchmark(b, func(b *testing.B, h *host.Host) {
		p, err := h.Filter("zstd")
		if err != nil {
			b.Fatal(err)
		}
		c, out, err := p.Open("zstd", nil, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		plain := make([]byte, 1<<20)
		seed := uint32(1)
		for i := range plain { // five of eight bits are random
			seed = seed*1664525 + 1013904223
			plain[i] = byte(seed >> 27)
		}
		coded := make([]byte, out.MaxBytes)
		n, err := c.Encode(b.Context(), coded, plain)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(1 << 20)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(b.Context(), plain, coded[:n]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
