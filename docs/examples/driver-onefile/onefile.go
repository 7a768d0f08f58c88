// Package onefile keeps a whole store in one file. Opening the store reads the
// file, operations work in memory, and Flush rewrites the file.
package onefile

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

type opener struct{}

// New returns the driver.
func New() driver.Opener { return opener{} }

func (opener) Describe() driver.Description {
	return driver.Description{Name: "onefile", Summary: "a whole store in one file", Grants: []string{"path:read", "dir:write"}}
}

func (opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	if err := driver.DecodeOptions(spec.Options, &struct{}{}); err != nil { // the driver has no options
		return nil, err
	}
	data, err := os.ReadFile(spec.Path)
	absent := errors.Is(err, fs.ErrNotExist)
	objects := map[string][]byte{}
	switch {
	case absent && (spec.Mode == driver.Read || spec.Mode == driver.Update):
		return nil, ncerr.New(ncerr.ErrNoDataset, "open", spec.Path, nil)
	case !absent && err != nil:
		return nil, err
	case !absent && spec.Mode == driver.CreateExclusive:
		return nil, ncerr.New(ncerr.ErrExists, "open", spec.Path, nil)
	case !absent && spec.Mode != driver.Create:
		if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&objects); err != nil {
			return nil, ncerr.New(ncerr.ErrCorrupt, "open", spec.Path, err)
		}
	}
	memory := memmap.NewOpener()
	m, err := memory.Open(ctx, driver.OpenSpec{Path: "it", Mode: driver.Create})
	for key, value := range objects {
		if err == nil {
			_, err = m.Put(ctx, key, driver.Bytes(value), &driver.PutOptions{})
		}
	}
	if err == nil && !spec.Mode.Writable() { // reopen the same objects read-only
		m, err = memory.Open(ctx, driver.OpenSpec{Path: "it", Mode: driver.Read})
	}
	return &store{Map: m, spec: spec}, err
}

func (opener) Remove(_ context.Context, spec driver.OpenSpec) error {
	if err := os.Remove(spec.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return ncerr.New(ncerr.ErrNoDataset, "remove", spec.Path, nil)
}

// store is the in-memory Map plus the file. Each handle has its own copy of the
// objects, so store reports neither versions nor times.
type store struct {
	driver.Map
	spec driver.OpenSpec
}

func (s *store) Capabilities() driver.Capabilities {
	c := s.Map.Capabilities()
	c.Durable, c.IfMatch = driver.OnFlush, false
	return c
}

func (s *store) Stat(ctx context.Context, key string) (driver.Info, error) {
	info, err := s.Map.Stat(ctx, key)
	return driver.Info{Size: info.Size}, err
}

func (s *store) Get(ctx context.Context, key string, o *driver.GetOptions, a driver.Alloc) ([]byte, driver.Info, error) {
	if o.IfMatch != "" {
		return nil, driver.Info{}, ncerr.New(ncerr.ErrUnsupported, "get", key, nil)
	}
	data, info, err := s.Map.Get(ctx, key, o, a)
	return data, driver.Info{Size: info.Size}, err
}

func (s *store) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if o.IfMatch != "" {
		return driver.Info{}, ncerr.New(ncerr.ErrUnsupported, "put", key, nil)
	}
	info, err := s.Map.Put(ctx, key, body, o)
	return driver.Info{Size: info.Size}, err
}

func (s *store) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		for e, err := range s.Map.List(ctx, prefix, o) {
			e.Info = driver.Info{Size: e.Info.Size}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Flush replaces the file with a rename, so that the file is always complete. In mode
// CreateExclusive it links the file instead, so that only the first of several
// concurrent handles succeeds.
func (s *store) Flush(ctx context.Context) error {
	if !s.spec.Mode.Writable() {
		return nil
	}
	objects := map[string][]byte{}
	for e, err := range s.List(ctx, "", &driver.ListOptions{Recursive: true}) {
		if err == nil {
			objects[e.Key], _, err = s.Get(ctx, e.Key, &driver.GetOptions{}, driver.Heap)
		}
		if err != nil {
			return err
		}
	}
	f, err := os.CreateTemp(filepath.Dir(s.spec.Path), filepath.Base(s.spec.Path)+".new*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(gob.NewEncoder(f).Encode(objects), f.Sync(), f.Close()); err != nil {
		return err
	}
	if s.spec.Mode != driver.CreateExclusive {
		return os.Rename(f.Name(), s.spec.Path)
	}
	err = os.Link(f.Name(), s.spec.Path)
	if errors.Is(err, fs.ErrExist) {
		return ncerr.New(ncerr.ErrExists, "flush", s.spec.Path, nil)
	}
	if err == nil {
		s.spec.Mode = driver.Update // the store now exists and belongs to this handle
	}
	return err
}
