//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

func options() dataset.Options {
	return dataset.Options{Registry: registry.New(builtin.New(), filters.Provider()), SingleWriter: true}
}

// runChild performs the measurement that text describes, a job in JSON, and prints the
// result as JSON. It checks the values after the measurement.
func runChild(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	var check func() error
	start, before := time.Now(), cpu()
	o := options()
	ds, err := open.Open(ctx, j.Store, &o)
	if err != nil {
		return err
	}
	v := ds.Root().Vars()[0]
	switch j.Op {
	case "whole":
		var values []uint16
		if values, err = dataset.Get[uint16](ctx, v, v.All()); err == nil {
			check = func() error { return j.check(values, v.All()) }
		}
	case "chunks":
		check, err = j.read(ctx, v, j.Chunk)
	case "inner":
		check, err = j.read(ctx, v, j.Inner)
	case "roundtrip":
		check, err = j.roundTrip(ctx, v)
	default:
		err = fmt.Errorf("unknown measurement %q", j.Op)
	}
	if err = errors.Join(err, ds.Close(ctx)); err != nil {
		return err
	}
	r := result{Seconds: time.Since(start).Seconds(), CPU: (cpu() - before).Seconds(), Peak: peak()}
	if err := check(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// cpu returns the processor time of the process so far.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peak returns the peak memory of the process in bytes.
func peak() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss << 10
}

// each calls f with the selection of each part of the given shape, in several goroutines.
// Each goroutine passes values of its own, which f may overwrite.
func (j *job) each(part []int64, f func(sel chunk.Selection, values []uint16) error) error {
	grid, n := make([]int64, len(part)), int64(1)
	for d, size := range part {
		grid[d] = j.Shape[d] / size
		n *= grid[d]
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, j.Flight)
	for w := range j.Flight {
		wg.Go(func() {
			sel := chunk.Selection{Start: make([]int64, len(part)), Count: part}
			values := make([]uint16, chunk.Product(part))
			for i := next.Add(1) - 1; i < n && errs[w] == nil; i = next.Add(1) - 1 {
				rest := i
				for d := len(grid) - 1; d >= 0; d-- {
					sel.Start[d] = rest % grid[d] * part[d]
					rest /= grid[d]
				}
				errs[w] = f(sel, values)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// read reads the array part by part. The returned function checks the parts that were
// read last.
func (j *job) read(ctx context.Context, v *dataset.Var, part []int64) (check func() error, err error) {
	var mu sync.Mutex
	last := make(map[*uint16]chunk.Selection)
	buffers := make(map[*uint16][]uint16)
	err = j.each(part, func(sel chunk.Selection, values []uint16) error {
		mu.Lock()
		last[&values[0]], buffers[&values[0]] = sel, values
		mu.Unlock()
		return v.Read(ctx, sel, values)
	})
	return func() error {
		for p, sel := range last {
			if err := j.check(buffers[p], sel); err != nil {
				return err
			}
		}
		return nil
	}, err
}

// roundTrip reads the array chunk by chunk, or shard by shard, and writes the values into
// a new array with the same chunks and codecs. The returned function checks the new array.
func (j *job) roundTrip(ctx context.Context, v *dataset.Var) (check func() error, err error) {
	ds, err := open.Create(ctx, j.Out+"#mode=zarr,v3", &dataset.CreateOptions{Options: options()})
	if err != nil {
		return nil, err
	}
	spec := &dataset.VarSpec{Type: v.Type(), Chunks: v.Chunks(), Shards: v.Shards(), Codecs: v.Codecs()}
	for d, n := range v.Shape() {
		x, err := ds.Root().DefineDim(string(rune('x'+d)), n, false)
		if err != nil {
			return nil, err
		}
		spec.Dims = append(spec.Dims, x)
	}
	out, err := ds.Root().DefineVar(ctx, "data", spec)
	if err != nil {
		return nil, err
	}
	err = j.each(j.Chunk, func(sel chunk.Selection, values []uint16) error {
		if err := v.Read(ctx, sel, values); err != nil {
			return err
		}
		return out.Write(ctx, sel, values)
	})
	if err = errors.Join(err, ds.Close(ctx)); err != nil {
		return nil, err
	}
	return func() error {
		o := options()
		ds, err := open.Open(ctx, j.Out, &o)
		if err != nil {
			return err
		}
		v := ds.Root().Vars()[0]
		err = j.each(j.Chunk, func(sel chunk.Selection, values []uint16) error {
			if err := v.Read(ctx, sel, values); err != nil {
				return err
			}
			return j.check(values, sel)
		})
		return errors.Join(err, ds.Close(ctx))
	}, nil
}

// check compares the values of a selection with the formula of the arrays: with three
// dimensions (k + j*j/32 + i*i*i) mod 65536. With two dimensions k is 0.
func (j *job) check(values []uint16, sel chunk.Selection) error {
	var start, count [3]int64
	for d := range count {
		count[d] = 1
	}
	copy(start[:], sel.Start)
	copy(count[:], sel.Count)
	n := 0
	for x := start[0]; x < start[0]+count[0]; x++ {
		for y := start[1]; y < start[1]+count[1]; y++ {
			base := y*y/32 + x*x*x
			for z := start[2]; z < start[2]+count[2]; z++ {
				if want := uint16(z + base); values[n] != want {
					return fmt.Errorf("the value at %d, %d, %d is %d, want %d", x, y, z, values[n], want)
				}
				n++
			}
		}
	}
	return nil
}
