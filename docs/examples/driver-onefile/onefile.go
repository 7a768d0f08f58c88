// Package onefile keeps a whole store in one file that is written at Flush.
package onefile

import (
	"context"
	"encoding/gob"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

type opener struct{}

// New gives the driver.
func New() driver.Opener { return opener{} }

func (opener) Describe() driver.Description {
	return driver.Description{Name: "onefile", Summary: "a store in one file", Grants: []string{"path:read", "path:write"}}
}

func (opener) Open(_ context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m := &store{path: spec.Path, write: spec.Mode.Writable(), objects: map[string][]byte{}}
	f, err := os.Open(spec.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (spec.Mode == driver.Read || spec.Mode == driver.Update):
		return nil, ncerr.New(ncerr.ErrNoDataset, "open", spec.Path, nil)
	case errors.Is(err, fs.ErrNotExist):
		return m, m.Flush(context.Background())
	case err != nil:
		return nil, err
	}
	defer f.Close()
	if spec.Mode == driver.CreateExclusive {
		return nil, ncerr.New(ncerr.ErrExists, "open", spec.Path, nil)
	}
	if spec.Mode == driver.Create {
		return m, nil
	}
	if err := gob.NewDecoder(f).Decode(&m.objects); err != nil {
		return nil, ncerr.New(ncerr.ErrCorrupt, "open", spec.Path, err)
	}
	return m, nil
}

func (opener) Remove(_ context.Context, spec driver.OpenSpec) error {
	err := os.Remove(spec.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return ncerr.New(ncerr.ErrNoDataset, "remove", spec.Path, nil)
	}
	return err
}

type store struct {
	driver.Base
	path    string
	write   bool
	mu      sync.RWMutex
	objects map[string][]byte // a value is never changed, only replaced
}

func (m *store) Capabilities() driver.Capabilities {
	return driver.Capabilities{Ranges: true, List: true, Write: m.write, Delete: m.write, RecursiveList: true, OrderedList: true, Durable: driver.OnFlush}
}

func (m *store) value(key string) ([]byte, driver.Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.objects[key]
	if !ok {
		return nil, driver.Info{}, ncerr.ErrNotFound
	}
	return v, driver.Info{Size: int64(len(v))}, nil
}

func (m *store) Get(_ context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	v, info, err := m.value(key)
	if err == nil && opts.Range != nil {
		var start, n int64
		if start, n, err = opts.Range.Resolve(info.Size); err == nil {
			v = v[start : start+n]
		}
	}
	if err == nil && opts.Limit > 0 && int64(len(v)) > opts.Limit {
		err = ncerr.ErrLimit
	}
	if err != nil {
		return nil, info, err
	}
	dst, err := alloc(int64(len(v)))
	return dst[:copy(dst, v)], info, err
}

func (m *store) Stat(_ context.Context, key string) (driver.Info, error) {
	_, info, err := m.value(key)
	return info, err
}
