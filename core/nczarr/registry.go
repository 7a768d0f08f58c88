package nczarr

import (
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// StaticRegistry is a Registry of drivers and filters in this process. It does not
// change after NewRegistry and is safe for concurrent use.
type StaticRegistry struct {
	drivers map[string]driver.Opener
	filters map[string]codecdriver.Provider // indexed by each codec name
	codecs  codec.Catalog
}

var _ Registry = (*StaticRegistry)(nil)

// NewRegistry returns a Registry of the given openers and providers. If two have the
// same name, the first one is used.
func NewRegistry(openers []driver.Opener, providers ...codecdriver.Provider) *StaticRegistry {
	s := &StaticRegistry{drivers: make(map[string]driver.Opener), filters: make(map[string]codecdriver.Provider)}
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
func (s *StaticRegistry) Driver(name string) (driver.Opener, error) {
	if o := s.drivers[name]; o != nil {
		return o, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrUnsupported, "find driver", name, "unknown storage driver; the available drivers are %s", names(s.drivers))
}

// Filter implements Registry.
func (s *StaticRegistry) Filter(id string) (codecdriver.Provider, error) {
	if p := s.filters[id]; p != nil {
		return p, nil
	}
	return nil, ncerr.Errorf(ncerr.ErrNoFilter, "find filter", id, "no filter provides this codec; the available codecs are %s%s", s.ids(), s.codecs.DidYouMean(id))
}

// Filters implements Registry.
func (s *StaticRegistry) Filters() []codecdriver.Description { return slices.Clone(s.codecs) }

// ids returns a list of the codec ids, for error messages.
func (s *StaticRegistry) ids() string {
	byID := map[string]bool{}
	for _, d := range s.codecs {
		byID[d.ID] = true
	}
	return names(byID)
}

func names[T any](m map[string]T) string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
