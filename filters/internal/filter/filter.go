// Package filter holds what all filter packages share: reading parameters
// with the quirks of real writers, the provider of a single codec, and specs.
// It stands below every package of filters and above core/codec/driver.
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

// Describe gives the one description.
func (s *Single) Describe() []driver.Description { return []driver.Description{s.Desc} }

// Open opens the codec under one of its names.
func (s *Single) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if !s.Desc.Has(id) {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "this provider has %q only", s.Desc.ID)
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

// Corrupt is the error for bad encoded bytes.
func Corrupt(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrCorrupt, "", "", format, args...)
}

// Short is the error for an output that does not fit in dst.
func Short(dst []byte) error { return driver.ShortBuffer("", len(dst)) }

// Blob gives the spec of encoded bytes made from in, at most n of them. The
// element type is kept, so that later steps know what the bytes are made of.
func Blob(in driver.Spec, n int64) driver.Spec {
	return driver.Spec{Kind: driver.Blob, DType: in.DType, MaxBytes: n}
}

// ElementSize is the size of the elements that in is made of, 1 when it is
// not known.
func ElementSize(in driver.Spec) int { return max(in.DType.Size, 1) }
