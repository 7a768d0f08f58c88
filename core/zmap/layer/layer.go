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
//
// driver.PutManyer passes through Log, Count and Measure, which report each of
// its writes as a put. The other layers do not have it: the portable Map makes
// the puts one by one, so that each is repeated, limited, timed, refused or
// failed like any other.
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

// putMany is the signature of driver.PutManyer's method.
type putMany func(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error

// putsMap adds PutMany to a layer.
type putsMap struct {
	driver.Map
	putMany putMany
}

func (m putsMap) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	return m.putMany(ctx, reqs, sink)
}

// bothMap adds GetMany and PutMany.
type bothMap struct {
	manyMap
	putMany putMany
}

func (m bothMap) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	return m.putMany(ctx, reqs, sink)
}

// withPuts gives the layer l the fast path for writes when the Map below it has one.
func withPuts(l, below driver.Map, make func(driver.PutManyer) putMany) driver.Map {
	puts, ok := below.(driver.PutManyer)
	if !ok {
		return l
	}
	if many, ok := l.(manyMap); ok {
		return bothMap{manyMap: many, putMany: make(puts)}
	}
	return putsMap{Map: l, putMany: make(puts)}
}

// with gives the layer l the fast path when the Map below it has one.
func with(l, below driver.Map, make func(driver.GetManyer) getMany) driver.Map {
	if many, ok := below.(driver.GetManyer); ok {
		return manyMap{Map: l, getMany: make(many)}
	}
	return l
}
