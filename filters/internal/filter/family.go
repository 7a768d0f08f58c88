package filter

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Family is a provider of several related codecs.
type Family []*Single

var _ driver.Provider = Family(nil)

// Describe returns the description of each codec.
func (f Family) Describe() []driver.Description {
	var list []driver.Description
	for _, s := range f {
		list = append(list, s.Desc)
	}
	return list
}

// Open opens a codec by one of its names.
func (f Family) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	for _, s := range f {
		if s.Desc.Has(id) {
			return s.Open(id, params, in)
		}
	}
	return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "unknown filter %q", id)
}
