package dataset_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// Chunks under keys with a dimension_separator other than that of .zarray cause an error
// in reads and partial writes. Absent chunks read as the fill value.
func TestWrongSeparator(t *testing.T) {
	t.Parallel()
	doc := func(more string) string { return `{"shape": [2, 2], "chunks": [1, 2], ` + i4 + more + `}` }
	for name, c := range map[string]struct {
		doc  string
		keys string
		want string // text of the error; "" if the read succeeds
	}{
		"left out, and nested":       {doc(""), "0/0 1/0", `it should be '/'`},
		"stated, and flat":           {doc(`, "dimension_separator": "/"`), "0.0 1.0", `it should be '.'`},
		"right and flat":             {doc(""), "1.0", ""},
		"right and nested":           {doc(`, "dimension_separator": "/"`), "1/0", ""},
		"right, with others beneath": {doc(""), "1.0 1/0", ""},
		"right, with others before":  {doc(""), "1.0 0/0", ""},
		"none":                       {doc(""), "", ""},
		"left out, a later chunk":    {doc(""), "1/0", `it should be '/'`},
		"stated, a later chunk":      {doc(`, "dimension_separator": "/"`), "1.0", `it should be '.'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := unbuffered(memory())
			objects := map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": c.doc}
			for _, key := range strings.Fields(c.keys) {
				objects["v/"+key] = "\x01\x00\x00\x00\x02\x00\x00\x00"
			}
			store(t, o, "s", objects)
			v := variable(t, update(t, "mem:s#mode=zarr", o), "v")
			for range 2 {
				got, err := dataset.Get[int32](t.Context(), v, v.All())
				wantError(t, "read", err, c.want)
				if want := (c.keys != ""); err == nil && (got[0] != 7 || (got[2] == 1) != want) {
					t.Errorf("unexpected values %v", got)
				}
			}
			part := chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 1}}
			wantError(t, "write", v.Write(t.Context(), part, []int32{5}), c.want)
		})
	}
}

// A read that finds no chunks detects chunks of the array under keys with the other
// separator. It ignores other objects.
func TestSeparatorOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ keys, sep, want string }{
		"the other":           {"1/0 1/1", ".", `it should be '/'`},
		"the other, flat":     {"1.0 1.1", "/", `it should be '.'`},
		"its own":             {"1.0", ".", ""},
		"its own, and others": {"1.0 1/1", ".", ""},
		"none":                {"README notes/1/0 1/0/0 01/0 1/2 2/0 -1/0 0", ".", ""},
	} {
		for _, lists := range []bool{true, false} {
			t.Run(fmt.Sprint(name, lists), func(t *testing.T) {
				t.Parallel()
				o := inMemory()
				if !lists {
					var on atomic.Bool
					on.Store(true)
					o.Registry = registry.New([]driver.Opener{noList{memmap.NewOpener(), &on}})
				}
				objects := map[string]string{
					".zgroup":    `{"zarr_format": 2}`,
					".zmetadata": `{"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}, "v/.zarray": ` + sparse(c.sep) + `}}`,
					"v/.zarray":  sparse(c.sep),
				}
				for _, key := range strings.Fields(c.keys) {
					objects["v/"+key] = strings.Repeat("\x01\x00\x00\x00", 4)
				}
				store(t, o, "s", objects)
				o.UseConsolidated = dataset.ConsolidatedTrust
				v := variable(t, open(t, "mem:s#mode=zarr", o), "v")
				top, err := dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{0, 0}, Count: []int64{2, 4}})
				if lists {
					wantError(t, "read of absent chunks", err, c.want)
				}
				if err == nil && top[0] != 7 {
					t.Errorf("want 7 as the first value, got %v", top)
				}
				if lists {
					_, err = v.Stored(t.Context())
					wantError(t, "count", err, c.want)
				}
				_, err = dataset.Get[int32](t.Context(), v, chunk.Selection{Start: []int64{2, 0}, Count: []int64{2, 4}})
				wantError(t, "read of the other chunks", err, c.want)
			})
		}
	}
}

// sparse returns the document of an array of 2 by 2 chunks.
func sparse(sep string) string {
	return `{"shape": [4, 4], "chunks": [2, 2], ` + i4 + `, "dimension_separator": "` + sep + `"}`
}

// In a store that cannot be listed, the reads of an array look up at most 32 keys with
// the other separator in total.
func TestSeparatorTries(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	var stats atomic.Int64
	o := inMemory()
	o.Registry = registry.New([]driver.Opener{noList{countStat{memmap.NewOpener(), &stats}, &on}})
	store(t, o, "s", map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"shape": [10, 10], "chunks": [1, 1], ` + i4 + `}`})
	v := variable(t, open(t, "mem:s#mode=zarr", o), "v")
	on.Store(true)
	row := chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 10}}
	for i, want := range []int64{10, 20, 30, 32, 32} {
		if _, err := dataset.Get[int32](t.Context(), v, row); err != nil || stats.Load() != want {
			t.Errorf("read %d: want %d stats, got %d, %v", i, want, stats.Load(), err)
		}
	}
}

// noList is a driver whose stores refuse listings while on is set.
type noList struct {
	driver.Opener
	on *atomic.Bool
}

func (o noList) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.Opener.Open(ctx, spec)
	return noListMap{m, o.on}, err
}

type noListMap struct {
	driver.Map
	on *atomic.Bool
}

func (m noListMap) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	if m.on.Load() {
		return func(yield func(driver.Entry, error) bool) {
			yield(driver.Entry{}, ncerr.New(ncerr.ErrPermission, "list", prefix, nil))
		}
	}
	return m.Map.List(ctx, prefix, opts)
}

// countStat is a driver whose stores count the Stat calls for chunks of v.
type countStat struct {
	driver.Opener
	n *atomic.Int64
}

func (o countStat) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.Opener.Open(ctx, spec)
	return countStatMap{m, o.n}, err
}

type countStatMap struct {
	driver.Map
	n *atomic.Int64
}

func (m countStatMap) Stat(ctx context.Context, key string) (driver.Info, error) {
	if strings.HasPrefix(key, "v/") && key != "v/.zarray" {
		m.n.Add(1)
	}
	return m.Map.Stat(ctx, key)
}

// noStat is a driver whose stores refuse Stat and List while on is set.
type noStat struct {
	driver.Opener
	on *atomic.Bool
}

func (o noStat) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.Opener.Open(ctx, spec)
	return noStatMap{m, o.on}, err
}

type noStatMap struct {
	driver.Map
	on *atomic.Bool
}

func (m noStatMap) Stat(ctx context.Context, key string) (driver.Info, error) {
	if m.on.Load() {
		return driver.Info{}, ncerr.New(ncerr.ErrPermission, "stat", key, nil)
	}
	return m.Map.Stat(ctx, key)
}

// List refuses listings as noListMap.List does.
func (m noStatMap) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return noListMap(m).List(ctx, prefix, opts)
}

// If a store does not report whether a key with the other separator exists, the read
// fails and the next read looks again, because the chunks are not known to be absent.
func TestSeparatorNotKnown(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	o := inMemory()
	o.Registry = registry.New([]driver.Opener{noStat{memmap.NewOpener(), &on}})
	store(t, o, "s", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"shape": [2, 2], "chunks": [1, 2], ` + i4 + `}`,
		"v/0/0": "\x01\x00\x00\x00\x02\x00\x00\x00",
	})
	v := variable(t, open(t, "mem:s#mode=zarr", o), "v")
	on.Store(true)
	if got, err := dataset.Get[int32](t.Context(), v, v.All()); ncerr.KindOf(err) != ncerr.ErrPermission {
		t.Errorf("want the store's error, got %v, %v", got, err)
	}
	on.Store(false)
	_, err := dataset.Get[int32](t.Context(), v, v.All())
	wantError(t, "read", err, `it should be '/'`)
}

// wantError checks that err is nil if want is "", and otherwise that it is a metadata
// error that contains want.
func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (ncerr.KindOf(err) != ncerr.ErrMetadata || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: want an error with %q, got %v", what, want, err)
	}
}
