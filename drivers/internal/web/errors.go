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

// RequestError returns the error for a request without a complete response: the error of
// ctx, or an ncerr.ErrIO without the URL, which may contain secrets. The error is
// retryable unless the host name does not exist, a certificate is not trusted, or the
// server does not speak TLS. An *ncerr.Error in the chain of err is returned as it is.
func RequestError(ctx context.Context, err error) error {
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

// plain keeps the text of an error but does not unwrap, so that a context error inside
// it is not mistaken for the caller's own.
type plain struct{ err error }

func (p plain) Error() string { return p.err.Error() }

// StatusError returns the error for a response with an unexpected status. It handles the
// statuses that mean the same in every protocol on top of HTTP; 404 is not one of them.
// Temporary failures are retryable after the time in the Retry-After header.
func StatusError(resp *http.Response, now time.Time) *ncerr.Error {
	text := Sanitize("the server answered " + resp.Status)
	kind, again := ncerr.ErrIO, false
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		kind, text = ncerr.ErrAuth, text+": it requires a user name and password, or rejected the ones it received"
	case http.StatusProxyAuthRequired:
		kind, text = ncerr.ErrAuth, text+": the proxy requires a user name and password"
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

// maxServerText is the maximum length in bytes of server text in an error message.
const maxServerText = 1000

// Sanitize returns text from a server as a single line. It replaces unprintable
// characters by spaces and truncates long text.
func Sanitize(text string) string {
	cut := len(text) > maxServerText
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxServerText)], ""))
	if cut {
		text += " ..."
	}
	return text
}

// maxRetryAfter is the longest wait that RetryAfter returns.
const maxRetryAfter = 24 * time.Hour

// RetryAfter returns the wait requested by a Retry-After header, which holds seconds or
// a date. It returns 0 if the header is missing or invalid.
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
