// Package builtin lists the storage drivers that come with nczarr, for
// programs that want them all. It is the only package that imports every
// driver; below are drivers/file, drivers/http, drivers/s3 and drivers/zip, above are programs such as
// cmd/nczctl and core/plugin/host's callers.
package builtin

import (
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/http"
	"github.com/seed-695719ce/nczarr/drivers/s3"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// New gives one opener of each built-in driver, in the order of their names.
func New() []driver.Opener {
	return []driver.Opener{file.New(), http.New(), s3.New(), zip.New()}
}

// Driver gives the built-in driver of that name, or ncerr.ErrUnsupported.
func Driver(name string) (driver.Opener, error) {
	for _, o := range New() {
		if o.Describe().Name == name {
			return o, nil
		}
	}
	return nil, ncerr.Errorf(ncerr.ErrUnsupported, "find driver", name, "no such driver is built in")
}
