package registry

import (
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Before returns a Registry that looks for drivers and codecs first in own and then in
// next, whose errors it returns.
func Before(own *Static, next Registry) Registry { return &before{own, next} }

type before struct {
	own  *Static
	next Registry
}

func (b *before) Driver(name string) (driver.Opener, error) {
	if o := b.own.drivers[name]; o != nil {
		return o, nil
	}
	return b.next.Driver(name)
}

func (b *before) Drivers() []driver.Description {
	out := b.own.Drivers()
	for _, d := range b.next.Drivers() {
		if b.own.drivers[d.Name] == nil {
			out = append(out, d)
		}
	}
	return out
}

func (b *before) Filter(id string) (codecdriver.Provider, error) {
	if p := b.own.filters[id]; p != nil {
		return p, nil
	}
	return b.next.Filter(id)
}

func (b *before) Filters() []codecdriver.Description {
	return append(b.own.Filters(), b.next.Filters()...)
}
