package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// registry combines two hosts: the drivers of one and the filters of the other.
type registry struct{ drivers, filters *host.Host }

func (r registry) Drivers() []driver.Description                  { return r.drivers.Drivers() }
func (r registry) Driver(name string) (driver.Opener, error)      { return r.drivers.Driver(name) }
func (r registry) Filter(id string) (codecdriver.Provider, error) { return r.filters.Filter(id) }
func (r registry) Filters() []codecdriver.Description             { return r.filters.Filters() }

// plane is one way to run drivers and filters.
type plane struct {
	name             string
	drivers, filters host.Isolation
	inline           bool // use only level 0, without shared memory
	noLending        bool // do not pass file descriptors
}

// planesOf returns the planes for a kind of work. The first one is in process.
func planesOf(kind string) []plane {
	in := plane{"in process", host.InProcess, host.InProcess, false, false}
	switch kind {
	case "decode":
		return []plane{in, {"level 1", host.InProcess, host.Process, false, false}, {"level 0", host.InProcess, host.Process, true, false}}
	case "get":
		return []plane{in, {"level 1", host.Process, host.InProcess, false, true}, {"lent files", host.Process, host.InProcess, false, false}}
	}
	return []plane{
		in,
		{"filter", host.InProcess, host.Process, false, false},
		{"driver and filter", host.Process, host.Process, false, true},
		{"driver and filter, lent files", host.Process, host.Process, false, false},
		{"driver and filter, level 0", host.Process, host.Process, true, false},
	}
}

// works returns the work of a kind for every selected plane.
func (s *settings) works(ctx context.Context, self plugin.Self, kind string, chunkSize, callers int) ([]*work, error) {
	var all []*work
	for i, p := range planesOf(kind) {
		if i > 0 && !(strings.HasPrefix(s.planes, "=") && p.name == s.planes[1:] || strings.Contains(p.name, s.planes)) {
			continue
		}
		open := func(i host.Isolation) (*host.Host, error) {
			return host.New(&host.Options{Self: self, Isolation: i, InlineOnly: p.inline, NoLending: p.noLending, Roots: []string{s.dir}})
		}
		d, err := open(p.drivers)
		if err != nil {
			return all, err
		}
		f, err := open(p.filters)
		if err != nil {
			return all, err
		}
		w := &work{name: p.name}
		all = append(all, w)
		w.cpu = func() time.Duration { return cpuTime(append(pids(d), pids(f)...)) }
		w.close = func() { _ = errors.Join(d.Close(ctx), f.Close(ctx)) }
		reg := registry{d, f}
		switch kind {
		case "decode":
			err = s.decode(ctx, w, reg, chunkSize, callers)
		case "get":
			err = s.get(ctx, w, reg, chunkSize, callers)
		default:
			err = s.whole(ctx, w, reg, kind, chunkSize, callers)
		}
		if err != nil {
			return all, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return all, nil
}

func pids(h *host.Host) []int {
	var out []int
	for _, p := range h.Plugins() {
		if p.PID != 0 {
			out = append(out, p.PID)
		}
	}
	return out
}

// noisy returns data like byte-shuffled 16-bit measurements: one half is noise of six
// bits, the other half is nearly constant. zstd compresses it to 0.38 of its size.
func noisy(n int) []byte {
	data := make([]byte, n)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		if i < n/2 {
			data[i] = byte(rnd.Uint32() & 63)
		} else {
			data[i] = byte(i >> 14)
		}
	}
	return data
}

// batchOf returns the number of chunks per call. Like the engine, it combines small
// chunks into 1 MiB of output. It combines a few larger chunks to show the effect of
// batches.
func batchOf(chunkSize int) int {
	switch {
	case chunkSize < 1<<20:
		return (1 << 20) / chunkSize
	case chunkSize == 1<<20:
		return 4
	case chunkSize == 4<<20:
		return 2
	}
	return 1
}

// touch reads every cache line, like a caller that uses the output.
func touch(b []byte) (sum byte) {
	for i := 0; i < len(b); i += 64 {
		sum += b[i]
	}
	return sum
}

// decode decodes batches of zstd chunks. The input is in memory that the pipeline has
// lent, if it lends any. The sink reads each output in the memory of the pipeline.
func (s *settings) decode(ctx context.Context, w *work, reg registry, chunkSize, callers int) error {
	pipe, err := codec.Open(ctx, []codecdriver.Step{{ID: "zstd"}}, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: int64(chunkSize)}, reg.Filter)
	if err != nil {
		return err
	}
	coded := make([]byte, pipe.MaxEncoded())
	n, err := pipe.Encode(ctx, coded, noisy(chunkSize))
	if err != nil {
		return err
	}
	jobs := make([][]codecdriver.Job, callers)
	var release []func()
	for c := range jobs {
		for range batchOf(chunkSize) {
			src, done := pipe.LendInput(int64(n))
			if src == nil {
				src, done = make([]byte, n), func() {}
			}
			copy(src, coded)
			jobs[c] = append(jobs[c], codecdriver.Job{Src: src, Limit: int64(chunkSize), Shared: true})
			release = append(release, done)
		}
	}
	closeAll := w.close
	w.close = func() {
		for _, done := range release {
			done()
		}
		closeAll()
	}
	var sums [64]byte // keeps the compiler from removing the reads
	w.op = func(ctx context.Context, c int) (int, error) {
		var failed error
		err := pipe.DecodeMany(ctx, jobs[c], func(_ int, out []byte, err error) {
			sums[c] += touch(out)
			failed = errors.Join(failed, err)
		})
		return len(jobs[c]), errors.Join(err, failed)
	}
	return nil
}

// get reads batches of objects from the page cache into the caller's memory.
func (s *settings) get(ctx context.Context, w *work, reg registry, chunkSize, callers int) error {
	o, err := reg.Driver("file")
	if err != nil {
		return err
	}
	m, err := o.Open(ctx, driver.OpenSpec{Path: filepath.Join(s.dir, "objects"), Mode: driver.Create})
	if err != nil {
		return err
	}
	if _, err := m.Put(ctx, "k", driver.Bytes(noisy(chunkSize)), &driver.PutOptions{}); err != nil {
		return err
	}
	reqs := make([][]driver.GetRequest, callers)
	for c := range reqs {
		for range batchOf(chunkSize) {
			reqs[c] = append(reqs[c], driver.GetRequest{Key: "k", Alloc: driver.Into(make([]byte, chunkSize))})
		}
	}
	many, _ := m.(driver.GetManyer)
	w.op = func(ctx context.Context, c int) (int, error) {
		if many == nil {
			for _, r := range reqs[c] {
				if _, _, err := m.Get(ctx, r.Key, &r.Opts, r.Alloc); err != nil {
					return 0, err
				}
			}
			return len(reqs[c]), nil
		}
		var failed error
		err := many.GetMany(ctx, reqs[c], func(_ int, _ []byte, _ driver.Info, err error) { failed = errors.Join(failed, err) })
		return len(reqs[c]), errors.Join(err, failed)
	}
	return nil
}

// chunkShape returns the shape of the chunks for a kind of work, and the number of
// chunks along a row: two, or one if each chunk must be contiguous in the array's
// memory.
func chunkShape(kind string, chunkSize int) (chunks []int64, perRow int64) {
	if kind == "one run" {
		return []int64{1, int64(chunkSize)}, 1
	}
	rows := int64(1)
	for rows*rows*4 <= int64(chunkSize) {
		rows *= 2
	}
	return []int64{rows, int64(chunkSize) / rows}, 2
}

// whole reads an array of bytes in zstd chunks. Each caller reads its own rows.
func (s *settings) whole(ctx context.Context, w *work, reg registry, kind string, chunkSize, callers int) error {
	path := filepath.Join(s.dir, fmt.Sprintf("array-%s-%d", strings.ReplaceAll(kind, " ", "-"), chunkSize))
	chunks, perRow := chunkShape(kind, chunkSize)
	total := max(64<<20, 16*chunkSize) / chunkSize
	shape := []int64{int64(total) / perRow * chunks[0], perRow * chunks[1]}
	opts := dataset.Options{Registry: reg, SingleWriter: true}
	if _, err := os.Stat(path); err != nil {
		if err := makeArray(ctx, path, opts, shape, chunks); err != nil {
			return err
		}
	}
	ds, err := open.Open(ctx, path, &opts)
	if err != nil {
		return err
	}
	closeAll := w.close
	w.close = func() {
		_ = ds.Close(ctx)
		closeAll()
	}
	v, err := ds.Root().Var("data")
	if err != nil {
		return err
	}
	rows := shape[0] / int64(callers)
	dst := make([][]uint8, callers)
	for c := range dst {
		dst[c] = make([]uint8, rows*shape[1])
	}
	w.op = func(ctx context.Context, c int) (int, error) {
		sel := chunk.Selection{Start: []int64{rows * int64(c), 0}, Count: []int64{rows, shape[1]}}
		return total / callers, v.Read(ctx, sel, dst[c])
	}
	return nil
}

func makeArray(ctx context.Context, path string, opts dataset.Options, shape, chunks []int64) error {
	ds, err := open.Create(ctx, path, &dataset.CreateOptions{Options: opts})
	if err != nil {
		return err
	}
	var dims []*dataset.Dim
	for i, name := range []string{"y", "x"} {
		d, err := ds.Root().DefineDim(name, shape[i], false)
		if err != nil {
			return err
		}
		dims = append(dims, d)
	}
	v, err := ds.Root().DefineVar(ctx, "data", &dataset.VarSpec{
		Type: dtype.NCUByte, Dims: dims, Chunks: chunks,
		Codecs: []zarr.CodecSpec{{ID: "zstd", Params: []byte(`{"id":"zstd","level":3}`)}},
	})
	if err != nil {
		return err
	}
	one := noisy(int(chunks[0] * chunks[1]))
	for y := int64(0); y < shape[0]; y += chunks[0] {
		for x := int64(0); x < shape[1]; x += chunks[1] {
			if err := v.Write(ctx, chunk.Selection{Start: []int64{y, x}, Count: chunks}, one); err != nil {
				return err
			}
		}
	}
	return ds.Close(ctx)
}
