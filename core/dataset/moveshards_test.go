package dataset_test

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/vlen"
)

// Chunks move into and out of shards, and chunks of text move, without being encoded. Each is
// decoded once as a check. Absent chunks and shards stay absent, and each shard is put once.
func TestCopyMovesTextAndShards(t *testing.T) {
	t.Parallel()
	numbers := []int32{1, 2, 9, 9, 9, 9, 9, 9, 3, 4, 5, 6}
	texts := []string{"a", "longer", "", "", "", "", "", "", "", "c", "d", "e"}
	plain, sharded := []string{"0", "4", "5"}, []string{"0", "2"}
	for name, c := range map[string]struct {
		text     bool
		from, to []int64 // shape of the shards; nil means none
		dim      bool    // the dimension is unlimited
		want     []string
	}{
		"into shards":         {false, nil, []int64{4}, false, sharded},
		"out of shards":       {false, []int64{4}, nil, false, plain},
		"same shards":         {false, []int64{4}, []int64{4}, false, sharded},
		"larger shards":       {false, []int64{4}, []int64{8}, false, []string{"0", "1"}},
		"unlimited":           {false, nil, []int64{4}, true, sharded},
		"text":                {true, nil, nil, false, plain},
		"text into shards":    {true, nil, []int64{4}, false, sharded},
		"text out of shards":  {true, []int64{4}, nil, false, plain},
		"text in same shards": {true, []int64{4}, []int64{4}, true, sharded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			codec := newMarked()
			o := memory(codec, vlen.Provider())
			src := create(t, "mem:src#mode=v3", o)
			spec := &dataset.VarSpec{Type: dtype.NCInt, Fill: []int32{9}}
			var values any = numbers
			if c.text {
				spec, values = &dataset.VarSpec{Type: dtype.NCString, MaxStrLen: dataset.VarLen, Fill: []string{""}}, texts
			}
			spec.Dims, spec.Chunks, spec.Shards = []*dataset.Dim{dim(t, src.Root(), "x", 12, c.dim)}, []int64{2}, c.from
			spec.Codecs = []zarr.CodecSpec{{ID: "marked"}}
			v := define(t, src.Root(), "v", spec)
			write(t, v, slab(0, 2), dtype.Slice(values, 0, 2))
			write(t, v, slab(8, 4), dtype.Slice(values, 8, 12))
			closeDataset(t, src)
			codec.encoded.Store(0)
			codec.decoded.Store(0)

			dst := create(t, "mem:dst#mode=v3", o)
			opts := &dataset.CopyOptions{Shards: func(*dataset.Var, []int64) ([]int64, bool, error) { return c.to, true, nil }}
			if err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:src#mode=v3", o).Root(), opts); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, dst)
			if e, d := codec.encoded.Load(), codec.decoded.Load(); e != 0 || d != 3 {
				t.Errorf("want 0 encoded and 3 decoded, got %d and %d", e, d)
			}
			var objects []string
			for _, key := range keys(t, o, "dst", "v/") {
				if rest, ok := strings.CutPrefix(key, "c/"); ok {
					objects = append(objects, rest)
				}
			}
			if slices.Sort(objects); !slices.Equal(objects, c.want) {
				t.Errorf("want the objects %q, got %q", c.want, objects)
			}
			got := v.NewSlice(12)
			copied := variable(t, open(t, "mem:dst#mode=v3", o), "v")
			if err := copied.Read(t.Context(), copied.All(), got); err != nil || !reflect.DeepEqual(got, values) {
				t.Errorf("want %v, got %v, %v", values, got, err)
			}
		})
	}
}

// A chunk of text that a moving copy has no room for is copied as values, and a damaged one
// fails the copy.
func TestCopyOfLargeAndDamagedText(t *testing.T) {
	t.Parallel()
	codec := newMarked()
	o := memory(codec, vlen.Provider())
	src := create(t, "mem:src#mode=v3", o)
	long := strings.Repeat("x", 1<<16)
	v := define(t, src.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, MaxStrLen: dataset.VarLen, Dims: []*dataset.Dim{dim(t, src.Root(), "x", 4, false)}, Chunks: []int64{2}, Codecs: []zarr.CodecSpec{{ID: "marked"}}})
	write(t, v, v.All(), []string{"a", "b", long, "d"})
	closeDataset(t, src)
	codec.encoded.Store(0)
	dst := create(t, "mem:dst#mode=v3", o)
	if err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:src#mode=v3", o).Root(), &dataset.CopyOptions{Memory: 1 << 14}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, dst)
	if n := codec.encoded.Load(); n != 1 {
		t.Errorf("want one encoded chunk, got %d", n)
	}
	expect(t, open(t, "mem:dst#mode=v3", o), "v", []string{"a", "b", long, "d"})

	objects := chunksOf(t, o, "src")
	put(t, o, "src", "v/c/0", strings.TrimSuffix(objects["c/0"], ownMark)+"?")
	dst = create(t, "mem:dst2#mode=v3", o)
	err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:src#mode=v3", o).Root(), nil)
	if !errors.Is(err, ncerr.ErrCorrupt) || !strings.Contains(err.Error(), "v/c/0") {
		t.Errorf("want ErrCorrupt for v/c/0, got %v", err)
	}
}

// A chunk that exceeds the budget is an error with both numbers, and so is a shard. Nothing
// is read as fill, and nothing is replaced.
func TestMoreThanTheBudget(t *testing.T) {
	t.Parallel()
	o := memory(vlen.Provider())
	ds := create(t, "mem:b#mode=v3", o)
	x := dim(t, ds.Root(), "x", 1<<16, false)
	number := define(t, ds.Root(), "number", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1 << 16}})
	shard := define(t, ds.Root(), "shard", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1 << 8}, Shards: []int64{1 << 16}})
	text := define(t, ds.Root(), "text", &dataset.VarSpec{Type: dtype.NCString, MaxStrLen: dataset.VarLen, Dims: []*dataset.Dim{x}, Chunks: []int64{1 << 16}})
	write(t, number, number.All(), make([]int32, 1<<16))
	write(t, shard, shard.All(), make([]int32, 1<<16))
	texts := slices.Repeat([]string{"some text"}, 1<<16)
	write(t, text, text.All(), texts)
	closeDataset(t, ds)
	before := allOf(t, o, "b")

	o.Budget = budget.New(128 << 10)
	ds = update(t, "mem:b#mode=v3", o)
	both := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ncerr.ErrLimit) || !strings.Contains(err.Error(), "131072") {
			t.Errorf("%s: want an ErrLimit that names the budget of 131072 bytes, got %v", what, err)
		}
	}
	for _, name := range []string{"number", "text"} {
		v := variable(t, ds, name)
		both("read of "+name, v.Read(t.Context(), slab(5, 1), v.NewSlice(1)))
		one := v.NewSlice(1)
		both("write of "+name, v.Write(t.Context(), slab(5, 1), one))
		both("whole write of "+name, v.Write(t.Context(), v.All(), v.NewSlice(1<<16)))
	}
	v := variable(t, ds, "shard")
	if err := v.Read(t.Context(), slab(5, 1), make([]int32, 1)); err != nil { // only a chunk of it is read
		t.Errorf("read of a chunk in a shard: %v", err)
	}
	if err := v.Write(t.Context(), slab(5, 1), []int32{7}); !errors.Is(err, ncerr.ErrLimit) {
		t.Errorf("write of a shard: want ErrLimit, got %v", err)
	}
	closeDataset(t, ds)
	if got := allOf(t, o, "b"); !maps.Equal(got, before) {
		t.Error("a failed write has changed the store")
	}
}

// allOf returns all objects of a store.
func allOf(t *testing.T, o *dataset.Options, name string) map[string]string {
	t.Helper()
	all := map[string]string{}
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Read})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys(t, o, name, "") {
		body, _, err := m.Get(t.Context(), key, &driver.GetOptions{}, driver.Heap)
		if err != nil {
			t.Fatal(err)
		}
		all[key] = string(body)
	}
	return all
}
