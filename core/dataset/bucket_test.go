package dataset_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// buckets is a driver that has the name of the s3 driver and behaves like it: a store
// is a prefix in a bucket, and all servers share the buckets.
type buckets struct {
	mu    sync.Mutex
	named map[string]*memmap.Map
	// beforeChange is called before each change and may return an error to refuse it.
	beforeChange func(op, key string) error
}

func newBuckets() *buckets { return &buckets{named: map[string]*memmap.Map{}} }

func (*buckets) Describe() driver.Description {
	return driver.Description{Name: "s3", Siblings: true, Locality: driver.OnServer, Nested: true}
}

// bucket returns the objects of a bucket.
func (b *buckets) bucket(name string) *memmap.Map {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.named[name] == nil {
		b.named[name] = memmap.New()
	}
	return b.named[name]
}

func (b *buckets) at(spec driver.OpenSpec) *prefixed {
	name, key, _ := strings.Cut(spec.Path, "/")
	p := &prefixed{Map: b.bucket(name), b: b}
	if key != "" {
		p.prefix = key + "/"
	}
	return p
}

func (b *buckets) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	p := b.at(spec)
	switch spec.Mode {
	case driver.Create:
		return p, p.clear(ctx)
	case driver.CreateExclusive:
		for range p.List(ctx, "", &driver.ListOptions{}) {
			return nil, ncerr.ErrExists
		}
	}
	return p, nil
}

func (b *buckets) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return b.at(spec).clear(ctx)
}

// names returns all keys of a bucket.
func (b *buckets) names(name string) []string {
	var out []string
	for e, err := range b.bucket(name).List(context.Background(), "", &driver.ListOptions{Recursive: true}) {
		if err == nil {
			out = append(out, e.Key)
		}
	}
	return out
}

// prefixed is a store in a bucket.
type prefixed struct {
	*memmap.Map
	b      *buckets
	prefix string
}

func (p *prefixed) Capabilities() driver.Capabilities {
	c := p.Map.Capabilities()
	c.PrefixExclusive = false
	return c
}

func (p *prefixed) changes(op, key string) error {
	if p.b.beforeChange == nil {
		return nil
	}
	return p.b.beforeChange(op, p.prefix+key)
}

func (p *prefixed) clear(ctx context.Context) error {
	for e, err := range p.List(ctx, "", &driver.ListOptions{Recursive: true}) {
		if err == nil {
			err = p.Delete(ctx, e.Key, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *prefixed) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	return p.Map.Get(ctx, p.prefix+key, o, alloc)
}

func (p *prefixed) GetMany(ctx context.Context, reqs []driver.GetRequest, sink driver.GetSink) error {
	under := make([]driver.GetRequest, len(reqs))
	for i, r := range reqs {
		r.Key = p.prefix + r.Key
		under[i] = r
	}
	return p.Map.GetMany(ctx, under, sink)
}

func (p *prefixed) PutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	for i, r := range reqs {
		info, err := p.Put(ctx, r.Key, r.Body, &r.Opts)
		sink(i, info, err)
	}
	return nil
}

func (p *prefixed) Stat(ctx context.Context, key string) (driver.Info, error) {
	return p.Map.Stat(ctx, p.prefix+key)
}

func (p *prefixed) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if err := p.changes("put", key); err != nil {
		return driver.Info{}, err
	}
	info, err := p.Map.Put(ctx, p.prefix+key, body, o)
	info.ModTime = time.Time{} // the response of S3 to a put contains no time
	return info, err
}

func (p *prefixed) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if err := p.changes("delete", key); err != nil {
		return err
	}
	return p.Map.Delete(ctx, p.prefix+key, o)
}

func (p *prefixed) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	under := *o
	if o.StartAfter != "" {
		under.StartAfter = p.prefix + o.StartAfter
	}
	return func(yield func(driver.Entry, error) bool) {
		for e, err := range p.Map.List(ctx, p.prefix+prefix, &under) {
			e.Key = strings.TrimPrefix(e.Key, p.prefix)
			if !yield(e, err) {
				return
			}
		}
	}
}
