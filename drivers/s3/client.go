package s3

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// clientKey holds the settings that determine a client.
type clientKey struct {
	endpoint, region, profile string
	unsigned, virtual         bool
	connections               int
	reach                     web.Reach
}

// client is the SDK's client for one server. Stores with the same settings share a
// client.
type client struct {
	key       clientKey
	api       *s3.Client
	transport *web.Transport
	users     int // guarded by opener.mu
}

// idleClients is the number of clients above which release discards a client without
// users. Clients that are kept retain their cached credentials.
const idleClients = 16

// acquire returns the client for a place. The caller must call [opener.release] when it
// no longer uses the client.
func (o *opener) acquire(ctx context.Context, at place, cfg config) (*client, error) {
	key := clientKey{
		endpoint: at.endpoint, region: cfg.Region, profile: cfg.Profile, unsigned: cfg.Unsigned,
		virtual: cfg.Addressing == "virtual", connections: cfg.Connections, reach: web.Reach(cfg.Reach),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.clients[key]
	if c == nil {
		var err error
		if c, err = newClient(ctx, key); err != nil {
			return nil, err
		}
		o.clients[key] = c
	}
	c.users++
	return c, nil
}

// release ends one use of a client. After the last use it closes the idle connections.
func (o *opener) release(c *client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	c.transport.CloseIdleConnections()
	if len(o.clients) > idleClients {
		delete(o.clients, c.key)
	}
}

// newClient reads the AWS configuration, without sending a request, and configures the
// SDK.
func newClient(ctx context.Context, key clientKey) (*client, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, loadOptions(key)...)
	if err != nil {
		if own := ctx.Err(); own != nil {
			return nil, own
		}
		return nil, ncerr.New(ncerr.ErrAuth, "", "", &plain{fmt.Sprintf("load the AWS configuration: %v", err)})
	}
	region := key.region
	if region == "" {
		if region = cfg.Region; region == "" {
			region = anyRegion
		}
	}
	transport, err := web.New(web.Options{RootCAs: rootCAs(cfg.HTTPClient), Connections: key.connections, Reach: key.reach})
	if err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "", "", err)
	}
	c := &client{key: key, transport: transport}
	creds := aws.CredentialsProvider(aws.AnonymousCredentials{})
	var renewing []func(*middleware.Stack) error
	if !key.unsigned {
		// cfg.Credentials caches the credentials.
		p := &provider{key: key, searching: make(chan struct{}, 1), inner: cfg.Credentials}
		creds, renewing = p, append(renewing, p.addTo)
	}
	cfg.HTTPClient = &http.Client{
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.api = s3.NewFromConfig(cfg, func(so *s3.Options) {
		so.Region, so.BaseEndpoint, so.UsePathStyle = region, &key.endpoint, !key.virtual
		so.Credentials = creds
		so.Retryer, so.RetryMaxAttempts = aws.NopRetryer{}, 1
		so.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		so.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		so.DisableLogOutputChecksumValidationSkipped = true
		so.DisableClockSkewCorrection = true // the time of an old response would make the next signature too old
		so.ContinueHeaderThresholdBytes = -1 // "Expect: 100-continue" adds a round trip
		so.Logger, so.ClientLogMode = logging.Nop{}, 0
		so.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateDisabled // the endpoint is complete
		so.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateDisabled
		so.APIOptions = append(append(so.APIOptions, unsignedEncoding), renewing...)
		if strings.HasPrefix(key.endpoint, "https://") {
			// TLS protects the body, and the CRC32C header detects damage, so the
			// SHA-256 of the body is omitted.
			so.APIOptions = append(so.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
		}
	})
	return c, nil
}

// unsignedEncoding excludes the Accept-Encoding header from the signature. Intermediate
// servers, including Google's, change it, which invalidates a signature that covers it.
func unsignedEncoding(stack *middleware.Stack) error {
	const name = "Accept-Encoding"
	step := func(id string, change func(h http.Header)) middleware.FinalizeMiddleware {
		return middleware.FinalizeMiddlewareFunc(id,
			func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
				if req, ok := in.Request.(*smithyhttp.Request); ok {
					change(req.Header)
				}
				return next.HandleFinalize(ctx, in)
			})
	}
	return errors.Join(
		stack.Finalize.Insert(step("nczarrTakeEncoding", func(h http.Header) { h.Del(name) }), "Signing", middleware.Before),
		stack.Finalize.Insert(step("nczarrSetEncoding", func(h http.Header) { h.Set(name, "identity") }), "Signing", middleware.After),
	)
}

// loadOptions returns the options for loading the AWS configuration. An explicitly
// named profile is the only source of credentials; otherwise the SDK's order applies.
func loadOptions(key clientKey) []func(*awsconfig.LoadOptions) error {
	opts := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithLogger(logging.Nop{}),
	}
	if key.unsigned {
		opts = append(opts, awsconfig.WithCredentialsProvider(aws.AnonymousCredentials{}))
	} else if key.profile != "" {
		opts = append(opts, awsconfig.WithSharedConfigProfile(key.profile))
	}
	if dir := os.Getenv("NC_TEST_AWS_DIR"); dir != "" {
		if os.Getenv("AWS_CONFIG_FILE") == "" {
			opts = append(opts, awsconfig.WithSharedConfigFiles([]string{filepath.Join(dir, ".aws", "config")}))
		}
		if os.Getenv("AWS_SHARED_CREDENTIALS_FILE") == "" {
			opts = append(opts, awsconfig.WithSharedCredentialsFiles([]string{filepath.Join(dir, ".aws", "credentials")}))
		}
	}
	return opts
}

// rootCAs returns the certificates of AWS_CA_BUNDLE or ca_bundle, which the SDK sets in
// its own HTTP client, or nil for the system's.
func rootCAs(configured aws.HTTPClient) *x509.CertPool {
	if b, ok := configured.(*awshttp.BuildableClient); ok {
		if c := b.GetTransport().TLSClientConfig; c != nil {
			return c.RootCAs
		}
	}
	return nil
}
