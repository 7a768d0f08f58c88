// Package base64 implements the filter "base64", which stores bytes as padded text in the
// standard alphabet. It imports core/codec/driver and filters/internal/filter; core/codec
// calls it.
package base64

import (
	"context"
	"encoding/base64"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "base64"

// Codec encodes and decodes base64. It is safe for concurrent use. Decode fails with
// ncerr.ErrCorrupt or ncerr.ErrShortBuffer.
type Codec struct{}

var _ driver.Codec = Codec{}

// Provider returns the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{ID: ID, Encode: true, Decode: true, Summary: "bytes as base64 text", Transform: driver.BytesToBytes},
		OpenAs: func(_ *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			return Codec{}, filter.Blob(in, in.MaxBytes/3*4+4), nil
		},
	}
}

// Encode writes src as text.
func (Codec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	n := base64.StdEncoding.EncodedLen(len(src))
	if len(dst) < n {
		return 0, filter.Short(dst)
	}
	base64.StdEncoding.Encode(dst, src)
	return n, nil
}

// Decode decodes text. It skips line breaks.
func (Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	// The last group may decode to up to two bytes less than DecodedLen counts.
	if n := base64.StdEncoding.DecodedLen(len(src)); n <= len(dst) {
		n, err := base64.StdEncoding.Decode(dst, src)
		if err != nil {
			return 0, filter.Corrupt("%w", err)
		}
		return n, nil
	}
	return decodeTight(dst, src)
}

// decodeTight decodes into a dst that may be just large enough for the result.
func decodeTight(dst, src []byte) (int, error) {
	var quad [4]byte
	var out [3]byte
	at, k := 0, 0
	ended := false
	for _, c := range src {
		if c == '\n' || c == '\r' {
			continue
		}
		if ended {
			return 0, filter.Corrupt("the input has data after the end")
		}
		quad[k] = c
		if k++; k < 4 {
			continue
		}
		k = 0
		n, err := base64.StdEncoding.Decode(out[:], quad[:])
		if err != nil {
			return 0, filter.Corrupt("%w", err)
		}
		if n > len(dst)-at {
			return 0, filter.Short(dst)
		}
		at += copy(dst[at:], out[:n])
		ended = n < 3
	}
	if k != 0 {
		return 0, filter.Corrupt("the input ends inside a group of four characters")
	}
	return at, nil
}
