// Package layer provides decorators for storage drivers. Each wraps a driver.Map in
// another driver.Map with one additional behavior. All satisfy the contract of
// core/zmap/driver, so they can be stacked in any order below the portable Map of
// core/zmap:
//
//	m = layer.Limit(m, 32)
//	m = layer.Retry(m, nil)
//	z := zmap.New(layer.Log(m, logger), nil)
//
// Other packages do not retry failed calls. Unless documented otherwise, a layer
// implements driver.GetManyer if and only if the Map below it does, and declares the
// same capabilities. Close closes the Map below.
//
// Log, Count and Measure implement driver.PutManyer if the Map below does, and report
// each write of a PutMany as a put. The other layers do not implement it: the portable
// Map then calls Put for each request, so that each is retried, limited, timed, refused
// or made to fail separately.
//
// No layer implements driver.BodyLender. After Deadline has ended an attempt and Retry has
// repeated it, the driver may still read the body of the first attempt when the caller fills the
// memory again. Without lent memory, the driver has a copy by then.
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

// bothMap adds GetMany and PutMany to a layer.
type bothMap struct {
	manyMap
	putMany putMany
}

func (m bothMap) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	return m.putMany(ctx, reqs, sink)
}

// withPutMany adds PutMany to the layer l if the Map below has it.
func withPutMany(l, below driver.Map, make func(driver.PutManyer) putMany) driver.Map {
	puts, ok := below.(driver.PutManyer)
	if !ok {
		return l
	}
	if many, ok := l.(manyMap); ok {
		return bothMap{manyMap: many, putMany: make(puts)}
	}
	return putsMap{Map: l, putMany: make(puts)}
}

// withGetMany adds GetMany to the layer l if the Map below has it.
func withGetMany(l, below driver.Map, make func(driver.GetManyer) getMany) driver.Map {
	if many, ok := below.(driver.GetManyer); ok {
		return manyMap{Map: l, getMany: make(many)}
	}
	return l
}
