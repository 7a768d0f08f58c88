package s3_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// patient adds retries to the driver, as all users of the driver do. The test server
// stores objects in directories, so the deletion of a neighboring object may cause
// temporary errors.
type patient struct{ driver.Opener }

func (p patient) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := p.Opener.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return layer.Retry(steady{m}, &layer.RetryOptions{Base: time.Millisecond, Attempts: 20}), nil
}

// steady also repeats conditional writes that certainly failed: the server may return
// 500 if many uploads of one key complete at the same time.
type steady struct{ driver.Map }

func (s steady) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (info driver.Info, err error) {
	for range 20 {
		info, err = s.Map.Put(ctx, key, body, opts)
		if again, _ := ncerr.Retry(err); err == nil || !again || ncerr.KindOf(err) != ncerr.ErrIO || !opts.IfAbsent && opts.IfMatch == "" {
			break
		}
	}
	return info, err
}

// buckets counts the buckets of all servers. Their names must differ, because virtual
// hosts share one proxy.
var buckets atomic.Int64

// timing matches the checks of calls that are concurrent, canceled or made during a listing.
var timing = regexp.MustCompile(`^map\.(concurrent|cancel)\.|\.(race|beside)$|^map\.put\.many\.cancel$`)

// TestConformance runs the suite on a real server, in this process and in a separate
// one, below a prefix and in whole buckets, in both addressing styles, and with small
// pages and many parts. By default every pair of these settings is tested; NCZARR_FULL
// enables all combinations. Creating thousands of objects to list them takes most of
// the time, so only one case does it. The addressing changes only the URL and the
// signature of a request, so by default the checks of timing do not run in that style.
func TestConformance(t *testing.T) {
	t.Parallel()
	longNames := map[string]string{"map.keys.long-names": "the server's file system does not support long names, and the server fails during a multipart upload of such a key"}
	virtual := map[string]any{"addressing": "virtual"}
	for name, tc := range map[string]struct {
		process bool // run the driver in a separate process
		whole   bool // the store is a whole bucket
		many    bool // run the checks with thousands of objects or calls
		full    bool // run only if NCZARR_FULL is set
		options map[string]any
		disable map[string]string
	}{
		"path":                   {many: true},
		"path/process":           {process: true, full: true},
		"path bucket":            {whole: true, full: true},
		"path bucket/process":    {whole: true, process: true},
		"virtual":                {options: virtual, full: true},
		"virtual/process":        {options: virtual, process: true},
		"virtual bucket":         {options: virtual, whole: true},
		"virtual bucket/process": {options: virtual, whole: true, process: true, full: true},
		"parts":                  {options: map[string]any{"multipart_threshold": 1000, "part_size": "5MiB", "page_size": 7}, disable: longNames},
	} {
		if tc.full && os.Getenv("NCZARR_FULL") != "1" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, opener, suite := s3server.Start(t), s3.New(), mapsuite.Suite()
			if tc.process {
				opener = remote(t)
			}
			effort := conformance.Brief
			if tc.many {
				effort = conformance.Normal
			} else {
				suite.Checks = slices.DeleteFunc(suite.Checks, func(c mapsuite.Check) bool {
					return c.ID == "map.list.many" || tc.options["addressing"] == "virtual" && os.Getenv("NCZARR_FULL") != "1" && timing.MatchString(c.ID)
				})
			}
			conformance.TestWith(t, suite, &mapsuite.Target{
				Opener: patient{opener}, Blind: true,
				NewSpec: func() (driver.OpenSpec, func(), error) { return newPlace(t.Context(), srv, tc.whole, tc.options) },
			}, &conformance.Options{Limit: 5 * time.Minute, Effort: effort, Disable: tc.disable})
		})
	}
}

// newPlace returns the location for a new store: a new bucket, or a new prefix of the
// server's bucket. In virtual-host style every location has its own bucket, and so its
// own host.
func newPlace(ctx context.Context, srv *s3server.Server, whole bool, options map[string]any) (driver.OpenSpec, func(), error) {
	endpoint, bucket, virtual := srv.Endpoint, srv.Bucket, options["addressing"] == "virtual"
	if whole || virtual {
		bucket = fmt.Sprintf("bucket-%d", buckets.Add(1))
		if err := srv.MakeBucket(ctx, bucket); err != nil {
			return driver.OpenSpec{}, nil, err
		}
	}
	if virtual {
		endpoint = "http://" + s3server.VirtualDomain
		proxies.add(bucket, srv.Endpoint)
	}
	spec := specOn(endpoint, bucket, options)
	if whole {
		spec.Path, _, _ = strings.Cut(spec.Path, "/")
	}
	return spec, nil, nil
}
