// Package bz2 is the filter "bz2", for decoding only. It imports
// core/codec/driver; core/codec calls it.
package bz2

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"io"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

// ID is the numcodecs id.
const ID = "bz2"

// Codec decodes. It is safe for concurrent use; Encode is
// ncerr.ErrUnsupported, errors of Decode are ncerr.ErrCorrupt and
// ncerr.ErrShortBuffer.
type Codec struct{}

var _ driver.Codec = Codec{}

// Provider gives the filter.
func Provider() driver.Provider {
	return &filter.Single{
		Desc: driver.Description{
			ID: ID, V3: "numcodecs.bz2", HDF5: 307, Decode: true,
			Summary: "bzip2 compression, decoding only",
		},
		OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			p.Int("level", 1, 1, 9)
			return Codec{}, filter.Blob(in, in.MaxBytes+in.MaxBytes/50+1024), nil
		},
	}
}

// Encode is not supported.
func (Codec) Encode(context.Context, []byte, []byte) (int, error) {
	return 0, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "bz2 is decoded only; use zlib or zstd")
}

// Decode decodes one or more streams.
func (Codec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	r := bzip2.NewReader(bytes.NewReader(src))
	n := 0
	for n < len(dst) {
		k, err := r.Read(dst[n:])
		n += k
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, filter.Corrupt("%w", err)
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	var more [1]byte
	switch k, err := io.ReadFull(r, more[:]); {
	case k > 0:
		return 0, filter.Short(dst)
	case !errors.Is(err, io.EOF):
		return 0, filter.Corrupt("%w", err)
	}
	return n, nil
}
