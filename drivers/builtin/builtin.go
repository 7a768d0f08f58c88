// Package builtin lists the storage drivers of nczarr, for programs that use all of them.
// It is the only package that imports every driver: drivers/file, drivers/http,
// drivers/s3 and drivers/zip. core/session imports it for programs such as cmd/nczctl.
package builtin

import (
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/drivers/http"
	"github.com/seed-695719ce/nczarr/drivers/s3"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// New returns one opener per built-in driver, sorted by name.
func New() []driver.Opener {
	return []driver.Opener{file.New(), http.New(), s3.New(), zip.New()}
}
