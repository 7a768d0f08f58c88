package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// marked is a codec that appends a byte. Decode accepts two values of the byte, and
// Encode writes only one of them. A chunk of a copy that has the other value was
// therefore copied as stored.
type marked struct{ encoded, decoded *atomic.Int64 }

// ownMark is the byte that Encode appends. foreignMark is the other byte that Decode
// accepts.
const ownMark, foreignMark = "O", "F"

func newMarked() marked { return marked{new(atomic.Int64), new(atomic.Int64)} }

func (marked) Describe() []codecdriver.Description {
	return []codecdriver.Description{{ID: "marked", V3: "marked", Aliases: []string{"also_marked"}, Encode: true, Decode: true, Params: []codecdriver.Param{
		{Name: "n", Type: codecdriver.IntParam, Default: "1"}, {Name: "kind", Type: codecdriver.TextParam, Default: "a"}, {Name: "size", Type: codecdriver.IntParam, Default: "0", Input: codecdriver.InputSize},
	}}}
}

func (c marked) Open(_ string, _ json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return c, codecdriver.Spec{Kind: codecdriver.Blob, DType: in.DType, MaxBytes: in.MaxBytes + 1}, nil
}

func (c marked) Encode(_ context.Context, dst, src []byte) (int, error) {
	c.encoded.Add(1)
	return copy(dst[copy(dst, src):], ownMark) + len(src), nil
}

func (c marked) Decode(_ context.Context, dst, src []byte) (int, error) {
	c.decoded.Add(1)
	if s := string(src); !strings.HasSuffix(s, ownMark) && !strings.HasSuffix(s, foreignMark) {
		return 0, ncerr.New(ncerr.ErrCorrupt, "", "", errors.New("bad last byte"))
	}
	return copy(dst, src[:len(src)-1]), nil
}

// markedArray returns the objects of an array v of five two-byte elements in chunks of
// two, of which the second does not exist.
func markedArray(dtype, codecs string) map[string]string {
	doc := document(dtype, "9", "C", codecs)
	return map[string]string{
		".zgroup": `{"zarr_format": 2}`, "v/.zarray": strings.Replace(doc, `"shape": [2]`, `"shape": [5]`, 1),
		"v/0": "\x01\x00\x02\x00" + foreignMark, "v/2": "\x05\x00\x06\x00" + foreignMark,
	}
}

const markedChain = `[{"id": "marked"}]`

// chunksOf returns the chunks of v in a store in memory.
func chunksOf(t *testing.T, o *dataset.Options, name string) map[string]string {
	t.Helper()
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: name, Mode: driver.Read})
	if err != nil {
		t.Fatal(err)
	}
	chunks := map[string]string{}
	for _, key := range keys(t, o, name, "v/") {
		body, _, err := m.Get(t.Context(), "v/"+key, &driver.GetOptions{}, driver.Heap)
		if err != nil {
			t.Fatal(err)
		}
		chunks[key] = string(body)
	}
	return chunks
}

// A copy moves the stored bytes of chunks, decodes each once to check it, and leaves
// absent chunks absent. Chunks whose encoding changes are encoded.
func TestCopyMovesChunks(t *testing.T) {
	t.Parallel()
	moved := map[string]string{"0": "\x01\x00\x02\x00" + foreignMark, "2": "\x05\x00\x06\x00" + foreignMark}
	encoded := map[string]string{"0": "\x01\x00\x02\x00" + ownMark, "2": "\x05\x00\x09\x00" + ownMark}
	for name, c := range map[string]struct {
		dtype, codecs, mode string
		opts                dataset.CopyOptions
		want                map[string]string
		encoded, decoded    int64
	}{
		"moved":                {"<i2", markedChain, "zarr", dataset.CopyOptions{}, moved, 0, 2},
		"moved to NCZarr":      {"<i2", markedChain, "nczarr", dataset.CopyOptions{}, moved, 0, 2},
		"default parameters":   {"<i2", `[{"id": "marked", "n": 1, "kind": "a"}]`, "zarr", dataset.CopyOptions{}, moved, 0, 2},
		"moved without checks": {"<i2", markedChain, "zarr", dataset.CopyOptions{NoVerify: true}, moved, 0, 0},
		"little memory":        {"<i2", markedChain, "zarr", dataset.CopyOptions{Memory: 1}, moved, 0, 2},
		"encoded anew": {"<i2", markedChain, "zarr", dataset.CopyOptions{Codecs: func(v *dataset.Var) ([]zarr.CodecSpec, bool, error) {
			return v.Codecs(), true, nil
		}}, encoded, 2, 2},
		"other codecs": {"<i2", markedChain, "zarr", dataset.CopyOptions{Codecs: func(*dataset.Var) ([]zarr.CodecSpec, bool, error) {
			return nil, true, nil
		}}, map[string]string{"0": "\x01\x00\x02\x00", "2": "\x05\x00\x09\x00"}, 0, 2},
		"other chunks": {"<i2", markedChain, "zarr", dataset.CopyOptions{Chunks: func(*dataset.Var) ([]int64, error) {
			return []int64{4}, nil
		}}, map[string]string{"0": "\x01\x00\x02\x00\x09\x00\x09\x00" + ownMark, "1": "\x05\x00\x09\x00\x09\x00\x09\x00" + ownMark}, 2, 2},
		"converted elements": {"<f2", markedChain, "zarr", dataset.CopyOptions{}, map[string]string{
			"0": "\x01\x00\x02\x00" + ownMark, "1": "\x00\x00\x00\x00" + ownMark, "2": "\x05\x00\x00\x00" + ownMark,
		}, 3, 2},
		"misread by netcdf-c": {">i2", markedChain, "nczarr", dataset.CopyOptions{}, map[string]string{
			"0": "\x01\x00\x02\x00" + ownMark, "1": "\x00\x09\x00\x09" + ownMark, "2": "\x05\x00\x00\x09" + ownMark,
		}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			codec := newMarked()
			o := memory(codec)
			objects := markedArray(c.dtype, c.codecs)
			if c.dtype == "<f2" {
				objects["v/.zarray"] = strings.Replace(objects["v/.zarray"], `"fill_value": 9`, `"fill_value": 0`, 1)
			}
			store(t, o, "src", objects)
			src := open(t, "mem:src#mode=zarr", o)
			dst := create(t, "mem:dst#mode="+c.mode, o)
			var done, total int64
			c.opts.Progress = func(d, n int64) { done, total = d, n }
			if err := dataset.Copy(t.Context(), dst.Root(), src.Root(), &c.opts); err != nil {
				t.Fatal(err)
			}
			closeDataset(t, dst)
			if got := chunksOf(t, o, "dst"); !maps.Equal(got, c.want) {
				t.Errorf("want %q, got %q", c.want, got)
			}
			if e, d := codec.encoded.Load(), codec.decoded.Load(); e != c.encoded || d != c.decoded {
				t.Errorf("want %d encoded and %d decoded, got %d and %d", c.encoded, c.decoded, e, d)
			}
			if done != 10 || total != 10 {
				t.Errorf("want progress 10 of 10, got %d of %d", done, total)
			}
		})
	}
}

// Chunks that extend beyond an unlimited dimension are encoded, because their content
// beyond it would appear when the dimension grows.
func TestCopyDropsChunksBeyondShape(t *testing.T) {
	t.Parallel()
	codec := newMarked()
	o := memory(codec)
	src := create(t, "mem:src", o)
	a, b, c := dim(t, src.Root(), "a", 3, true), dim(t, src.Root(), "b", 3, false), dim(t, src.Root(), "c", 3, true)
	v := define(t, src.Root(), "v", &dataset.VarSpec{Type: dtype.NCByte, Dims: []*dataset.Dim{a, b, c}, Chunks: []int64{2, 2, 2}, Codecs: []zarr.CodecSpec{{ID: "marked"}}})
	values := make([]int8, 27)
	for i := range values {
		values[i] = int8(i)
	}
	write(t, v, v.All(), values)
	for key, chunk := range chunksOf(t, o, "src") {
		chunk = strings.ReplaceAll(chunk[:8], "\x81", "X") + foreignMark // \x81 is the fill value
		if _, err := src.Map().Put(t.Context(), "v/"+key, driver.Bytes(chunk), nil); err != nil {
			t.Fatal(err)
		}
	}
	closeDataset(t, src)
	copyOf(t, open(t, "mem:src", o), "mem:dst", o, nil)
	for key, chunk := range chunksOf(t, o, "dst") {
		inner := !strings.HasPrefix(key, "1.") && !strings.HasSuffix(key, ".1")
		if got := strings.HasSuffix(chunk, foreignMark); got != inner {
			t.Errorf("chunk %s: copied as stored is %v", key, got)
		}
		if !inner && strings.Contains(chunk, "X") {
			t.Errorf("chunk %s contains data beyond the shape: %q", key, chunk)
		}
	}
	expect(t, open(t, "mem:dst", o), "v", values)
}

// A damaged chunk fails the copy, unless checks are disabled. The size of a chunk
// without codecs is always checked.
func TestCopyOfDamagedChunks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		codecs, chunk string
		noVerify      bool
		want          string
	}{
		"damaged":                  {markedChain, "\x01\x00\x02\x00?", false, "bad last byte"},
		"too short":                {markedChain, "\x01\x00\x02" + foreignMark, false, "3 bytes"},
		"too long":                 {markedChain, strings.Repeat("x", 5000) + foreignMark, false, "exceeds the maximum"},
		"without check":            {markedChain, "\x01\x00\x02\x00?", true, ""},
		"too long, no check":       {markedChain, strings.Repeat("x", 5000) + foreignMark, true, "exceeds the maximum"},
		"no codecs":                {"null", "\x01\x00\x02\x00?", false, "bytes"},
		"no codecs, without check": {"null", "\x01\x00\x02\x00?", true, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := memory(newMarked())
			objects := markedArray("<i2", c.codecs)
			delete(objects, "v/2")
			objects["v/0"] = c.chunk
			store(t, o, "src", objects)
			dst := create(t, "mem:dst#mode=zarr", o)
			err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:src#mode=zarr", o).Root(), &dataset.CopyOptions{NoVerify: c.noVerify})
			if c.want == "" {
				closeDataset(t, dst)
				if got := chunksOf(t, o, "dst"); err != nil || got["0"] != c.chunk {
					t.Errorf("chunks of the copy: %q, %v", got, err)
				}
				return
			}
			if ncerr.KindOf(err) != ncerr.ErrCorrupt || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "v/0") {
				t.Errorf("want an error about v/0 with %q, got %v", c.want, err)
			}
			if got := keys(t, o, "dst", "v/"); got != nil {
				t.Errorf("want no chunks in the copy, got %v", got)
			}
		})
	}
}

// A copy keeps the stored bytes of chunks in every kind of Location, but encodes chunks that
// have a filter mask again.
func TestCopyOfLocations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at   manifest.Entry
		want string
		kind ncerr.Kind
	}{
		"inline":      {manifest.Entry{Inline: []byte("\x01\x00\x02\x00" + foreignMark)}, "\x01\x00\x02\x00" + foreignMark, 0},
		"filter mask": {manifest.Entry{Inline: []byte("\x01\x00\x02\x00"), FilterMask: 1}, "\x01\x00\x02\x00" + ownMark, 0},
		"absent":      {manifest.Entry{}, "", 0},
		"not there":   {manifest.Entry{Ref: "none", Length: -1}, "", 0},
		"a part":      {manifest.Entry{Ref: "many", Offset: 2, Length: 5}, "\x01\x00\x02\x00" + foreignMark, 0},
		"required":    {manifest.Entry{Ref: "none", Length: -1, Required: true}, "", ncerr.ErrNoObject},
		"beyond":      {manifest.Entry{Ref: "many", Offset: 20, Length: 5}, "", ncerr.ErrCorrupt},
		"long part":   {manifest.Entry{Ref: "long", Length: 5000}, "", ncerr.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inMemory(newMarked())
			objects := markedArray("<i2", markedChain)
			objects["many"], objects["long"] = ".."+objects["v/0"]+"..", strings.Repeat("x", 5000)
			store(t, o, "src", objects)
			src := open(t, "mem:src#mode=zarr", o)
			variable(t, src, "v").SetSource(table(src.Map(), c.at, manifest.Entry{}, manifest.Entry{}))
			dst := create(t, "mem:dst#mode=zarr", o)
			err := dataset.Copy(t.Context(), dst.Root(), src.Root(), nil)
			if ncerr.KindOf(err) != c.kind {
				t.Fatalf("want %v, got %v", c.kind, err)
			}
			want := map[string]string{}
			if c.want != "" {
				want["0"] = c.want
			}
			if got := chunksOf(t, o, "dst"); !maps.Equal(got, want) {
				t.Errorf("want %q, got %q", want, got)
			}
		})
	}
}

// observed is a driver whose stores call a function before each Get and Put.
type observed struct {
	driver.Opener
	call func(ctx context.Context, op, path, key string)
}

type observedMap struct {
	driver.Map
	w    observed
	path string
}

func (w observed) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := w.Opener.Open(ctx, spec)
	return &observedMap{m, w, spec.Path}, err
}

func (m *observedMap) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	m.w.call(ctx, "get", m.path, key)
	return m.Map.Get(ctx, key, opts, alloc)
}

func (m *observedMap) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	m.w.call(ctx, "put", m.path, key)
	return m.Map.Put(ctx, key, body, opts)
}

func observe(call func(ctx context.Context, op, path, key string)) *dataset.Options {
	opener := observed{memmap.NewOpener(), call}
	return &dataset.Options{Registry: registry.New([]driver.Opener{opener}, newMarked()), SingleWriter: true, Workers: 2}
}

// makeMarked creates a dataset with n chunks of 16 bytes and the codec marked.
func makeMarked(t *testing.T, url string, o *dataset.Options, n int64) {
	t.Helper()
	ds := create(t, url, o)
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{dim(t, ds.Root(), "x", 4*n, false)}, Chunks: []int64{4}, Codecs: []zarr.CodecSpec{{ID: "marked"}}})
	values := make([]int32, 4*n)
	for i := range values {
		values[i] = int32(i)
	}
	write(t, v, v.All(), values)
	closeDataset(t, ds)
}

// encodeAll, as CopyOptions.Codecs, makes a copy encode all chunks.
func encodeAll(v *dataset.Var) ([]zarr.CodecSpec, bool, error) { return v.Codecs(), true, nil }

// A copy requests each chunk once and stores it once.
func TestRequestsOfACopy(t *testing.T) {
	t.Parallel()
	for name, codecs := range map[string]func(*dataset.Var) ([]zarr.CodecSpec, bool, error){"moved": nil, "encoded": encodeAll} {
		var mu sync.Mutex
		calls := map[string]int{}
		o := observe(func(_ context.Context, op, path, key string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.HasPrefix(key, "v/") && !strings.Contains(key, ".z") {
				calls[op+" "+path]++
			}
		})
		makeMarked(t, "mem:src", o, 200)
		clear(calls)
		dst := create(t, "mem:dst", o)
		if err := dataset.Copy(t.Context(), dst.Root(), open(t, "mem:src", o).Root(), &dataset.CopyOptions{Codecs: codecs}); err != nil {
			t.Fatal(err)
		}
		if want := map[string]int{"get src": 200, "put dst": 200}; !maps.Equal(calls, want) {
			t.Errorf("%s: want %v, got %v", name, want, calls)
		}
	}
}

// A copy reads the next chunks while it stores others: the copy ends although the first
// put to the destination waits for a later get from the source.
func TestCopyReadsWhileItWrites(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*dataset.CopyOptions{"moved": {Memory: 1 << 20}, "encoded": {Memory: 4096, Codecs: encodeAll}} {
		var armed, stored atomic.Bool
		later := make(chan struct{})
		closeLater := sync.OnceFunc(func() { close(later) })
		o := observe(func(ctx context.Context, op, path, key string) {
			if !armed.Load() || !strings.HasPrefix(key, "v/") || strings.Contains(key, ".z") {
				return
			}
			switch op + " " + path {
			case "put dst":
				if stored.CompareAndSwap(false, true) {
					select {
					case <-later:
					case <-ctx.Done():
					}
				}
			case "get src":
				if stored.Load() {
					closeLater()
				}
			}
		})
		makeMarked(t, "mem:src", o, 640)
		dst := create(t, "mem:dst", o)
		src := open(t, "mem:src", o)
		armed.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // reached only by a copy that fails the test
		defer cancel()
		if err := dataset.Copy(ctx, dst.Root(), src.Root(), opts); err != nil {
			t.Errorf("%s: copy: %v", name, err)
		}
	}
}

// A canceled copy ends with the error of the context.
func TestCanceledCopy(t *testing.T) {
	t.Parallel()
	for name, codecs := range map[string]func(*dataset.Var) ([]zarr.CodecSpec, bool, error){"moved": nil, "encoded": encodeAll} {
		o := memory(newMarked())
		makeMarked(t, "mem:src", o, 640)
		dst := create(t, "mem:dst", o)
		ctx, cancel := context.WithCancel(t.Context())
		opts := &dataset.CopyOptions{Codecs: codecs, Memory: 1024, Progress: func(int64, int64) { cancel() }}
		err := dataset.Copy(ctx, dst.Root(), open(t, "mem:src", o).Root(), opts)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: want Canceled, got %v", name, err)
		}
		if n := len(keys(t, o, "dst", "v/")); n == 0 || n == 640 {
			t.Errorf("%s: want a part of the 640 chunks, got %d", name, n)
		}
	}
}

// The chunks of an array whose stored shape is shorter than its dimension are not moved,
// because the last chunk may contain any data beyond that shape.
func TestCopyOfAShortArray(t *testing.T) {
	t.Parallel()
	o := memory(newMarked())
	ds := create(t, "mem:src", o)
	x := dim(t, ds.Root(), "x", 0, true)
	spec := func() *dataset.VarSpec {
		return &dataset.VarSpec{Type: dtype.NCShort, Dims: []*dataset.Dim{x}, Chunks: []int64{2}, Codecs: []zarr.CodecSpec{{ID: "marked"}}, Fill: []int16{9}}
	}
	define(t, ds.Root(), "v", spec())
	long := define(t, ds.Root(), "long", spec())
	write(t, long, slab(0, 4), []int16{1, 2, 3, 4})
	closeDataset(t, ds)
	ds = update(t, "mem:src", o)
	for i, content := range []string{"\x01\x00\x02\x00", "\x03\x00\x04\x00"} {
		if _, err := ds.Map().Put(t.Context(), fmt.Sprintf("v/%d", i), driver.Bytes(content+foreignMark), nil); err != nil {
			t.Fatal(err)
		}
	}
	body, _, err := ds.Map().ReadAll(t.Context(), "v/.zarray", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ds.Map().Put(t.Context(), "v/.zarray", driver.Bytes(strings.Replace(string(body), "[4]", "[1]", 1)), nil); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	src := open(t, "mem:src", o)
	copied := copyOf(t, src, "mem:dst", o, nil)
	expect(t, copied, "v", []int16{1, 9, 9, 9})
	for key, c := range chunksOf(t, o, "dst") {
		if strings.HasSuffix(c, foreignMark) {
			t.Errorf("chunk %s was copied as stored", key)
		}
	}
}
