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
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// registry mixes two hosts: drivers of one, filters of the other.
type registry struct{ drivers, filters *host.Host }

func (r registry) Driver(name string) (driver.Opener, error)      { return r.drivers.Driver(name) }
func (r registry) Filter(id string) (codecdriver.Provider, error) { return r.filters.Filter(id) }

// plane is one way to run drivers and filters.
type plane struct {
	name             string
	drivers, filters host.Isolation
	inline, keep     bool // level 0; files are not lent
}

// planesOf lists the ways for a kind of work; the first is in process.
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

// works makes the work of a kind for every plane.
func (s *settings) works(ctx context.Context, self plugin.Self, kind string, chunkSize, callers int) ([]*work, error) {
	var all []*work
	for i, p := range planesOf(kind) {
		if i > 0 && !strings.Contains(p.name, s.planes) {
			continue
		}
		open := func(i host.Isolation) (*host.Host, error) {
			return host.New(&host.Options{Self: self, Isolation: i, InlineOnly: p.inline, KeepFiles: p.keep, Roots: []string{s.dir}})
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
		case "whole":
			err = s.whole(ctx, w, reg, chunkSize, callers)
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

// noisy gives data like byte-shuffled measurements of 16 bits: one half of it
// noise of six bits, the other nearly constant. zstd makes 0.38 of it.
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

// batchOf is the number of chunks of one call, as the engine makes it: a MiB
// of output, or four chunks where that shows what batches are worth.
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

// decode decodes batches of zstd chunks into memory of the caller.
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
	for c := range jobs {
		for range batchOf(chunkSize) {
			jobs[c] = append(jobs[c], codecdriver.Job{Src: coded[:n], Dst: make([]byte, chunkSize), Limit: int64(chunkSize)})
		}
	}
	w.op = func(ctx context.Context, c int) (int, error) {
		var failed error
		err := pipe.DecodeMany(ctx, jobs[c], func(_ int, _ []byte, err error) { failed = errors.Join(failed, err) })
		return len(jobs[c]), errors.Join(err, failed)
	}
	return nil
}

// get reads batches of objects from the page cache into memory of the caller.
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

// whole reads an array of bytes in zstd chunks; each caller its own part.
func (s *settings) whole(ctx context.Context, w *work, reg registry, chunkSize, callers int) error {
	path := filepath.Join(s.dir, fmt.Sprintf("array-%d", chunkSize))
	n := int64(max(64<<20, 8*chunkSize))
	opts := nczarr.Options{Registry: reg, SingleWriter: true}
	if _, err := os.Stat(path); err != nil {
		if err := makeArray(ctx, path, opts, n, int64(chunkSize)); err != nil {
			return err
		}
	}
	ds, err := nczarr.Open(ctx, path, &opts)
	if err != nil {
		return err
	}
	shut := w.close
	w.close = func() {
		_ = ds.Close(ctx)
		shut()
	}
	v, err := ds.Root().Var("data")
	if err != nil {
		return err
	}
	part := n / int64(callers)
	dst := make([][]uint8, callers)
	for c := range dst {
		dst[c] = make([]uint8, part)
	}
	w.op = func(ctx context.Context, c int) (int, error) {
		sel := chunk.Selection{Start: []int64{part * int64(c)}, Count: []int64{part}}
		return int(part) / chunkSize, v.Read(ctx, sel, dst[c])
	}
	return nil
}

func makeArray(ctx context.Context, path string, opts nczarr.Options, n, chunkSize int64) error {
	ds, err := nczarr.Create(ctx, path, &nczarr.CreateOptions{Options: opts})
	if err != nil {
		return err
	}
	x, err := ds.Root().DefineDim("x", n, false)
	if err != nil {
		return err
	}
	v, err := ds.Root().DefineVar(ctx, "data", &nczarr.VarSpec{
		Type: dtype.NCUByte, Dims: []*nczarr.Dim{x}, Chunks: []int64{chunkSize},
		Codecs: []zarr.CodecSpec{{ID: "zstd", Params: []byte(`{"id":"zstd","level":3}`)}},
	})
	if err != nil {
		return err
	}
	one := noisy(int(chunkSize))
	data := make([]byte, 0, n)
	for int64(len(data)) < n {
		data = append(data, one...)
	}
	if err := v.Write(ctx, v.All(), data); err != nil {
		return err
	}
	return ds.Close(ctx)
}
