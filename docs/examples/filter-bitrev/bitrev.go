// Package bitrev implements a codec that reverses the bits of every byte, as in
// data from old instruments.
package bitrev

import (
	"context"
	"encoding/json"
	"math/bits"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

type provider struct{}

// New returns the provider of the codec "bitrev", which has no parameters.
func New() driver.Provider { return provider{} }

func (provider) Describe() []driver.Description {
	return []driver.Description{{ID: "bitrev", Summary: "reverses the bits of every byte", Encode: true, Decode: true, Transform: driver.BytesToBytes}}
}

func (provider) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if id != "bitrev" {
		return nil, driver.Spec{}, ncerr.New(ncerr.ErrNoFilter, "open codec", id, nil)
	}
	members := map[string]json.RawMessage{}
	if len(params) > 0 {
		if err := json.Unmarshal(params, &members); err != nil {
			return nil, driver.Spec{}, ncerr.New(ncerr.ErrInvalid, "open codec", id, err)
		}
	}
	delete(members, "id")
	if len(members) > 0 {
		return nil, driver.Spec{}, ncerr.Errorf(ncerr.ErrInvalid, "open codec", id, "the codec has no parameters")
	}
	out := driver.Spec{Kind: driver.Blob, DType: in.DType, MaxBytes: in.MaxBytes}
	return codec{}, out, nil
}

type codec struct{}

// Encode writes len(src) bytes to dst. It is safe for concurrent use.
func (codec) Encode(_ context.Context, dst, src []byte) (int, error) {
	if len(dst) < len(src) {
		return 0, driver.ShortBuffer("reverse bits", len(dst))
	}
	for i, b := range src {
		dst[i] = bits.Reverse8(b)
	}
	return len(src), nil
}

// Decode is the same operation as Encode.
func (c codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return c.Encode(ctx, dst, src)
}
