package dataset_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// lender lends memory for bodies and records where the bodies of chunks are.
type lender struct {
	driver.Map
	mu             sync.Mutex
	held           map[*byte]bool // memory that is lent
	lent, released int
	inside, beside int // chunks in and outside lent memory
}

func (l *lender) LendBody(n int64) ([]byte, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mem := make([]byte, n)
	l.held[&mem[0]] = true
	l.lent++
	return mem, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.released++
		delete(l.held, &mem[0])
		clear(mem) // a put that still needs the memory stores zeros
	}
}

func (l *lender) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if mem, ok := body.(driver.Bytes); ok && isChunk(key) {
		l.mu.Lock()
		if l.held[&mem[0]] {
			l.inside++
		} else {
			l.beside++
		}
		l.mu.Unlock()
	}
	return l.Map.Put(ctx, key, body, o)
}

// TestWritesGatherIntoLentMemory checks that raw chunks are gathered in memory that the store
// lends, that this memory is released when the write ends, and that the values are right.
func TestWritesGatherIntoLentMemory(t *testing.T) {
	t.Parallel()
	o := unbuffered(inMemory())
	l := &lender{held: map[*byte]bool{}}
	o.Wrap = func(m driver.Map) driver.Map { l.Map = m; return l }
	ds := create(t, "mem:lent", o)
	var dims []*dataset.Dim
	for _, name := range []string{"y", "x"} {
		d, err := ds.Root().DefineDim(name, 9, false)
		if err != nil {
			t.Fatal(err)
		}
		dims = append(dims, d)
	}
	v, err := ds.Root().DefineVar(t.Context(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: dims, Chunks: []int64{4, 4}})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int32, 81)
	for i := range want {
		want[i] = int32(i + 1)
	}
	if err := v.Write(t.Context(), v.All(), want); err != nil {
		t.Fatal(err)
	}
	part := chunk.Selection{Start: []int64{3, 2}, Count: []int64{2, 3}}
	if err := v.Write(t.Context(), part, []int32{-1, -2, -3, -4, -5, -6}); err != nil {
		t.Fatal(err)
	}
	for i, n := range []int32{-1, -2, -3, -4, -5, -6} {
		want[(3+i/3)*9+2+i%3] = n
	}
	got := make([]int32, 81)
	if err := v.Read(t.Context(), v.All(), got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	closeDataset(t, ds)
	if l.inside != 9+4 || l.beside != 0 {
		t.Errorf("%d chunks were stored from lent memory and %d from other memory, want 13 and 0", l.inside, l.beside)
	}
	if l.lent == 0 || l.released != l.lent {
		t.Errorf("memory was lent %d times and released %d times", l.lent, l.released)
	}
}
