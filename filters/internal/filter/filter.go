// Package filter holds the code that all filter packages share: parsing of parameters
// with the quirks of existing writers, the provider of a single codec, and specs. It
// imports core/codec/driver and core/dtype; every filter package imports it.
package filter

import (
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// OpenFunc opens a codec from its parameters.
type OpenFunc func(p *Params, in driver.Spec) (driver.Codec, driver.Spec, error)

// Single is a provider of one codec.
type Single struct {
	Desc   driver.Description
	OpenAs OpenFunc
}

var _ driver.Provider = (*Single)(nil)

// Describe returns the description of the codec.
func (s *Single) Describe() []driver.Description { return []driver.Description{s.Desc} }

// Open opens the codec by one of its names.
func (s *Single) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if !s.Desc.Has(id) {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "this provider has only the filter %q", s.Desc.ID)
	}
	p, err := parse(&s.Desc, params)
	if err != nil {
		return nil, driver.Spec{}, err
	}
	c, out, err := s.OpenAs(p, in)
	if bad := p.Err(); bad != nil {
		return nil, driver.Spec{}, bad
	}
	if err != nil {
		return nil, driver.Spec{}, err
	}
	return c, out, nil
}

// Corrupt returns an ErrCorrupt for invalid encoded bytes.
func Corrupt(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", format, args...)
}

// Short returns the error for output that does not fit in dst.
func Short(dst []byte) error { return driver.ShortBuffer("", len(dst)) }

// Blob returns the spec of at most n encoded bytes made from in. It keeps the element
// type, which defines the size of the elements for later codecs.
func Blob(in driver.Spec, n int64) driver.Spec {
	return driver.Spec{Kind: driver.Blob, DType: in.DType, MaxBytes: n}
}

// ElementSize returns the size of the elements of in, or 1 if it is unknown.
func ElementSize(in driver.Spec) int { return max(in.DType.Size, 1) }
