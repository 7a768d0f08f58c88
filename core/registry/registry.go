// Package registry finds storage drivers by name and codecs by id.
//
//	reg := registry.New(drivers.New(), filters.Provider())
//	opener, err := reg.Driver("file")
//
// [Static] holds drivers and codecs of this process; core/plugin/host provides those of
// other processes.
package registry

import (
	"maps"
	"slices"
	"strings"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Registry finds storage drivers and filters by name. Implementations are safe for
// concurrent use.
type Registry interface {
	// Driver returns the storage driver with the given name, or ncerr.ErrUnsupported
	// with a message that explains how to add it.
	Driver(name string) (driver.Opener, error)
	// Drivers describes the drivers that Driver finds. For a plugin that has not been
	// started yet, a description contains only names; driver.Opener.Describe starts it.
	Drivers() []driver.Description
	// Filter returns a provider of the codec with the given id, or ncerr.ErrNoFilter
	// with a message that explains how to add it.
	Filter(id string) (codecdriver.Provider, error)
	// Filters describes the codecs that Filter finds. For a plugin that has not been
	// started yet, a description contains only names. If two codecs share a name or an
	// HDF5 number, the first one is used.
	Filters() []codecdriver.Description
}

// Static is a Registry of drivers and filters in this process. It does not change after
// New and is safe for concurrent use.
type Static struct {
	drivers map[string]driver.Opener
	filters map[string]codecdriver.Provider // indexed by each codec name
	codecs  []codecdriver.Description
}

var _ Registry = (*Static)(nil)

// New returns a Registry of the given openers and providers. If two have the same name,
// the first one is used.
func New(openers []driver.Opener, providers ...codecdriver.Provider) *Static {
	s := &Static{drivers: make(map[string]driver.Opener), filters: make(map[string]codecdriver.Provider)}
	for _, o := range openers {
		if name := o.Describe().Name; s.drivers[name] == nil {
			s.drivers[name] = o
		}
	}
	for _, p := range providers {
		for _, d := range p.Describe() {
			s.codecs = append(s.codecs, d)
			for _, name := range d.Names() {
				if s.filters[name] == nil {
					s.filters[name] = p
				}
			}
		}
	}
	return s
}

// Driver implements Registry.
func (s *Static) Driver(name string) (driver.Opener, error) {
	if o := s.drivers[name]; o != nil {
		return o, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrUnsupported, "find driver", name, "unknown storage driver; the available drivers are %s",
		strings.Join(slices.Sorted(maps.Keys(s.drivers)), ", "))
}

// Drivers implements Registry. The result is sorted by name.
func (s *Static) Drivers() []driver.Description {
	out := make([]driver.Description, 0, len(s.drivers))
	for _, name := range slices.Sorted(maps.Keys(s.drivers)) {
		out = append(out, s.drivers[name].Describe())
	}
	return out
}

// Filter implements Registry.
func (s *Static) Filter(id string) (codecdriver.Provider, error) {
	if p := s.filters[id]; p != nil {
		return p, nil
	}
	ids := make([]string, len(s.codecs))
	for i := range s.codecs {
		ids[i] = s.codecs[i].ID
	}
	hint := ncerr.DidYouMean(id, ids)
	slices.Sort(ids)
	return nil, ncerr.Errorf(ncerr.ErrNoFilter, "find filter", id, "no filter provides this codec; the available codecs are %s%s", strings.Join(slices.Compact(ids), ", "), hint)
}

// Filters implements Registry.
func (s *Static) Filters() []codecdriver.Description { return slices.Clone(s.codecs) }
