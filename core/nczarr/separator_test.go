package nczarr_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// Chunks under the keys of another dimension_separator than that of .zarray are
// an error, in reads and in changes of parts; absent ones are fill.
func TestWrongSeparator(t *testing.T) {
	t.Parallel()
	doc := func(more string) string { return `{"shape": [2, 2], "chunks": [1, 2], ` + i4 + more + `}` }
	for name, c := range map[string]struct {
		doc  string
		keys string
		want string // of the error; "" when the chunk at 1 and its fill are read
	}{
		"left out, and nested":       {doc(""), "0/0 1/0", `it should be '/'`},
		"stated, and flat":           {doc(`, "dimension_separator": "/"`), "0.0 1.0", `it should be '.'`},
		"right and flat":             {doc(""), "1.0", ""},
		"right and nested":           {doc(`, "dimension_separator": "/"`), "1/0", ""},
		"right, with others beneath": {doc(""), "1.0 1/0", ""},
		"right, with others before":  {doc(""), "1.0 0/0", ""},
		"none":                       {doc(""), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory()
			objects := map[string]string{".zgroup": `{"zarr_format": 2}`, "v/.zarray": c.doc}
			for _, key := range strings.Fields(c.keys) {
				objects["v/"+key] = "\x01\x00\x00\x00\x02\x00\x00\x00"
			}
			store(t, o, "s", objects)
			v := variable(t, update(t, "mem:s#mode=zarr", o), "v")
			for range 2 {
				got, err := nczarr.Get[int32](t.Context(), v, v.All())
				told(t, "read", err, c.want)
				if want := (c.keys != ""); err == nil && (got[0] != 7 || (got[2] == 1) != want) {
					t.Errorf("got %v", got)
				}
			}
			part := chunk.Selection{Start: []int64{0, 0}, Count: []int64{1, 1}}
			told(t, "write", v.Write(t.Context(), part, []int32{5}), c.want)
		})
	}
}

// noStat is a store that does not say whether an object is there while on is set.
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

// A store that does not say whether the other key is there fails the read, and
// is asked again by the next: that chunks are absent is not known.
func TestSeparatorNotKnown(t *testing.T) {
	t.Parallel()
	var on atomic.Bool
	o := inMemory()
	o.Registry = nczarr.NewRegistry([]driver.Opener{noStat{memmap.NewOpener(), &on}})
	store(t, o, "s", map[string]string{
		".zgroup": `{"zarr_format": 2}`, "v/.zarray": `{"shape": [2, 2], "chunks": [1, 2], ` + i4 + `}`,
		"v/0/0": "\x01\x00\x00\x00\x02\x00\x00\x00",
	})
	v := variable(t, open(t, "mem:s#mode=zarr", o), "v")
	on.Store(true)
	if got, err := nczarr.Get[int32](t.Context(), v, v.All()); ncerr.KindOf(err) != ncerr.ErrPermission {
		t.Errorf("want the store's error, got %v, %v", got, err)
	}
	on.Store(false)
	_, err := nczarr.Get[int32](t.Context(), v, v.All())
	told(t, "read", err, `it should be '/'`)
}

// told checks that err is nil where want is "", else that it is one of
// metadata that says want.
func told(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (ncerr.KindOf(err) != ncerr.ErrMetadata || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: want an error with %q, got %v", what, want, err)
	}
}
