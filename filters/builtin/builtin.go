// Package builtin provides the filters of nczarr as one provider. It imports every filter
// package. Programs pass the provider to a registry or serve it as a plugin.
package builtin

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/astype"
	"github.com/seed-695719ce/nczarr/filters/base64"
	"github.com/seed-695719ce/nczarr/filters/bitround"
	"github.com/seed-695719ce/nczarr/filters/blosc"
	"github.com/seed-695719ce/nczarr/filters/bz2"
	"github.com/seed-695719ce/nczarr/filters/castvalue"
	"github.com/seed-695719ce/nczarr/filters/categorize"
	"github.com/seed-695719ce/nczarr/filters/checksum"
	"github.com/seed-695719ce/nczarr/filters/delta"
	"github.com/seed-695719ce/nczarr/filters/fixedscaleoffset"
	"github.com/seed-695719ce/nczarr/filters/gzip"
	"github.com/seed-695719ce/nczarr/filters/lz4"
	"github.com/seed-695719ce/nczarr/filters/lzma"
	"github.com/seed-695719ce/nczarr/filters/object"
	"github.com/seed-695719ce/nczarr/filters/packbits"
	"github.com/seed-695719ce/nczarr/filters/quantize"
	"github.com/seed-695719ce/nczarr/filters/scaleoffset"
	"github.com/seed-695719ce/nczarr/filters/shuffle"
	"github.com/seed-695719ce/nczarr/filters/szip"
	"github.com/seed-695719ce/nczarr/filters/vlen"
	"github.com/seed-695719ce/nczarr/filters/zlib"
	"github.com/seed-695719ce/nczarr/filters/zstd"
)

// provider opens filters by id.
type provider struct {
	list []driver.Description
	byID map[string]driver.Provider // providers by id, V3 name and alias
}

var _ driver.Provider = (*provider)(nil)

// Provider returns all built-in filters. They are opened by numcodecs id, Zarr v3 name or
// alias; other names fail with ncerr.ErrNoFilter. The provider is safe for concurrent
// use.
func Provider() driver.Provider {
	p := &provider{byID: map[string]driver.Provider{}}
	for _, f := range all() {
		for _, d := range f.Describe() {
			p.list = append(p.list, d)
			for _, name := range d.Names() {
				p.byID[name] = f
			}
		}
	}
	slices.SortFunc(p.list, func(a, b driver.Description) int { return strings.Compare(a.ID, b.ID) })
	return p
}

func all() []driver.Provider {
	return []driver.Provider{
		astype.Provider(), base64.Provider(), bitround.Provider(), blosc.Provider(), bz2.Provider(), castvalue.Provider(), categorize.Provider(),
		checksum.Provider(), delta.Provider(), fixedscaleoffset.Provider(), gzip.Provider(), lz4.Provider(), lzma.Provider(), object.Provider(), packbits.Provider(), packbits.V3Provider(),
		quantize.Provider(), scaleoffset.Provider(), shuffle.Provider(), szip.Provider(), vlen.Provider(), zlib.Provider(), zstd.Provider(),
	}
}

// Describe lists the filters sorted by id.
func (p *provider) Describe() []driver.Description {
	return append([]driver.Description(nil), p.list...)
}

// Open opens a filter.
func (p *provider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	f, ok := p.byID[id]
	if !ok {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "%q is not a built-in filter", id)
	}
	return f.Open(id, params, in)
}
