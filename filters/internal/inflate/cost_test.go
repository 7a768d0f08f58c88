package inflate_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/filters/internal/inflate"
)

// cheap fails a test whose f takes more than so many times what like takes, the
// work of the standard library for as much input: the best of a few runs of
// each, and of more as long as it is not: a busy machine slows down both. What
// the race detector takes does not count.
func cheap(t *testing.T, times float64, f, like func()) {
	t.Helper()
	ours, theirs := time.Hour, time.Hour
	for n := range 10 {
		ours, theirs = min(ours, spent(f)), min(theirs, spent(like))
		if n > 1 && ours.Seconds() <= times*theirs.Seconds() || raceOn {
			return
		}
	}
	t.Errorf("it takes %v, the standard library %v", ours, theirs)
}

func spent(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
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
	members := src[:40_000*one.Len()]
	cheap(t, 20, func() {
		n, err := new(inflate.Decoder).Gzip(t.Context(), nil, src)
		if n != 0 || err != nil {
			t.Errorf("want no bytes, got %d, %v", n, err)
		}
	}, func() {
		r, err := gzip.NewReader(bytes.NewReader(members))
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			t.Error(err)
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
	cheap(t, 20, func() {
		n, _, err := new(inflate.Decoder).Deflate(t.Context(), nil, src)
		if n != 0 || err == nil {
			t.Errorf("want an error, got %d bytes", n)
		}
	}, func() {
		if n, err := io.Copy(io.Discard, flate.NewReader(bytes.NewReader(src))); n != 0 || err == nil {
			t.Errorf("the standard library: want an error, got %d bytes", n)
		}
	})
}
