package host

import (
	"context"
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// localOpener adds configured default options to a driver in this process.
type localOpener struct {
	driver.Opener
	defaults json.RawMessage
}

var _ driver.Opener = (*localOpener)(nil)

// Open implements driver.Opener.
func (o *localOpener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	options, err := mergeOptions(o.defaults, spec.Options)
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "open", spec.Path, err)
	}
	spec.Options = options
	return o.Opener.Open(ctx, spec)
}

// Remove implements driver.Opener.
func (o *localOpener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	options, err := mergeOptions(o.defaults, spec.Options)
	if err != nil {
		return ncerr.New(ncerr.ErrInvalid, "remove", spec.Path, err)
	}
	spec.Options = options
	return o.Opener.Remove(ctx, spec)
}
