package nczarr

import (
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/http"
	"github.com/seed-695719ce/nczarr/drivers/zip"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// Memory returns a storage driver that keeps datasets in memory. The URL of a dataset
// is "mem:" followed by a name. Datasets exist as long as the driver, so all calls must
// share it:
//
//	mem := nczarr.WithDriver(nczarr.Memory())
//	ds, err := nczarr.Create(ctx, "mem:scratch", mem)
func Memory() driver.Opener { return memmap.NewOpener() }

// registryOf returns a registry of the given drivers and codecs, followed by those of
// next, or by the built-in ones if next is nil. Of several with the same name, the
// first one is used.
func registryOf(drivers []driver.Opener, codecs []codecdriver.Provider, next registry.Registry) registry.Registry {
	if next == nil {
		return builtins{registry.New(append(drivers, file.New(), http.New(), zip.New()), append(codecs, filters.Provider())...)}
	}
	return &layered{own: registry.New(drivers, codecs...), next: next}
}

// layered looks for drivers and codecs first among those of the options, then in next.
type layered struct {
	own  *registry.Static
	next registry.Registry
}

var _ registry.Registry = (*layered)(nil)

func (r *layered) Driver(name string) (driver.Opener, error) {
	if o, err := r.own.Driver(name); err == nil {
		return o, nil
	}
	return r.next.Driver(name)
}

func (r *layered) Drivers() []driver.Description {
	out := r.own.Drivers()
	for _, d := range r.next.Drivers() {
		if _, err := r.own.Driver(d.Name); err != nil {
			out = append(out, d)
		}
	}
	return out
}

func (r *layered) Filter(id string) (codecdriver.Provider, error) {
	if p, err := r.own.Filter(id); err == nil {
		return p, nil
	}
	return r.next.Filter(id)
}

func (r *layered) Filters() []codecdriver.Description {
	return append(r.own.Filters(), r.next.Filters()...)
}

// builtins holds the drivers and codecs of the options and those built into this
// package.
type builtins struct{ *registry.Static }

// Driver returns the driver with the given name. Its errors for the drivers s3 and mem
// explain how to add them.
func (b builtins) Driver(name string) (driver.Opener, error) {
	o, err := b.Static.Driver(name)
	switch {
	case err != nil && name == ncurl.DriverS3:
		return nil, ncerr.Errorf(ErrUnsupported, "find driver", name, "the driver is not built in: import drivers/s3 and use the option nczarr.WithDriver(s3.New())")
	case err != nil && name == ncurl.DriverMem:
		return nil, ncerr.Errorf(ErrUnsupported, "find driver", name, "use the option nczarr.WithDriver(mem), where mem is an nczarr.Memory() shared by all calls")
	}
	return o, err
}
