// Package teststore provides the stores that tests of formats write to: memory by
// default, or a bucket of a real S3 server if NCZARR_TEST_STORE is "s3". Every test of
// a format can thus also run on S3:
//
//	func TestMain(m *testing.M) { os.Exit(teststore.Run(m)) }
//
//	reg := registry.New([]driver.Opener{teststore.New()})
//	ds, err := open.Create(ctx, "mem:a", ...)
//
// A test of properties of the memory store (the number of goroutines or bytes that a
// call takes, an injected fault) uses core/zmap/memmap directly and is the same test in
// both cases.
//
// Only tests import this package.
package teststore

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// storeVar is the environment variable that selects the stores: empty or "mem", or
// "s3".
const storeVar = "NCZARR_TEST_STORE"

// bucketVar is the environment variable that passes the location of the stores from Run
// to New, as server/bucket.
const bucketVar = "NCZARR_TEST_STORE_BUCKET"

// checks is the number of cases that package rapid runs for each property when the
// stores are on a server.
const checks = "5"

// Tests is the part of *testing.M that Run needs.
type Tests interface{ Run() int }

// Run runs the tests of a package and returns their exit code. For stores on S3 it
// starts a server, and fails if it cannot.
func Run(m Tests) int {
	switch at := os.Getenv(storeVar); at {
	case "", "mem":
		return m.Run()
	case "s3":
	default:
		fmt.Fprintf(os.Stderr, "%s must be mem or s3, not %q\n", storeVar, at)
		return 2
	}
	code, err := runOnS3(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "S3 server for tests:", err)
		code = 2
	}
	return code
}

func runOnS3(m Tests) (code int, err error) {
	ctx := context.Background()
	binary, err := s3server.Binary(ctx)
	if err != nil {
		return 0, err
	}
	srv, stop, err := s3server.Run(ctx, binary)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, pair := range append(srv.Env(), bucketVar+"="+srv.Endpoint+"/"+srv.Bucket) {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	if f := flag.Lookup("rapid.checks"); f != nil {
		if err := f.Value.Set(checks); err != nil {
			return 0, err
		}
	}
	return m.Run(), nil
}

// shared returns the common opener, so that all stores share connections.
var shared = sync.OnceValue(s3.New)

// OnServer reports whether the stores are on a server. A test may then skip cases that
// differ only in what happens after reading.
func OnServer() bool { return os.Getenv(bucketVar) != "" }

// New returns an opener without stores. Its name is "mem" for both kinds of stores. Its
// stores exist until the tests of the package end.
func New() driver.Opener {
	place := os.Getenv(bucketVar)
	if place == "" {
		return memmap.NewOpener()
	}
	at := strings.LastIndexByte(place, '/')
	return &bucket{Opener: shared(), endpoint: place[:at], prefix: place[at+1:] + "/" + rand.Text() + "/"}
}

// bucket is an opener of stores below one prefix of a bucket.
type bucket struct {
	driver.Opener
	endpoint, prefix string
}

// Describe implements driver.Opener.
func (b *bucket) Describe() driver.Description {
	d := b.Opener.Describe()
	d.Name, d.Locality, d.Nested, d.Schemes = "mem", "", false, nil // as of the stores in memory
	for i := range d.Options {
		d.Options[i].From = ""
	}
	return d
}

// Open implements driver.Opener.
func (b *bucket) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	return b.Opener.Open(ctx, b.at(spec))
}

// Remove implements driver.Opener.
func (b *bucket) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return b.Opener.Remove(ctx, b.at(spec))
}

// at returns spec with the location in the bucket.
func (b *bucket) at(spec driver.OpenSpec) driver.OpenSpec {
	spec.Endpoint, spec.Path = b.endpoint, b.prefix+url.QueryEscape(spec.Path)
	return spec
}
