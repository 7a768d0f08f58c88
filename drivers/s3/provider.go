package s3

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// provider returns the credentials of a client. It returns a failure to find
// credentials as an authError. The SDK reads files and variables only once, but another
// program may replace them while this one runs. When a server rejects the current
// credentials, provider therefore searches for new ones.
type provider struct {
	key       clientKey
	searching chan struct{} // holds an element during a search for new credentials

	mu    sync.Mutex // never held during a call to inner
	inner aws.CredentialsProvider
	times int // number of times that new credentials were found
	begun int // number of searches started
	ended int // ordinal of the last search that completed
}

// authError is a failure to find credentials. It occurs before a request is sent to the
// store.
type authError struct{ err error }

func (e *authError) Error() string { return e.err.Error() }
func (e *authError) Unwrap() error { return e.err }

// current returns the current source of credentials and its number.
func (p *provider) current() (aws.CredentialsProvider, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inner, p.times
}

// Retrieve implements aws.CredentialsProvider.
func (p *provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	inner, _ := p.current()
	if inner == nil {
		return aws.Credentials{}, &authError{errNoSource}
	}
	c, err := inner.Retrieve(ctx)
	if err != nil {
		return c, &authError{err}
	}
	return c, nil
}

// renewed reports whether the source of credentials is newer than source number before.
// Unless another search has completed since the call began, it first searches for new
// credentials. It waits no longer than ctx allows.
func (p *provider) renewed(ctx context.Context, before int) bool {
	p.mu.Lock()
	earlier := p.begun
	p.mu.Unlock()
	select {
	case p.searching <- struct{}{}:
		defer func() { <-p.searching }()
	case <-ctx.Done():
		return false
	}
	p.mu.Lock()
	old, renewed, known := p.inner, p.times != before, p.ended > earlier
	if !renewed && !known {
		p.begun++
	}
	p.mu.Unlock()
	if renewed || known {
		return renewed
	}
	found := newSource(ctx, p.key, old)
	p.mu.Lock()
	defer p.mu.Unlock()
	if found != nil {
		p.inner = found
		p.times++
	}
	if found != nil || ctx.Err() == nil { // an interrupted search has no result
		p.ended = p.begun
	}
	return found != nil
}

// newSource returns a source of credentials that differ from those of old, or nil.
func newSource(ctx context.Context, key clientKey, old aws.CredentialsProvider) aws.CredentialsProvider {
	cfg, err := awsconfig.LoadDefaultConfig(ctx, loadOptions(key)...)
	if err != nil || cfg.Credentials == nil {
		return nil
	}
	was, err1 := old.Retrieve(ctx)
	is, err2 := cfg.Credentials.Retrieve(ctx)
	same := was.AccessKeyID == is.AccessKeyID && was.SecretAccessKey == is.SecretAccessKey && was.SessionToken == is.SessionToken
	if err1 != nil || err2 != nil || same {
		return nil
	}
	return cfg.Credentials
}

// addTo adds a step that sends a request a second time if the server rejected its
// credentials and new ones exist. The server has not carried out a rejected request.
func (p *provider) addTo(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("nczarrRenewCredentials",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			req, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return next.HandleFinalize(ctx, in)
			}
			_, source := p.current()
			in.Request = req.Clone() // later steps modify the request
			out, meta, err := next.HandleFinalize(ctx, in)
			if code, _ := apiError(err); !expired(code) || !p.renewed(ctx, source) || req.RewindStream() != nil {
				return out, meta, err
			}
			in.Request = req.Clone()
			return next.HandleFinalize(ctx, in)
		}), "ResolveAuthScheme", middleware.Before)
}

// expired reports whether a code means that credentials are expired or unknown, as
// opposed to malformed.
//
// Source: Amazon S3 API Reference, "Error responses".
func expired(code string) bool {
	switch code {
	case "ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId":
		return true
	}
	return false
}
