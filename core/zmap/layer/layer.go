// Package layer has decorators for storage drivers: each takes a driver.Map
// and gives a driver.Map that does one thing more. They keep the contract of
// core/zmap/driver, so that they can be stacked in any order, below the
// portable Map of core/zmap:
//
//	m = layer.Limit(m, 32)
//	m = layer.Retry(m, nil)
//	z := zmap.New(layer.Log(m, logger), nil)
//
// Retrying lives here and nowhere else. Every layer has the fast path
// driver.GetManyer exactly when the Map below it has, declares what that Map
// declares unless it says otherwise, and closes it.
package layer

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// getMany is the signature of driver.GetManyer's method.
type getMany func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error

// manyMap adds GetMany to a layer.
type manyMap struct {
	driver.Map
	getMany getMany
}

func (m manyMap) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	return m.getMany(ctx, reqs, sink)
}

// with gives the layer l the fast path when the Map below it has one.
func with(l, below driver.Map, make func(driver.GetManyer) getMany) driver.Map {
	if many, ok := below.(driver.GetManyer); ok {
		return manyMap{Map: l, getMany: make(many)}
	}
	return l
}
