package manifest_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

func newMap(t *testing.T) *zmap.Map {
	t.Helper()
	raw, err := memmap.NewOpener().Open(t.Context(), driver.OpenSpec{Path: "m", Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	m := zmap.New(raw, nil)
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	return m
}

func join(prefix string, index []int64, sep string) string {
	if len(index) == 0 {
		return prefix + "0"
	}
	return prefix + strings.ReplaceAll(strings.Trim(fmt.Sprint(index), "[]"), " ", sep)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	for _, c := range []struct {
		prefix string
		index  []int64
		sep    byte
		want   string
	}{
		{"", nil, '.', "0"},
		{"v/", nil, '/', "v/0"},
		{"v/", []int64{0}, '.', "v/0"},
		{"v/", []int64{1, 20, 300}, '.', "v/1.20.300"},
		{"g/v/", []int64{1, 20, 300}, '/', "g/v/1/20/300"},
		{"", []int64{math.MaxInt64, math.MaxInt64}, '.', "9223372036854775807.9223372036854775807"},
	} {
		out := []manifest.Location{{Key: "old", Absent: true, Inline: []byte{1}, Version: "x", FilterMask: 7, Required: true}}
		if err := manifest.NewComputed(m, c.prefix, chunk.Keys{Separator: c.sep}, len(c.index), true).Locate(t.Context(), [][]int64{c.index}, out); err != nil {
			t.Fatal(err)
		}
		l := out[0]
		if l.Key != c.want || l.Map != m {
			t.Errorf("want %q, got %q", c.want, l.Key)
		}
		if l.Absent || l.Required || l.Inline != nil || l.Range != nil || l.Version != "" || l.FilterMask != 0 {
			t.Errorf("%q: fields of the old entry remain: %+v", c.want, l)
		}
	}
}

// TestKeysStay checks that keys do not change while many more keys of any length are created
// concurrently.
func TestKeysStay(t *testing.T) {
	t.Parallel()
	m := newMap(t)
	rapidseed.Check(t, func(rt *rapid.T) {
		prefix := strings.Repeat("p/", rapid.IntRange(0, 8<<10).Draw(rt, "prefix"))
		rank := rapid.IntRange(0, chunk.MaxRank).Draw(rt, "rank")
		c := manifest.NewComputed(m, prefix, chunk.Keys{Separator: '.'}, rank, true)
		const n = 8
		var wg sync.WaitGroup
		for w := range 2 {
			indexes, out := make([][]int64, n), make([]manifest.Location, n)
			for i := range indexes {
				for d := range rank {
					indexes[i] = append(indexes[i], int64(w*1000+i*10+d))
				}
			}
			wg.Go(func() {
				for range 3 {
					if err := c.Locate(t.Context(), indexes, out); err != nil {
						t.Error(err)
					}
					other := make([]manifest.Location, n)
					if err := c.Locate(t.Context(), indexes, other); err != nil {
						t.Error(err)
					}
				}
				for i := range out {
					if want := join(prefix, indexes[i], "."); out[i].Key != want {
						t.Errorf("want %.50q, got %.50q", want, out[i].Key)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestKeysShareBlocks checks that keys share blocks of memory, so that a key does not need a
// separate allocation.
func TestKeysShareBlocks(t *testing.T) { //nolint:paralleltest // the test counts allocations and must run alone
	c := manifest.NewComputed(newMap(t), "v/", chunk.Keys{Separator: '.'}, 2, true)
	indexes, out := make([][]int64, 64), make([]manifest.Location, 64)
	for i := range indexes {
		indexes[i] = []int64{int64(i), 7}
	}
	allocs := testing.AllocsPerRun(100, func() {
		if err := c.Locate(t.Context(), indexes, out); err != nil {
			t.Error(err)
		}
	})
	if allocs > 8 { // with the race detector, sync.Pool drops items at random
		t.Errorf("got %v allocations for 64 keys, want at most 8", allocs)
	}
}
