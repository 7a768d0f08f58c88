package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Failed gives the error of a request that brought no complete answer: the
// caller's own context error, or an ncerr.ErrIO without the URL, which may
// hold secrets. What another try may cure is Retryable: all but a name that
// does not exist, a certificate that is not trusted and a request that could
// not be made. An error that has a kind already keeps it.
func Failed(ctx context.Context, err error) error {
	if own := ctx.Err(); own != nil {
		return own
	}
	var known *ncerr.Error
	if errors.As(err, &known) {
		return known
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	e := ncerr.New(ncerr.ErrIO, "", "", plain{err})
	e.Retryable = true
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		x1   x509.UnknownAuthorityError
		x2   x509.HostnameError
		rec  tls.RecordHeaderError
	)
	if errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &cert) || errors.As(err, &x1) || errors.As(err, &x2) || errors.As(err, &rec) {
		e.Retryable = false
	}
	return e
}

// plain keeps an error's text and hides that it may be a context error, which
// would be taken for the caller's own.
type plain struct{ err error }

func (p plain) Error() string { return p.err.Error() }

// Status gives the error of an answer whose status is not the expected one,
// for all statuses that mean the same in every protocol on HTTP; 404 is none
// of them. Statuses that pass with time are Retryable, after the time that the
// Retry-After header names.
func Status(resp *http.Response, now time.Time) *ncerr.Error {
	text := Said("the server answered " + resp.Status)
	kind, again := ncerr.ErrIO, false
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		kind, text = ncerr.ErrAuth, text+": it wants a user name and password, or takes others than those it got"
	case http.StatusProxyAuthRequired:
		kind, text = ncerr.ErrAuth, text+": the proxy wants a user name and password"
	case http.StatusForbidden:
		kind = ncerr.ErrPermission
	case http.StatusPreconditionFailed:
		kind = ncerr.ErrConflict
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	e := ncerr.Errorf(kind, "", "", "%s", text)
	e.Retryable, e.RetryAfter = again, RetryAfter(resp.Header, now)
	return e
}

// maxSaid is the most, in bytes, that is repeated of what a server says.
const maxSaid = 1000

// Said makes one line of a text with words of a server in it: characters that
// could move about on a terminal become blanks, and a long text is cut.
func Said(text string) string {
	cut := len(text) > maxSaid
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxSaid)], ""))
	if cut {
		text += " ..."
	}
	return text
}

// maxRetryAfter is the longest wait that a server's word is taken for; who
// asks for more is not worth waiting for within one call.
const maxRetryAfter = 24 * time.Hour

// RetryAfter gives the wait that a Retry-After header asks for: seconds or a
// date; 0 when there is none or it cannot be read.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return min(max(time.Duration(s)*time.Second, 0), maxRetryAfter)
	}
	if at, err := http.ParseTime(v); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
