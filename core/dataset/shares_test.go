package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/vlen"
	"github.com/seed-695719ce/nczarr/filters/zlib"
)

// tally counts the bytes in use: their current and maximum number, and how often some
// were added.
type tally struct{ now, most, times atomic.Int64 }

func (c *tally) add(n int) {
	c.times.Add(1)
	now := c.now.Add(int64(n))
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
}

func (c *tally) reset() { c.most.Store(0); c.times.Store(0) }

// tallied is a filter whose codecs record the total size of the encode inputs and
// decode buffers in use. Each call sleeps for two seconds, so that all other goroutines
// run until they block.
type tallied struct {
	codecdriver.Provider
	held *tally
}

func (p tallied) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	c, out, err := p.Provider.Open(id, params, in)
	return talliedCodec{c, p.held}, out, err
}

type talliedCodec struct {
	codecdriver.Codec
	held *tally
}

func (c talliedCodec) hold(n int) {
	c.held.add(n)
	time.Sleep(2 * time.Second)
	c.held.now.Add(-int64(n))
}

func (c talliedCodec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	c.hold(len(src))
	return c.Codec.Encode(ctx, dst, src)
}

func (c talliedCodec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	c.hold(len(dst))
	return c.Codec.Decode(ctx, dst, src)
}

// talliedMap counts the bytes read from chunks. Each read counts for one second, which is
// long enough for the first chunk of the batch to be in a decoder.
type talliedMap struct {
	driver.Map
	read *tally
}

func (m talliedMap) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if strings.Contains(key, ".z") {
		return m.Map.Get(ctx, key, o, alloc)
	}
	return m.Map.Get(ctx, key, o, func(n int64) ([]byte, error) {
		b, err := alloc(n)
		if err == nil {
			m.read.add(int(n))
			time.AfterFunc(time.Second, func() { m.read.now.Add(-n) })
		}
		return b, err
	})
}

// Each chunk has a long and a short string. Only a few chunks fit within the limit at
// the same time.
const (
	sharedCeiling = 2 << 20
	sharedWorkers = 4
	sharedChunks  = 16
)

func sharedTexts() []string {
	texts := make([]string, 2*sharedChunks)
	for i := range sharedChunks {
		size := []int{sharedCeiling / 50, sharedCeiling / 5, sharedCeiling / 5, (i + 1) * sharedCeiling / 18}[i%4]
		texts[2*i], texts[2*i+1] = strings.Repeat(string(rune('a'+i)), size), fmt.Sprint(i)
	}
	return texts
}

// shorts returns a selection of the short string of each chunk.
func shorts() chunk.Selection {
	return chunk.Selection{Start: []int64{1}, Count: []int64{sharedChunks}, Stride: []int64{2}}
}

func sharedVar(t *testing.T, url string, o *dataset.Options, codecs []zarr.CodecSpec) (*dataset.Dataset, *dataset.Var) {
	t.Helper()
	ds := create(t, url, o)
	x := dim(t, ds.Root(), "x", 2*sharedChunks, false)
	return ds, define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCString, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Codecs: codecs})
}

// TestShares checks that workers that write, read or change chunks of strings, alone or
// in batches, together use no more memory than the limit for one chunk, for any number
// of workers and any decoded size, and that all chunks are processed.
func TestShares(t *testing.T) {
	t.Parallel()
	for name, codecs := range map[string][]zarr.CodecSpec{"stored": nil, "packed": {{ID: "zlib"}}} {
		synctest.Test(t, func(t *testing.T) {
			var values, packed, read tally
			o := inMemory(tallied{vlen.Provider(), &values}, tallied{zlib.Provider(), &packed})
			o.Workers, o.Limits.MaxChunk = sharedWorkers, sharedCeiling
			o.Wrap = func(m driver.Map) driver.Map { return talliedMap{m, &read} }
			within := func(what string) {
				t.Helper()
				if n := values.most.Load(); n == 0 || n > sharedCeiling {
					t.Errorf("%s, %s: %d bytes of values at a time, want at most %d", name, what, n, sharedCeiling)
				}
				if n, most := packed.most.Load(), int64(sharedCeiling+sharedCeiling/8+sharedWorkers<<16); n > most {
					t.Errorf("%s, %s: %d bytes between the codecs at a time, want at most %d", name, what, n, most)
				}
				if n := read.most.Load(); n > sharedCeiling {
					t.Errorf("%s, %s: %d stored bytes at a time, want at most %d", name, what, n, sharedCeiling)
				}
				values.reset()
				packed.reset()
				read.reset()
			}
			texts := sharedTexts()
			ds, v := sharedVar(t, "mem:shares#mode=zarr", o, codecs)
			write(t, v, v.All(), texts)
			within("write")
			closeDataset(t, ds)
			o.Update = true
			v = variable(t, open(t, "mem:shares#mode=zarr", o), "v")
			read.reset()
			got, err := dataset.Get[string](t.Context(), v, shorts())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := range got {
				if got[i] != texts[2*i+1] {
					t.Errorf("%s: text %d has the unexpected value %.10q", name, i, got[i])
				}
				got[i] += "changed"
			}
			if n := read.times.Load(); codecs == nil && n != sharedChunks {
				t.Errorf("%d chunks were read, want %d", n, sharedChunks)
			}
			within("read")
			write(t, v, shorts(), got)
			within("change")
			for i := range int64(sharedChunks) {
				pair, err := dataset.Get[string](t.Context(), v, slab(2*i, 2))
				if err != nil || pair[0] != texts[2*i] || pair[1] != got[i] {
					t.Errorf("%s: chunk %d: the write changed other strings, %v", name, i, err)
				}
			}
		})
	}
}

// TestSharesKeepErrors checks that a chunk that cannot be read or changed causes the same
// error alone and together with other chunks, and that a read can be canceled between
// small and large chunks.
func TestSharesKeepErrors(t *testing.T) {
	t.Parallel()
	o := inMemory(vlen.Provider(), zlib.Provider())
	o.Workers, o.Limits.MaxChunk = sharedWorkers, sharedCeiling
	for name, c := range map[string]struct {
		spoil func(ds *dataset.Dataset) error
		limit int64
		want  string
	}{
		"damaged": {func(ds *dataset.Dataset) error {
			_, err := ds.Map().Put(t.Context(), "v/5", driver.Bytes("not zlib"), nil)
			return err
		}, sharedCeiling, "v/5"},
		"long": {func(*dataset.Dataset) error { return nil }, sharedCeiling * 31 / 36, fmt.Sprint(sharedCeiling * 31 / 36)}, // only the last chunk exceeds this limit
	} {
		ds, v := sharedVar(t, "mem:"+name+"#mode=zarr", o, []zarr.CodecSpec{{ID: "zlib"}})
		write(t, v, v.All(), sharedTexts())
		if err := c.spoil(ds); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		less := *o
		less.Update, less.Limits.MaxChunk = true, c.limit
		v = variable(t, open(t, "mem:"+name+"#mode=zarr", &less), "v")
		at := int64(2*5 + 1)
		if name == "long" {
			at = 2*sharedChunks - 1
		}
		_, alone := dataset.Get[string](t.Context(), v, slab(at, 1))
		if !errors.Is(alone, ncerr.ErrCorrupt) || !strings.Contains(alone.Error(), c.want) {
			t.Errorf("%s: want ErrCorrupt and %s, got %v", name, c.want, alone)
		}
		if _, err := dataset.Get[string](t.Context(), v, shorts()); fmt.Sprint(err) != fmt.Sprint(alone) {
			t.Errorf("%s: want %v, got %v", name, alone, err)
		}
		alone = v.Write(t.Context(), slab(at, 1), []string{"new"})
		if err := v.Write(t.Context(), shorts(), make([]string, sharedChunks)); err == nil || fmt.Sprint(err) != fmt.Sprint(alone) {
			t.Errorf("%s, changed: want %v, got %v", name, alone, err)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Wrap = func(m driver.Map) driver.Map { return &cancelling{Map: m, cancel: cancel} }
	v := variable(t, open(t, "mem:long#mode=zarr", o), "v")
	if _, err := dataset.Get[string](ctx, v, shorts()); !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
}

// cancelling is a store that cancels a context at the first read after each chunk has
// been read once.
type cancelling struct {
	driver.Map
	cancel context.CancelFunc
	asked  atomic.Int64
}

func (m *cancelling) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if !strings.Contains(key, ".z") && m.asked.Add(1) > sharedChunks {
		m.cancel()
	}
	return m.Map.Get(ctx, key, o, alloc)
}
