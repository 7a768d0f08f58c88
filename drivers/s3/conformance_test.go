package s3_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// patient puts the repetition around the driver that all users of it have:
// while a neighbour is deleted the server's directories may be in the way for a
// moment.
type patient struct{ driver.Opener }

func (p patient) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := p.Opener.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return layer.Retry(m, &layer.RetryOptions{Base: time.Millisecond, Attempts: 20}), nil
}

// TestConformance runs the suite on a real server: below a prefix and in whole
// buckets, in both styles, and with small pages and many parts.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]map[string]any{
		"path":    {},
		"virtual": {"addressing": "virtual"},
		"parts":   {"multipart_threshold": 1000, "part_size": "5MiB", "page_size": 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := s3server.Start(t)
			endpoint := srv.Endpoint
			if name == "virtual" {
				endpoint = "http://" + s3server.VirtualDomain
				if err := srv.MakeBucket(t.Context(), "virtual-bucket"); err != nil {
					t.Fatal(err)
				}
				srv.Bucket = "virtual-bucket"
				proxies.add(srv.Bucket, srv.Endpoint)
			}
			conformance.Test(t, mapsuite.Suite(), &mapsuite.Target{Opener: patient{s3.New()}, Blind: true, NewSpec: func() (driver.OpenSpec, func(), error) {
				return specOn(endpoint, srv.Bucket, options), nil, nil
			}})
		})
	}
}
