package layer

import (
	"context"
	"iter"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// limit holds one token in its channel for each call in flight.
type limit struct {
	driver.Map
	slots chan struct{}
}

// Limit lets at most n calls be in flight at once, n at least 1; others wait
// until their turn or the end of their context. A GetMany counts as one call,
// so its sink must not call the Map. A listing counts while it looks for its
// next entry, not while that is used.
func Limit(m driver.Map, n int) driver.Map {
	l := &limit{Map: m, slots: make(chan struct{}, max(n, 1))}
	return with(l, m, func(many driver.GetManyer) getMany {
		return func(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
			if err := l.acquire(ctx); err != nil {
				return err
			}
			defer l.release()
			return many.GetMany(ctx, reqs, sink)
		}
	})
}

func (l *limit) acquire(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *limit) release() { <-l.slots }

func (l *limit) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if err := l.acquire(ctx); err != nil {
		return nil, driver.Info{}, err
	}
	defer l.release()
	return l.Map.Get(ctx, key, opts, alloc)
}

func (l *limit) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := l.acquire(ctx); err != nil {
		return driver.Info{}, err
	}
	defer l.release()
	return l.Map.Stat(ctx, key)
}

func (l *limit) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if err := l.acquire(ctx); err != nil {
		return driver.Info{}, err
	}
	defer l.release()
	return l.Map.Put(ctx, key, body, opts)
}

func (l *limit) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	return l.Map.Delete(ctx, key, opts)
}

func (l *limit) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := l.acquire(ctx); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		held := true
		defer func() {
			if held {
				l.release()
			}
		}()
		for e, err := range l.Map.List(ctx, prefix, opts) {
			l.release()
			held = false
			if !yield(e, err) || err != nil {
				return
			}
			if err := l.acquire(ctx); err != nil {
				yield(driver.Entry{}, err)
				return
			}
			held = true
		}
	}
}

func (l *limit) Flush(ctx context.Context) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	return l.Map.Flush(ctx)
}
