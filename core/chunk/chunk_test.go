package chunk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func TestSelectionCheck(t *testing.T) {
	t.Parallel()
	shape := []int64{10, 0}
	for name, c := range map[string]struct {
		sel  chunk.Selection
		want error
	}{
		"all":                   {chunk.All(shape), nil},
		"empty at the end":      {chunk.Selection{Start: []int64{10, 0}, Count: []int64{0, 0}}, nil},
		"stride to last":        {chunk.Selection{Start: []int64{0, 0}, Count: []int64{4, 0}, Stride: []int64{3, 1}}, nil},
		"stride past end":       {chunk.Selection{Start: []int64{1, 0}, Count: []int64{4, 0}, Stride: []int64{3, 1}}, ncerr.ErrRange},
		"start at end":          {chunk.Selection{Start: []int64{10, 0}, Count: []int64{1, 0}}, ncerr.ErrRange},
		"start past end":        {chunk.Selection{Start: []int64{11, 0}, Count: []int64{0, 0}}, ncerr.ErrRange},
		"in an empty dimension": {chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 1}}, ncerr.ErrRange},
		"negative start":        {chunk.Selection{Start: []int64{-1, 0}, Count: []int64{1, 0}}, ncerr.ErrInvalid},
		"negative count":        {chunk.Selection{Start: []int64{0, 0}, Count: []int64{-1, 0}}, ncerr.ErrInvalid},
		"zero stride":           {chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 0}, Stride: []int64{0, 1}}, ncerr.ErrInvalid},
		"rank":                  {chunk.Selection{Start: []int64{0}, Count: []int64{1}}, ncerr.ErrInvalid},
		"stride rank":           {chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 0}, Stride: []int64{1}}, ncerr.ErrInvalid},
		"overflow":              {chunk.Selection{Start: []int64{1, 0}, Count: []int64{math.MaxInt64, 0}, Stride: []int64{math.MaxInt64, 1}}, ncerr.ErrRange},
	} {
		if got := c.sel.Check(shape); !errors.Is(got, c.want) {
			t.Errorf("%s: want %v, got %v", name, c.want, got)
		}
	}
	huge := []int64{math.MaxInt64, math.MaxInt64}
	if err := chunk.All(huge).Check(huge); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("want ErrLimit for 2^126 elements, got %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		index []int64
		keys  chunk.Keys
		want  string
	}{
		{[]int64{}, chunk.Keys{Separator: '.'}, "0"},
		{[]int64{7}, chunk.Keys{Separator: '.'}, "7"},
		{[]int64{0, 12, 3}, chunk.Keys{Separator: '.'}, "0.12.3"},
		{[]int64{1, 2}, chunk.Keys{Separator: '/'}, "1/2"},
		{[]int64{}, chunk.Keys{Separator: '/', Prefix: true}, "c"},
		{[]int64{7}, chunk.Keys{Separator: '/', Prefix: true}, "c/7"},
		{[]int64{1, 2}, chunk.Keys{Separator: '.', Prefix: true}, "c.1.2"},
		{[]int64{1, 23, 45}, chunk.Keys{Separator: '/', Prefix: true, Suffix: ".tiff"}, "c/1/23/45.tiff"},
		{[]int64{1, 23, 45}, chunk.Keys{Separator: '.', Prefix: true, Suffix: ".tiff"}, "c.1.23.45.tiff"},
		{[]int64{}, chunk.Keys{Separator: '/', Prefix: true, Suffix: ".tiff"}, "c.tiff"},
		{[]int64{7}, chunk.Keys{Separator: '/', Prefix: true, Suffix: "7"}, "c/77"},
	} {
		if got := string(c.keys.Append([]byte("v/"), c.index)); got != "v/"+c.want {
			t.Errorf("want %q, got %q", "v/"+c.want, got)
		}
		if got := c.keys.Parse(c.want, len(c.index)); !slices.Equal(got, c.index) || got == nil {
			t.Errorf("%q: want %v, got %v", c.want, c.index, got)
		}
		for _, bad := range []string{"", "c" + c.want, c.want + ".0", "0" + c.want, c.want + "/", "-" + c.want, "c/", "+1/2"} {
			if got := c.keys.Parse(bad, len(c.index)); got != nil {
				t.Errorf("%q of %d dimensions: want nil, got %v", bad, len(c.index), got)
			}
		}
		if len(c.index) > 1 && c.keys.Other().Parse(c.want, len(c.index)) != nil {
			t.Errorf("%q was parsed with the other separator", c.want)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	if n, err := chunk.Bytes([]int64{3, 4}, 8, 96); n != 96 || err != nil {
		t.Errorf("want 96, got %d, %v", n, err)
	}
	for _, c := range []struct {
		shape []int64
		want  error
	}{{[]int64{3, 5}, ncerr.ErrLimit}, {[]int64{math.MaxInt64, math.MaxInt64}, ncerr.ErrLimit}, {[]int64{0}, ncerr.ErrBadChunk}, {[]int64{-1, 2}, ncerr.ErrBadChunk}} {
		if _, err := chunk.Bytes(c.shape, 8, 96); !errors.Is(err, c.want) {
			t.Errorf("%v: want %v, got %v", c.shape, c.want, err)
		}
	}
}

func TestNewPlanRefuses(t *testing.T) {
	t.Parallel()
	sel := chunk.All([]int64{4, 4})
	for _, chunks := range [][]int64{{4}, {0, 4}, {4, -1}} {
		if _, err := chunk.NewPlan(sel, chunk.Regular(chunks)); !errors.Is(err, ncerr.ErrBadChunk) {
			t.Errorf("%v: want ErrBadChunk, got %v", chunks, err)
		}
	}
	many := []int64{1 << 40, 1 << 40}
	if _, err := chunk.NewPlan(chunk.All(many), chunk.Regular([]int64{1, 1})); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("want ErrLimit, got %v", err)
	}
}

// grid describes a small chunked array in which element i, in C order, has the value i+1.
// Its methods compute chunks and selections with simple loops.
type grid struct {
	shape, chunks []int64   // chunks are the largest chunk lengths
	lengths       [][]int64 // chunk lengths of each dimension; nil if all are equal
	transpose     []int
	elem          int
}

func drawGrid(t *rapid.T) (grid, chunk.Selection) {
	rank := rapid.IntRange(0, 4).Draw(t, "rank")
	g := grid{elem: rapid.SampledFrom([]int{1, 2, 3, 4, 8, 16}).Draw(t, "elem")}
	var sel chunk.Selection
	for range rank {
		n := rapid.Int64Range(1, 7).Draw(t, "len")
		start := rapid.Int64Range(0, n-1).Draw(t, "start")
		step := rapid.Int64Range(1, 4).Draw(t, "stride")
		g.shape = append(g.shape, n)
		g.chunks = append(g.chunks, rapid.Int64Range(1, 8).Draw(t, "chunk"))
		var list []int64
		if rapid.Bool().Draw(t, "lengths differ") {
			for sum := int64(0); sum < n || rapid.Bool().Draw(t, "one beyond"); {
				list = append(list, rapid.Int64Range(1, 4).Draw(t, "length"))
				sum += list[len(list)-1]
			}
			g.chunks[len(g.chunks)-1] = slices.Max(list)
		}
		g.lengths = append(g.lengths, list)
		sel.Start = append(sel.Start, start)
		sel.Stride = append(sel.Stride, step)
		sel.Count = append(sel.Count, rapid.Int64Range(0, (n-1-start)/step+1).Draw(t, "count"))
	}
	if rank > 0 && rapid.Bool().Draw(t, "transposed") {
		g.transpose = rapid.Permutation(seq(rank)).Draw(t, "order")
	}
	return g, sel
}

// plan returns the plan of sel.
func (g grid) plan(t *rapid.T, sel chunk.Selection) *chunk.Plan {
	dims := make([][]chunk.Run, len(g.shape))
	for d, list := range g.lengths {
		for _, n := range list {
			dims[d] = append(dims[d], chunk.Run{Len: n, Count: 1})
		}
		if list == nil {
			dims[d] = []chunk.Run{{Len: g.chunks[d]}}
		}
	}
	chunkGrid, err := chunk.NewGrid(dims)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := chunk.NewPlan(sel, chunkGrid)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// chunkOf returns the position of the chunk that contains index i of dimension d, its
// first index and its length.
func (g grid) chunkOf(d int, i int64) (index, start, length int64) {
	for length = g.chunks[d]; ; index++ {
		if list := g.lengths[d]; list != nil {
			length = list[index]
		}
		if i < start+length {
			return index, start, length
		}
		start += length
	}
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// eachIndex calls f with every index of shape in C order.
func eachIndex(shape []int64, f func(idx []int64)) {
	idx := make([]int64, len(shape))
	for _, n := range shape {
		if n == 0 {
			return
		}
	}
	for {
		f(idx)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if idx[d]++; idx[d] < shape[d] {
				break
			}
			idx[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// value returns the content of the element at idx.
func (g grid) value(idx []int64) []byte {
	n := int64(0)
	for d := range idx {
		n = n*g.shape[d] + idx[d]
	}
	v := make([]byte, 16)
	binary.LittleEndian.PutUint64(v, uint64(n+1))
	binary.BigEndian.PutUint64(v[8:], uint64(n+1))
	return v[:g.elem]
}

// offset returns the position of the element at idx within its chunk.
func (g grid) offset(idx []int64) int {
	order := g.transpose
	if order == nil {
		order = seq(len(idx))
	}
	n := int64(0)
	for _, d := range order {
		_, start, length := g.chunkOf(d, idx[d])
		n = n*length + idx[d] - start
	}
	return int(n) * g.elem
}

// chunkBytes returns the size of the chunk that contains idx.
func (g grid) chunkBytes(idx []int64) int {
	n := g.elem
	for d, i := range idx {
		_, _, length := g.chunkOf(d, i)
		n *= int(length)
	}
	return n
}

func (g grid) key(idx []int64) string {
	at := make([]int64, len(idx))
	for d := range idx {
		at[d], _, _ = g.chunkOf(d, idx[d])
	}
	return string(chunk.Keys{Separator: '.'}.Append(nil, at))
}

// allChunks returns all chunks, with 0xEE outside the array.
func (g grid) allChunks() map[string][]byte {
	out := make(map[string][]byte)
	eachIndex(g.shape, func(idx []int64) {
		k := g.key(idx)
		if out[k] == nil {
			out[k] = bytes.Repeat([]byte{0xEE}, g.chunkBytes(idx))
		}
		copy(out[k][g.offset(idx):], g.value(idx))
	})
	return out
}

// want returns the selected elements, collected by simple loops.
func (g grid) want(sel chunk.Selection) []byte {
	var out []byte
	eachIndex(sel.Count, func(idx []int64) {
		at := make([]int64, len(idx))
		for d := range idx {
			at[d] = sel.Start[d] + idx[d]*sel.Stride[d]
		}
		out = append(out, g.value(at)...)
	})
	return out
}

func eachProjection(t *rapid.T, g grid, sel chunk.Selection, f func(plan *chunk.Plan, p chunk.Projection, key string)) {
	plan := g.plan(t, sel)
	seen := make(map[string]bool)
	for i := range plan.Len() {
		p := make(chunk.Projection, plan.Rank())
		plan.At(i, p)
		idx := make([]int64, len(p))
		for d, s := range p {
			idx[d] = s.Index
			if s.N < 1 {
				t.Fatalf("projection %d is empty in dimension %d", i, d)
			}
		}
		key := string(chunk.Keys{Separator: '.'}.Append(nil, idx))
		if seen[key] {
			t.Fatalf("chunk %s is in two projections", key)
		}
		seen[key] = true
		if n, ok := plan.Number(idx); !ok || n != i {
			t.Fatalf("projection %d has number %d, %t", i, n, ok)
		}
		f(plan, p, key)
	}
	for _, bounds := range [][]int64{g.shape, slices.Repeat([]int64{math.MaxInt64}, len(g.shape))} {
		var got, want []int64
		plan.Parts(bounds, func(i int64) bool { got = append(got, i); return true })
		p := make(chunk.Projection, plan.Rank())
		for i := range plan.Len() {
			if plan.At(i, p); !plan.Covers(p, bounds) {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Parts within %v: got %v, want %v", bounds, got, want)
		}
	}
	for key := range g.allChunks() {
		var idx []int64
		for _, n := range strings.FieldsFunc(key, func(c rune) bool { return c == '.' }) {
			k, _ := strconv.ParseInt(n, 10, 64)
			idx = append(idx, k)
		}
		if n, ok := plan.Number(idx[:plan.Rank()]); ok != seen[key] {
			t.Fatalf("chunk %s has number %d, %t", key, n, ok)
		}
	}
}

func TestScatterAgainstLoops(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		g, sel := drawGrid(t)
		chunks, want := g.allChunks(), g.want(sel)
		got := make([]byte, len(want))
		eachProjection(t, g, sel, func(plan *chunk.Plan, p chunk.Projection, key string) {
			m := chunk.NewMover(plan, sel.Count, g.chunks, g.transpose, g.elem)
			m.Scatter(got, chunks[key], p)
		})
		if !bytes.Equal(got, want) {
			t.Fatalf("want %x, got %x", want, got)
		}
	})
}

func TestGatherAgainstLoops(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		g, sel := drawGrid(t)
		slab := g.want(sel)
		whole := g.allChunks()
		got := make(map[string][]byte)
		eachProjection(t, g, sel, func(plan *chunk.Plan, p chunk.Projection, key string) {
			buf := bytes.Repeat([]byte{0xDD}, len(whole[key]))
			chunk.NewMover(plan, sel.Count, g.chunks, g.transpose, g.elem).Gather(buf, slab, p)
			got[key] = buf
			taken := len(buf) - bytes.Count(buf, []byte{0xDD})
			if plan.Whole(p) && taken != len(buf) && g.elem == 1 {
				t.Fatalf("Whole reports true for chunk %s, but %d of %d bytes were written", key, taken, len(buf))
			}
			if plan.Covers(p, g.shape) && !sameInside(g, buf, whole[key], key) {
				t.Fatalf("Covers reports true for chunk %s, but the projection does not cover it", key)
			}
		})
		eachIndex(sel.Count, func(idx []int64) {
			at := make([]int64, len(idx))
			for d := range idx {
				at[d] = sel.Start[d] + idx[d]*sel.Stride[d]
			}
			buf := got[g.key(at)]
			if elem := buf[g.offset(at):][:g.elem]; !bytes.Equal(elem, g.value(at)) {
				t.Fatalf("at %v: want %x, got %x", at, g.value(at), elem)
			}
		})
	})
}

// TestRunsAgainstGather checks that the runs of EachRun contain each element that Gather
// copies exactly once, and no other element.
func TestRunsAgainstGather(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		g, sel := drawGrid(t)
		g.elem = 1
		ones := bytes.Repeat([]byte{1}, int(sel.Len()))
		whole := g.allChunks()
		eachProjection(t, g, sel, func(plan *chunk.Plan, p chunk.Projection, key string) {
			m := chunk.NewMover(plan, sel.Count, g.chunks, g.transpose, 1)
			got, want := make([]byte, len(whole[key])), make([]byte, len(whole[key]))
			m.Gather(want, ones, p)
			m.EachRun(p, func(at, n int64) {
				for k := range n {
					got[at+k]++
				}
			})
			if !bytes.Equal(got, want) {
				t.Fatalf("chunk %s: want %x, got %x", key, want, got)
			}
		})
	})
}

// sameInside reports whether the parts of two chunks inside the array are equal.
func sameInside(g grid, a, b []byte, key string) bool {
	same := true
	eachIndex(g.shape, func(idx []int64) {
		if g.key(idx) == key {
			o := g.offset(idx)
			same = same && bytes.Equal(a[o:o+g.elem], b[o:o+g.elem])
		}
	})
	return same
}

func TestFillTouchesOnlyItsPart(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		g, sel := drawGrid(t)
		fill := bytes.Repeat([]byte{0xAB}, g.elem)
		got := make([]byte, len(g.want(sel)))
		total := 0
		eachProjection(t, g, sel, func(plan *chunk.Plan, p chunk.Projection, _ string) {
			m := chunk.NewMover(plan, sel.Count, g.chunks, g.transpose, g.elem)
			m.Fill(got, fill, p)
			n := g.elem
			for _, s := range p {
				n *= int(s.N)
			}
			total += n
			if filled := bytes.Count(got, []byte{0xAB}); filled != total {
				t.Fatalf("%d bytes filled, want %d", filled, total)
			}
		})
		if total != len(got) {
			t.Fatalf("the projections contain %d bytes, want %d", total, len(got))
		}
	})
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		dst := make([]byte, 3*n)
		chunk.Repeat(dst, []byte{1, 2, 3})
		if want := bytes.Repeat([]byte{1, 2, 3}, n); !bytes.Equal(dst, want) {
			t.Errorf("want %v, got %v", want, dst)
		}
	}
	dst := []byte{1, 2}
	chunk.Repeat(dst, nil)
	if !slices.Equal(dst, []byte{0, 0}) {
		t.Errorf("want zeros without a fill value, got %v", dst)
	}
}

func TestContiguousFindsRuns(t *testing.T) { //nolint:paralleltest // the test counts allocations and must run alone
	shape, chunks := []int64{8, 16}, []int64{4, 16}
	plan, err := chunk.NewPlan(chunk.All(shape), chunk.Regular(chunks))
	if err != nil {
		t.Fatal(err)
	}
	m := chunk.NewMover(plan, shape, chunks, nil, 4)
	p := make(chunk.Projection, 2)
	plan.At(1, p)
	if out, in, n, ok := m.Contiguous(p); out != 256 || in != 0 || n != 256 || !ok {
		t.Errorf("want one run of 256 bytes at 256, got out %d in %d n %d ok %t", out, in, n, ok)
	}
	if n := testing.AllocsPerRun(100, func() { plan.At(1, p); m.Contiguous(p) }); n != 0 {
		t.Errorf("got %v allocations per projection, want 0", n)
	}
}

func BenchmarkScatter(b *testing.B) {
	for _, c := range []struct {
		name          string
		shape, chunks []int64
		transpose     []int
	}{
		{"rows=4KiB", []int64{1024, 4096}, []int64{1024, 1024}, nil},
		{"rows=256B", []int64{1024, 4096}, []int64{1024, 64}, nil},
		{"order=F", []int64{1024, 1024}, []int64{1024, 1024}, []int{1, 0}},
	} {
		b.Run(c.name, func(b *testing.B) {
			plan, err := chunk.NewPlan(chunk.All(c.shape), chunk.Regular(c.chunks))
			if err != nil {
				b.Fatal(err)
			}
			m := chunk.NewMover(plan, c.shape, c.chunks, c.transpose, 4)
			size := c.chunks[0] * c.chunks[1] * 4
			src, dst := make([]byte, size), make([]byte, c.shape[0]*c.shape[1]*4)
			p := make(chunk.Projection, 2)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				plan.At(0, p)
				m.Scatter(dst, src, p)
			}
		})
	}
}

func TestProduct(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	for _, c := range []struct {
		lengths []int64
		want    int64
	}{
		{nil, 1},
		{[]int64{7}, 7},
		{[]int64{2, 3, 5}, 30},
		{[]int64{1 << 40, 1 << 40}, most},
		{[]int64{1 << 40, 1 << 40, 1}, most},
		{[]int64{1 << 40, 1 << 40, 0}, 0},
		{[]int64{most, 1}, most},
		{[]int64{3, -1}, 0},
	} {
		if got := chunk.Product(c.lengths); got != c.want {
			t.Errorf("%v: want %d, got %d", c.lengths, c.want, got)
		}
	}
}
