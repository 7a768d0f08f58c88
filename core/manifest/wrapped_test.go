package manifest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// wrap encodes a shard for unwrap: it adds a header and reverses the bytes.
func wrap(shard string) string {
	b := []byte(shard)
	slices.Reverse(b)
	return "wrapped:" + string(b)
}

func unwrap(data []byte) ([]byte, error) {
	text, ok := strings.CutPrefix(string(data), "wrapped:")
	if !ok {
		return nil, ncerr.Errorf(ncerr.ErrCorrupt, "decode", "codec", "no header")
	}
	b := []byte(text)
	slices.Reverse(b)
	return b, nil
}

// TestWrapped reads shards that are encoded as a whole, at one and at two levels of
// sharding.
func TestWrapped(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{Checksum: true}
	var decoded atomic.Int64
	decode := func(_ context.Context, data []byte) ([]byte, error) {
		decoded.Add(1)
		return unwrap(data)
	}
	shards := func(source manifest.Source) *manifest.Shards {
		return manifest.NewShards(source, chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
	}
	m := newMap(t)
	put(t, m, "v/c/0", wrap(makeShard(x, "zero", "")))
	put(t, m, "v/c/2", wrap(makeShard(x, "four", "5")))
	one := shards(manifest.NewWrapped(line(m), 100, decode))
	if got, want := locate(t, one, 0, 1, 2, 3, 4, 5), []string{"zero", "absent", "absent", "absent", "four", "5"}; !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	locate(t, one, 5, 0)
	if n := decoded.Load(); n != 2 {
		t.Errorf("want each of 2 shards decoded once, got %d", n)
	}
	put(t, m, "v/c/0", wrap(makeShard(x, "other", "one")))
	one.Forget(false)
	if got, want := locate(t, one, 0, 1), []string{"other", "one"}; !slices.Equal(got, want) {
		t.Errorf("after a change: want %q, got %q", want, got)
	}
	var found []string
	for ch, err := range one.Chunks(t.Context(), []int64{6}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(rune('0'+ch.Index[0]))+ch.Key)
	}
	slices.Sort(found)
	if want := []string{"0v/c/0", "1v/c/0", "4v/c/2", "5v/c/2"}; !slices.Equal(found, want) {
		t.Errorf("want %q, got %q", want, found)
	}
	if g := manifest.Whole(one); !g.Equal(chunk.Regular([]int64{2})) {
		t.Errorf("want units of 2 chunks, got %v", g.Largest())
	}
	if _, err := manifest.AsWriter(one); ncerr.KindOf(err) != ncerr.ErrUnsupported {
		t.Errorf("want ErrUnsupported, got %v", err)
	}

	put(t, m, "v/c/0", makeShard(x, wrap(makeShard(x, "a", "b")), wrap(makeShard(x, "", "d"))))
	inner := shards(manifest.NewWrapped(shards(line(m)), 100, decode))
	if got, want := locate(t, inner, 0, 1, 2, 3), []string{"a", "b", "absent", "d"}; !slices.Equal(got, want) {
		t.Errorf("wrapped in shards: want %q, got %q", want, got)
	}
	if _, err := manifest.AsWriter(inner); ncerr.KindOf(err) != ncerr.ErrUnsupported {
		t.Errorf("want ErrUnsupported, got %v", err)
	}
	put(t, m, "v/c/0", wrap(makeShard(x, makeShard(x, "a", "b"), makeShard(x, "", "d"))))
	outer := shards(shards(manifest.NewWrapped(line(m), 200, decode)))
	if got, want := locate(t, outer, 0, 1, 2, 3), []string{"a", "b", "absent", "d"}; !slices.Equal(got, want) {
		t.Errorf("shards in a wrapped shard: want %q, got %q", want, got)
	}
	if g := manifest.Whole(outer); !g.Equal(chunk.Regular([]int64{4})) {
		t.Errorf("want units of 4 chunks, got %v", g.Largest())
	}
}

// TestWrappedConcurrently checks that calls decode different shards at the same time, and
// that calls for the same shard decode it once.
func TestWrappedConcurrently(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{}
	m := newMap(t)
	put(t, m, "v/c/0", wrap(makeShard(x, "a", "b")))
	put(t, m, "v/c/1", wrap(makeShard(x, "c", "d")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	both := make(chan struct{})
	var decoded atomic.Int64
	w := manifest.NewWrapped(line(m), 100, func(ctx context.Context, data []byte) ([]byte, error) {
		if decoded.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return unwrap(data)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	s := manifest.NewShards(w, chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
	var g errgroup.Group
	out := make([]manifest.Location, 8)
	for i := range out {
		g.Go(func() error { return s.Locate(ctx, [][]int64{{int64(i) % 4}}, out[i:]) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if got, want := contentAt(t, out[i]), string("abcd"[i%4]); got != want {
			t.Errorf("chunk %d: want %q, got %q", i%4, want, got)
		}
	}
	if n := decoded.Load(); n != 2 {
		t.Errorf("want each of 2 shards decoded once, got %d", n)
	}
}

// TestWrappedErrors checks that every error about a shard that is encoded as a whole
// contains its key.
func TestWrappedErrors(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{Checksum: true}
	missing := ncerr.Errorf(ncerr.ErrNoFilter, "open codec", "lost", "no such codec")
	for content, want := range map[string]struct {
		decode func([]byte) ([]byte, error)
		kind   ncerr.Kind
		says   string
	}{
		"bad header":               {unwrap, ncerr.ErrCorrupt, "no header"},
		wrap("short"):              {unwrap, ncerr.ErrCorrupt, "the shard has 5 bytes"},
		strings.Repeat("x", 101):   {unwrap, ncerr.ErrCorrupt, "the encoded shard exceeds the limit of 100 bytes"},
		wrap(makeShard(x, "", "")): {func([]byte) ([]byte, error) { return nil, missing }, ncerr.ErrNoFilter, "no such codec"},
		wrap(""):                   {unwrap, ncerr.ErrCorrupt, "the shard has 0 bytes"},
	} {
		m := newMap(t)
		put(t, m, "v/c/0", content)
		w := manifest.NewWrapped(line(m), 100, func(_ context.Context, data []byte) ([]byte, error) { return want.decode(data) })
		s := manifest.NewShards(w, chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
		err := s.Locate(t.Context(), [][]int64{{0}}, make([]manifest.Location, 1))
		if ncerr.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.says) || !strings.Contains(err.Error(), `"/v/c/0"`) {
			t.Errorf("%q: want %v with %q and the key, got %v", content, want.kind, want.says, err)
		}
	}
}

// TestWrappedConflict checks that an inner shard is not read if its outer shard has changed
// since the index of the outer shard was read.
func TestWrappedConflict(t *testing.T) {
	t.Parallel()
	x := manifest.ShardIndex{}
	m := newMap(t)
	put(t, m, "v/c/0", makeShard(x, wrap(makeShard(x, "a", "b")), wrap(makeShard(x, "c", "d"))))
	outer := manifest.NewShards(line(m), chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
	w := manifest.NewWrapped(outer, 100, func(_ context.Context, data []byte) ([]byte, error) { return unwrap(data) })
	s := manifest.NewShards(w, chunk.Regular([]int64{2}), x, 1<<20, 1<<20, true)
	locate(t, s, 0)
	put(t, m, "v/c/0", makeShard(x, wrap(makeShard(x, "A", "B")), wrap(makeShard(x, "C", "D"))))
	err := s.Locate(t.Context(), [][]int64{{2}}, make([]manifest.Location, 1))
	if !errors.Is(err, ncerr.ErrConflict) {
		t.Fatalf("want ErrConflict, got %v", err)
	}
	s.Forget(true)
	if got, want := locate(t, s, 0, 3), []string{"A", "D"}; !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

// TestWrappedKept checks which shards a Wrapped keeps: the last shard in any case, and
// earlier shards up to MaxWrapped bytes in total.
func TestWrappedKept(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	for _, key := range []string{"v/c/0", "v/c/1", "v/c/2"} {
		put(t, m, key, key)
	}
	reads := func(size int, indexes ...int64) int {
		n := 0
		w := manifest.NewWrapped(line(m), 100, func(context.Context, []byte) ([]byte, error) {
			n++
			return make([]byte, size), nil
		})
		for _, i := range indexes {
			if err := w.Locate(t.Context(), [][]int64{{i}}, make([]manifest.Location, 1)); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if n := reads(manifest.MaxWrapped/2, 0, 1, 0, 1, 0); n != 2 {
		t.Errorf("shards of half the limit: want 2 reads, got %d", n)
	}
	if n := reads(manifest.MaxWrapped/2, 0, 1, 2, 2, 1); n != 4 {
		t.Errorf("three shards of half the limit: want 4 reads, got %d", n)
	}
	if n := reads(manifest.MaxWrapped+1, 0, 0, 1, 1, 0); n != 3 {
		t.Errorf("shards above the limit: want 3 reads, got %d", n)
	}
}
