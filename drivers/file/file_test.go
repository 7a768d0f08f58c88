package file_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// target gives every check a directory of its own.
func target(t *testing.T, options string) *mapsuite.Target {
	t.Helper()
	var n atomic.Int64
	dir := t.TempDir()
	return &mapsuite.Target{Opener: file.New(), NewSpec: func() (driver.OpenSpec, func(), error) {
		path := filepath.Join(dir, fmt.Sprint(n.Add(1)), "store")
		return driver.OpenSpec{Path: path, Options: []byte(options)}, nil, nil
	}}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Test(t, mapsuite.Suite(), target(t, ""))
}

func TestConformanceSynced(t *testing.T) {
	t.Parallel()
	conformance.TestWith(t, mapsuite.Suite(), target(t, `{"durability":"fsync"}`), &conformance.Options{
		Select: []string{"map.put.*", "map.open.*", "map.delete.*"},
	})
}
