package inflate_test

import (
	"bytes"
	"compress/gzip"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
)

// within fails a test whose f takes much longer than linear work would, each of
// a few times: what a busy machine takes away does not count, nor does what the
// race detector takes.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	var took time.Duration
	for range 5 {
		start := time.Now()
		f()
		if took = time.Since(start); took <= limit || raceOn {
			return
		}
	}
	t.Errorf("want at most %v, took %v", limit, took)
}

// TestManyMembersBeforePadding decodes many empty members that many zeros
// follow: the work must not grow with the product of both.
func TestManyMembersBeforePadding(t *testing.T) {
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	src := append(bytes.Repeat(one.Bytes(), 40_000), make([]byte, 1<<20)...)
	within(t, 2*time.Second, func() {
		n, err := new(inflate.Decoder).Gzip(t.Context(), nil, src)
		if n != 0 || err != nil {
			t.Errorf("want no bytes, got %d, %v", n, err)
		}
	})
}

// TestManyEmptyBlocks decodes blocks of fixed codes that hold nothing: 10 bits
// each, for which no tables may be built anew.
func TestManyEmptyBlocks(t *testing.T) {
	src := make([]byte, 1<<20)
	for bit := range len(src)*8/10 - 1 { // not the last block, fixed codes, end of block
		at := 10*bit + 1
		src[at/8] |= 1 << (at % 8)
	}
	within(t, time.Second, func() {
		n, _, err := new(inflate.Decoder).Deflate(t.Context(), nil, src)
		if n != 0 || err == nil {
			t.Errorf("want an error, got %d bytes", n)
		}
	})
}
