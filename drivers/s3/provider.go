package s3

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// provider gives the credentials of a client. It marks failures to find any,
// which the SDK does not, and looks for others when a server takes them no
// more: the SDK reads those of files and variables once, though another program
// may put new ones there long before this one ends.
type provider struct {
	key     clientKey
	looking chan struct{} // has an element while somebody looks for others

	mu    sync.Mutex // never held while anybody is asked
	inner aws.CredentialsProvider
	times int // how often others were found
	begun int // how often somebody began to look,
	ended int // and which time was the last that came to an end
}

func newProvider(key clientKey, inner aws.CredentialsProvider) *provider {
	return &provider{key: key, looking: make(chan struct{}, 1), inner: inner}
}

// authError is a failure to find credentials: nothing has been sent to the store.
type authError struct{ err error }

func (e *authError) Error() string { return e.err.Error() }
func (e *authError) Unwrap() error { return e.err }

// current gives where credentials come from, and which source that is.
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

// renewed reports whether there are others now than those of the source that
// had the number before, and looks for them unless somebody has done so since
// it was called. It waits for nobody longer than ctx lasts.
func (p *provider) renewed(ctx context.Context, before int) bool {
	p.mu.Lock()
	earlier := p.begun
	p.mu.Unlock()
	select {
	case p.looking <- struct{}{}:
		defer func() { <-p.looking }()
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
	found := others(ctx, p.key, old)
	p.mu.Lock()
	defer p.mu.Unlock()
	if found != nil {
		p.inner = found
		p.times++
	}
	if found != nil || ctx.Err() == nil { // a search that was broken off tells the others nothing
		p.ended = p.begun
	}
	return found != nil
}

// others gives a source of other credentials than those of old, nil when there
// is none.
func others(ctx context.Context, key clientKey, old aws.CredentialsProvider) aws.CredentialsProvider {
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

// addTo has a request sent again, once, that was refused for its credentials
// when there are others: the server has not done it.
func (p *provider) addTo(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("nczarrRenewCredentials",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			req, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return next.HandleFinalize(ctx, in)
			}
			_, source := p.current()
			in.Request = req.Clone() // the steps below write into it
			out, meta, err := next.HandleFinalize(ctx, in)
			if code, _ := apiError(err); !outworn(code) || !p.renewed(ctx, source) || req.RewindStream() != nil {
				return out, meta, err
			}
			in.Request = req.Clone()
			return next.HandleFinalize(ctx, in)
		}), "ResolveAuthScheme", middleware.Before)
}

// outworn reports whether a code says that credentials are not, or no longer,
// good, as opposed to wrong in themselves.
//
// Source: Amazon S3 API Reference, "Error responses".
func outworn(code string) bool {
	switch code {
	case "ExpiredToken", "TokenRefreshRequired", "InvalidToken", "InvalidAccessKeyId":
		return true
	}
	return false
}
