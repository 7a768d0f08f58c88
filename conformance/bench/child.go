package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// runChild performs the measurement that text describes, a job in JSON, and prints the
// result as JSON. It repeats the operation, so that the first run warms up the second.
func runChild(ctx context.Context, self plugin.Self, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	h, err := host.New(&host.Options{Self: self, Isolation: host.Isolation(j.Isolation)})
	if err != nil {
		return err
	}
	opts := &dataset.Options{Registry: h, SingleWriter: true}
	var r result
	switch j.Op {
	case "read":
		err = j.read(ctx, opts, &r)
	case "write":
		err = j.write(ctx, opts, &r)
	case "baseline":
		err = j.baseline(&r)
	default:
		err = fmt.Errorf("unknown measurement %q", j.Op)
	}
	if cerr := h.Close(ctx); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	r.Peak = peakMemory()
	r.Size, err = storeSize(j.path())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func (j *job) path() string {
	path, _, _ := strings.Cut(j.URL, "#")
	return path
}

// read reads the whole array twice, both times into newly mapped memory, as the peers
// do, because the Go allocator might reuse memory. For comparison, read also measures
// the time in which a single goroutine touches that much memory.
func (j *job) read(ctx context.Context, opts *dataset.Options, r *result) error {
	raw, free, err := newMemory(j.Rows * j.Cols * 4)
	if err != nil {
		return err
	}
	began := time.Now()
	for i := 0; i < len(raw); i += os.Getpagesize() {
		raw[i] = 1
	}
	r.Touch = time.Since(began).Seconds()
	for range 2 {
		if err := free(); err != nil {
			return err
		}
		if raw, free, err = newMemory(j.Rows * j.Cols * 4); err != nil {
			return err
		}
		data := unsafe.Slice((*float32)(unsafe.Pointer(&raw[0])), j.Rows*j.Cols) // pages are aligned
		began := time.Now()
		ds, err := open.Open(ctx, j.URL, opts)
		if err != nil {
			return err
		}
		v, err := ds.Root().Var("data")
		if err != nil {
			return err
		}
		if err := v.Read(ctx, v.All(), data); err != nil {
			return err
		}
		if err := ds.Close(ctx); err != nil {
			return err
		}
		r.Seconds = time.Since(began).Seconds()
	}
	sum := sha256.Sum256(raw)
	r.Sum = hex.EncodeToString(sum[:])
	return free()
}

// newMemory maps memory that the process has not used before.
func newMemory(size int64) (raw []byte, free func() error, err error) {
	raw, err = unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return raw, func() error { return unix.Munmap(raw) }, err
}

// write writes the whole array twice.
func (j *job) write(ctx context.Context, opts *dataset.Options, r *result) error {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(j.Codecs), &list); err != nil {
		return err
	}
	var chain []zarr.CodecSpec
	for _, raw := range list {
		var head struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			return err
		}
		chain = append(chain, zarr.CodecSpec{ID: head.ID, Params: raw})
	}
	data := synthetic(j.Rows, j.Cols)
	for range 2 {
		if err := os.RemoveAll(j.path()); err != nil {
			return err
		}
		began := time.Now()
		if err := j.writeOnce(ctx, opts, chain, data); err != nil {
			return err
		}
		r.Seconds = time.Since(began).Seconds()
	}
	return nil
}

func (j *job) writeOnce(ctx context.Context, opts *dataset.Options, chain []zarr.CodecSpec, data []float32) error {
	ds, err := open.Create(ctx, j.URL, &dataset.CreateOptions{Options: *opts})
	if err != nil {
		return err
	}
	y, err := ds.Root().DefineDim("y", j.Rows, false)
	if err != nil {
		return err
	}
	x, err := ds.Root().DefineDim("x", j.Cols, false)
	if err != nil {
		return err
	}
	v, err := ds.Root().DefineVar(ctx, "data", &dataset.VarSpec{Type: dtype.NCFloat, Dims: []*dataset.Dim{y, x}, Chunks: []int64{j.Chunk, j.Chunk}, Codecs: chain})
	if err != nil {
		return err
	}
	if err := v.Write(ctx, v.All(), data); err != nil {
		return err
	}
	return ds.Close(ctx)
}

// baseline reads all chunk files into reused buffers, with one goroutine per processor.
// It measures the speed of the page cache.
func (j *job) baseline(r *result) error {
	files, err := filepath.Glob(filepath.Join(j.path(), "data", "[0-9]*"))
	if err != nil {
		return err
	}
	for range 2 {
		began := time.Now()
		var next atomic.Int64
		var wg sync.WaitGroup
		var failed atomic.Pointer[error]
		for range runtime.GOMAXPROCS(0) {
			wg.Go(func() {
				buf := make([]byte, j.Chunk*j.Chunk*8)
				for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
					if err := readInto(files[i], buf); err != nil {
						failed.Store(&err)
					}
				}
			})
		}
		wg.Wait()
		if p := failed.Load(); p != nil {
			return *p
		}
		r.Seconds = time.Since(began).Seconds()
	}
	return nil
}

func readInto(name string, buf []byte) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // opened for reading
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > int64(len(buf)) {
		return fmt.Errorf("%s exceeds the buffer", name)
	}
	_, err = f.ReadAt(buf[:info.Size()], 0)
	return err
}

// synthetic returns a smooth field with noise of up to 0.01, which compresses like the
// float32 fields of models.
func synthetic(rows, cols int64) []float32 {
	data := make([]float32, rows*cols)
	wave := make([]float64, rows+cols)
	for i := range wave {
		wave[i] = 3*math.Sin(float64(i)/97) + math.Cos(float64(i)/1031)
	}
	seed := uint64(1)
	for y := range rows {
		base := 280 + 10*math.Sin(float64(y)/500)
		for x := range cols {
			seed = seed*6364136223846793005 + 1442695040888963407
			noise := float64(int32(seed>>33)%2001-1000) / 100000
			data[y*cols+x] = float32(base + wave[y+x] + 5*wave[x] + noise)
		}
	}
	return data
}

// peakMemory returns the peak resident size of this process in bytes, or 0 if unknown.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// storeSize returns the total size of the files of a store.
func storeSize(path string) (int64, error) {
	var total int64
	err := filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
