// Package teststore gives tests of formats the stores that they write to:
// memory as a rule, and a bucket of a real S3 server where NCZARR_TEST_STORE
// is "s3". So every test of what datasets are like is a test of what they are
// like on S3, too:
//
//	func TestMain(m *testing.M) { os.Exit(teststore.Run(m)) }
//
//	reg := nczarr.NewRegistry([]driver.Opener{teststore.New()})
//	ds, err := nczarr.Create(ctx, "mem:a", ...)
//
// A test of something that memory alone has (how many goroutines or bytes a
// call takes, a fault of the store's own) uses core/zmap/memmap itself, and is
// then the same test in both cases.
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

// storeVar says where the stores are: empty or "mem", or "s3".
const storeVar = "NCZARR_TEST_STORE"

// bucketVar passes the place of the stores from Run to New, as server/bucket.
const bucketVar = "NCZARR_TEST_STORE_BUCKET"

// checks is how many cases a property is tried with on a server.
const checks = "5"

// Tests is what Run needs of a *testing.M.
type Tests interface{ Run() int }

// Run runs the tests of a package and gives their exit code. Where the stores
// are on S3 it starts a server for them, without which it fails: who asks for
// it means it.
func Run(m Tests) int {
	switch at := os.Getenv(storeVar); at {
	case "", "mem":
		return m.Run()
	case "s3":
	default:
		fmt.Fprintf(os.Stderr, "%s is %q: mem and s3 are possible\n", storeVar, at)
		return 2
	}
	code, err := runOnS3(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the S3 server of the tests:", err)
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

// shared is one opener for all, so that they share connections.
var shared = sync.OnceValue(s3.New)

// OnServer reports whether the stores are on a server, where a test may try
// fewer of the cases that differ in what is done after reading.
func OnServer() bool { return os.Getenv(bucketVar) != "" }

// New gives an opener without stores. Its name is "mem", wherever its stores
// are; they are there as long as the tests of the package run.
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
	d.Name = "mem"
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

// at gives a spec its place; no store lies in another.
func (b *bucket) at(spec driver.OpenSpec) driver.OpenSpec {
	spec.Endpoint, spec.Path = b.endpoint, b.prefix+url.QueryEscape(spec.Path)
	return spec
}
