package zip_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opener  driver.Opener
		options string
	}{
		"default":  {zip.New(), ``},
		"prefix":   {zip.New(), `{"prefix": "data set"}`},
		"deflated": {zip.New(), `{"deflate": 6}`},
		"spilled":  {zip.New(), `{"spill": 0}`},
		"durable":  {zip.New(), `{"durability": "fsync", "spill": "2KiB"}`},
		"closing":  {zip.NewClosing(), ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var n atomic.Int64
			effort := conformance.Brief // brief, because the options affect only some checks
			if name == "default" {
				effort = conformance.Normal
			}
			conformance.TestWith(t, mapsuite.Suite(), &mapsuite.Target{Opener: tc.opener, NewSpec: func() (driver.OpenSpec, func(), error) {
				path := filepath.Join(dir, fmt.Sprint("store", n.Add(1), ".zip"))
				return driver.OpenSpec{Path: path, Options: []byte(tc.options)}, nil, nil
			}}, &conformance.Options{Effort: effort})
			wantOnlyZips(t, dir)
		})
	}
}
