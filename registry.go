package nczarr

import (
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/http"
	"github.com/seed-695719ce/nczarr/drivers/zip"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// Memory returns a storage driver that keeps datasets in memory, by the names
// that follow "mem:" in a URL. They live as long as the driver, which is given
// to each call:
//
//	mem := nczarr.WithDriver(nczarr.Memory())
//	ds, err := nczarr.Create(ctx, "mem:scratch", mem)
func Memory() driver.Opener { return memmap.NewOpener() }

// registry looks among the drivers and codecs of the options first.
type registry struct {
	own  *nczarr.Static
	next nczarr.Registry
}

var _ nczarr.Registry = (*registry)(nil)

func (r *registry) Driver(name string) (driver.Opener, error) {
	if o, err := r.own.Driver(name); err == nil {
		return o, nil
	}
	return r.next.Driver(name)
}

func (r *registry) Filter(id string) (codecdriver.Provider, error) {
	if p, err := r.own.Filter(id); err == nil {
		return p, nil
	}
	return r.next.Filter(id)
}

func (r *registry) Filters() []codecdriver.Description {
	return append(r.own.Filters(), r.next.Filters()...)
}

// builtins are the drivers and codecs that this package brings.
type builtins struct{ *nczarr.Static }

func builtin() builtins {
	return builtins{nczarr.NewRegistry([]driver.Opener{file.New(), http.New(), zip.New()}, filters.Provider())}
}

// Driver says of the drivers that are left out how to add them.
func (b builtins) Driver(name string) (driver.Opener, error) {
	switch name {
	case ncurl.DriverS3:
		return nil, ncerr.Errorf(ErrUnsupported, "find driver", name, "it has an import of its own: give the option nczarr.WithDriver(s3.New()) with drivers/s3")
	case ncurl.DriverMem:
		return nil, ncerr.Errorf(ErrUnsupported, "find driver", name, "give the option nczarr.WithDriver(mem), where mem is a nczarr.Memory() that all calls share")
	}
	return b.Static.Driver(name)
}
