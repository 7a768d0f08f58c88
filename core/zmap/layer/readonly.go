package layer

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

type readOnly struct{ driver.Map }

// ReadOnly returns a Map that refuses Put and Delete with ncerr.ErrReadOnly. Its Flush
// only checks the context.
func ReadOnly(m driver.Map) driver.Map {
	return withGetMany(readOnly{m}, m, func(many driver.GetManyer) getMany { return many.GetMany })
}

func (readOnly) Put(context.Context, string, driver.Body, *driver.PutOptions) (driver.Info, error) {
	return driver.Info{}, ncerr.ErrReadOnly
}

func (readOnly) Delete(context.Context, string, *driver.DeleteOptions) error {
	return ncerr.ErrReadOnly
}

func (readOnly) Flush(ctx context.Context) error { return ctx.Err() }
