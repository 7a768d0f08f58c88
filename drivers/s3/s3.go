package s3

import (
	"context"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// New returns the opener of the driver "s3". It is safe for concurrent use. The SDK is
// configured when the first store is opened; stores with the same server and options
// share connections and credentials.
//
// The Path of a spec is bucket[/key], and its Endpoint is the server. A store exists if
// its key has at least one object below it; Create and Remove delete all objects below
// it. Create is not atomic: a process that dies halfway leaves a part of the old store.
// Create does not prevent another process from creating the same store; core/dataset
// prevents this with a claim.
//
// If the response to a Put with a condition is lost (a broken connection, a server
// error), the driver checks the outcome. Such a Put stores an id in the object's
// metadata (see WriteID); an object with that id proves that the Put succeeded.
// Otherwise the outcome is unknown, and Put returns ncerr.ErrAmbiguous.
//
// Objects larger than the option multipart_threshold are uploaded in parts and become
// visible when the last part has arrived.
func New() driver.Opener { return &opener{clients: make(map[clientKey]*client)} }

// WriteID is the name of the user metadata (x-amz-meta-nczarr-write) that holds the id
// of a conditional write.
const WriteID = "nczarr-write"

type opener struct {
	mu      sync.Mutex
	clients map[clientKey]*client
}

var (
	_ driver.Opener  = (*opener)(nil)
	_ driver.Granter = (*opener)(nil)
)

// Describe implements driver.Opener.
func (*opener) Describe() driver.Description {
	return driver.Description{
		Name:    "s3",
		Summary: "a bucket of Amazon S3, Google Cloud Storage or any S3-compatible server",
		Options: options(), Grants: grants("network"), Siblings: true,
		Locality: driver.OnServer, Nested: true, Schemes: []string{"s3", "gs3"},
	}
}

// Open implements driver.Opener. Modes Read and Update send no request: the first
// access shows whether the store exists. Every method returns ncerr.ErrNoDataset if the
// bucket does not exist.
func (o *opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.connect(ctx, spec)
	if err != nil {
		return nil, ncerr.Wrap("open", spec.Path, err)
	}
	if err := m.begin(ctx, spec.Mode); err != nil {
		o.release(m.client)
		return nil, ncerr.Wrap("open", spec.Path, err)
	}
	return m, nil
}

// Remove implements driver.Opener.
func (o *opener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	spec.Mode = driver.Update
	m, err := o.connect(ctx, spec)
	if err != nil {
		return ncerr.Wrap("remove", spec.Path, err)
	}
	defer o.release(m.client)
	n, err := m.clear(ctx)
	if err == nil && n == 0 {
		err = ncerr.ErrNoDataset
	}
	return ncerr.Wrap("remove", spec.Path, err)
}

// connect returns a Map without sending a request.
func (o *opener) connect(ctx context.Context, spec driver.OpenSpec) (*bucketMap, error) {
	cfg, err := readConfig(spec.Options)
	if err != nil {
		return nil, err
	}
	at, err := readPlace(spec, cfg)
	if err != nil {
		return nil, err
	}
	c, err := o.acquire(ctx, at, cfg)
	if err != nil {
		return nil, err
	}
	m := &bucketMap{opener: o, client: c, api: c.api, at: at, cfg: cfg, mode: spec.Mode}
	m.conditional = !strings.HasSuffix(at.endpoint, "://storage.googleapis.com")
	if cfg.Conditional != nil {
		m.conditional = *cfg.Conditional
	}
	return m, nil
}

// bucketMap is one open store.
type bucketMap struct {
	driver.Base
	opener      *opener
	client      *client
	api         *s3.Client
	at          place
	cfg         config
	mode        driver.Mode
	conditional bool
}

var _ driver.Map = (*bucketMap)(nil)

// begin prepares the store for the mode. In modes Read and Update it does not check
// whether the store exists, because that would require a request.
func (m *bucketMap) begin(ctx context.Context, mode driver.Mode) error {
	switch mode {
	case driver.Create:
		_, err := m.clear(ctx)
		return err
	case driver.CreateExclusive:
		there, err := m.any(ctx)
		if err == nil && there {
			err = ncerr.ErrExists
		}
		return err
	}
	return nil
}

// Capabilities implements driver.Map.
func (m *bucketMap) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Ranges: true, List: true, Write: m.mode.Writable(), Delete: m.mode.Writable(),
		IfAbsent: m.conditional && m.mode.Writable(), IfMatch: m.conditional,
		RecursiveList: true, OrderedList: true, Durable: driver.OnPut,
		MaxKey: maxKey - len(m.at.prefix), MaxObject: maxObject, Latency: driver.Remote,
	}
}

// Close implements driver.Map.
func (m *bucketMap) Close(context.Context) error {
	m.opener.release(m.client)
	return nil
}

// name returns the key of an object in the bucket.
func (m *bucketMap) name(key string) *string {
	full := m.at.prefix + key
	return &full
}

func (m *bucketMap) mayWrite() error {
	if !m.mode.Writable() {
		return ncerr.ErrReadOnly
	}
	return nil
}
