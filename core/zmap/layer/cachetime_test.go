package layer_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// etags is a store that reports the same version for every object, as S3 does for objects
// with the same content.
type etags struct {
	driver.Map
	modTime time.Time
}

func (e *etags) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	data, info, err := e.Map.Get(ctx, key, o, alloc)
	info.Version, info.ModTime = "same", e.modTime
	return data, info, err
}

func (e *etags) Stat(ctx context.Context, key string) (driver.Info, error) {
	info, err := e.Map.Stat(ctx, key)
	info.Version, info.ModTime = "same", e.modTime
	return info, err
}

// TestCacheModTime checks that content from the disk is returned with the current
// modification time of the object. A replacement with the same content may have the same
// version.
func TestCacheModTime(t *testing.T) {
	t.Parallel()
	e := &etags{Map: memmap.New(), modTime: time.Unix(1, 0)}
	if _, err := e.Put(t.Context(), "k", driver.Bytes("x"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	stats := new(layer.CacheStats)
	c, err := layer.Cache(e, layer.CacheOptions{Dir: t.TempDir(), Stats: stats})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		e.modTime = time.Unix(int64(i), 0)
		_, info, err := c.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
		if err != nil || !info.ModTime.Equal(e.modTime) {
			t.Errorf("want %v, got %v, %v", e.modTime, info.ModTime, err)
		}
	}
	if n := stats.Hits.Load(); n != 2 {
		t.Errorf("want 2 reads from the disk, got %d", n)
	}
}
