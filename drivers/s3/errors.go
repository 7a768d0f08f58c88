package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

var errNoSource = errors.New("no source of credentials is configured")

// plain is an error with the message of an SDK error. It does not unwrap, so that
// errors.Is does not mistake a context or file error inside the SDK for one of the
// caller.
type plain struct{ text string }

func (e *plain) Error() string { return e.text }

// codeKind returns the kind for an S3 error code, or 0 for an unknown code. Source:
// Amazon S3 API Reference, "Error responses".
func codeKind(code string) ncerr.Kind {
	switch code {
	case "NoSuchKey":
		return ncerr.ErrNotFound
	case "NoSuchBucket":
		return ncerr.ErrNoDataset
	case "AccessDenied", "AllAccessDisabled", "AccountProblem", "MethodNotAllowed":
		return ncerr.ErrPermission
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestTimeTooSkewed",
		"TokenRefreshRequired", "InvalidSecurity", "NotSignedUp", "RequestExpired":
		return ncerr.ErrAuth
	case "PreconditionFailed", "ConditionalRequestConflict", "OperationAborted":
		return ncerr.ErrConflict
	case "ObjectParentIsFile", "ExistingObjectIsDirectory", "XMinioParentIsObject": // codes from gateways to file systems
		return ncerr.ErrObjectExists
	case "KeyTooLongError", "KeyTooLong", "InvalidURI":
		return ncerr.ErrBadName
	case "EntityTooLarge", "QuotaExceeded":
		return ncerr.ErrLimit
	case "InvalidBucketName":
		return ncerr.ErrBadURL
	case "BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch":
		return ncerr.ErrCorrupt
	case "NotImplemented":
		return ncerr.ErrUnsupported
	case "InvalidRange":
		return ncerr.ErrRange
	case "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "IncompleteBody", "ThrottlingException", "TooManyRequests",
		"InvalidPart": // the ETag of a part, or the part itself, was damaged in transit
		return ncerr.ErrIO
	}
	return 0
}

// isRetryable reports whether a retry may succeed after an error with the given code.
// In addition, a retry may succeed after status 429 and every 5xx except 501.
func isRetryable(code string) bool {
	switch code {
	case "SlowDown", "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch",
		"ConditionalRequestConflict", "OperationAborted", "ThrottlingException", "InvalidPart",
		"ExistingObjectIsDirectory": // a gateway's directory that is about to be removed
		return true
	}
	return false
}

// fail converts the error from a request: it sets the kind, whether a retry may succeed
// and the wait that the server requests. The context error of the caller passes
// unchanged.
func fail(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if own := ctx.Err(); own != nil {
		return own
	}
	var mine *ncerr.Error
	if errors.As(err, &mine) {
		return mine
	}
	var auth *authError
	if errors.As(err, &auth) {
		return ncerr.New(ncerr.ErrAuth, "", "", &plain{fmt.Sprintf(
			"no AWS credentials: %v (for public data, set aws.profile=none in the fragment)", auth.err)})
	}
	status, header := answer(err)
	if status == 0 {
		return web.RequestError(ctx, err)
	}
	if status/100 == 2 { // the response was truncated
		return answerError("invalid response: %s", web.Sanitize(reason(err)))
	}
	code, message := apiError(err)
	e := ncerr.New(kindOf(code, status), "", "", &plain{describe(code, message, status, header)})
	cut := status == http.StatusNotFound && codeKind(code) == 0 // the body with the code may have been lost in transit
	paused := code == "RequestTimeTooSkewed" && clockAgrees(header, time.Now())
	e.Retryable = status >= 500 && status != http.StatusNotImplemented || status == http.StatusTooManyRequests || cut || paused || isRetryable(code)
	e.RetryAfter = web.RetryAfter(header, time.Now())
	return e
}

// clockAgrees reports whether the server's clock is close to the local one. If so, a
// request that was refused as too old was delayed, for example because the machine was
// asleep, and a retry gets a new signature. Source: Amazon S3 API Reference, "Error
// responses", RequestTimeTooSkewed: more than 15 minutes.
func clockAgrees(header http.Header, now time.Time) bool {
	date, err := http.ParseTime(header.Get("Date"))
	return err == nil && now.Sub(date).Abs() < 5*time.Minute
}

// answer returns the status and header of the response that caused err, or 0 if no
// response arrived.
func answer(err error) (int, http.Header) {
	var re *smithyhttp.ResponseError
	if !errors.As(err, &re) || re.Response == nil || re.Response.Response == nil {
		return 0, nil
	}
	return re.Response.StatusCode, re.Response.Header
}

func apiError(err error) (code, message string) {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode(), api.ErrorMessage()
	}
	return "", ""
}

func kindOf(code string, status int) ncerr.Kind {
	kind := codeKind(code)
	switch {
	case kind == ncerr.ErrNotFound && status != http.StatusNotFound:
		return ncerr.ErrS3
	case kind != 0:
		return kind
	case status == http.StatusUnauthorized, status == http.StatusProxyAuthRequired:
		return ncerr.ErrAuth
	case status == http.StatusForbidden:
		return ncerr.ErrPermission
	case status == http.StatusPreconditionFailed:
		return ncerr.ErrConflict
	case status == http.StatusRequestedRangeNotSatisfiable:
		return ncerr.ErrRange
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return ncerr.ErrIO
	case status == http.StatusNotFound:
		return ncerr.ErrIO // the status does not mean that the object is missing
	}
	return ncerr.ErrS3
}

// describe returns the server's message and, for some errors, advice.
func describe(code, message string, status int, header http.Header) string {
	text := fmt.Sprintf("the server answered %d", status)
	if code != "" && code != "UnknownError" {
		text += " " + code
	}
	if message != "" && message != "UnknownError" {
		text += ": " + message
	}
	if id := header.Get("x-amz-request-id"); id != "" {
		text += " (request " + id + ")"
	}
	region := header.Get("x-amz-bucket-region")
	switch {
	case region != "" && (status/100 == 3 || status == http.StatusBadRequest):
		text += "; the bucket is in region " + region + ": set aws.region=" + region
	case status/100 == 3 && codeKind(code) == 0 && header.Get("x-amz-request-id") == "":
		text += "; is the server an S3 server, or a proxy that requires a login?"
	case status/100 == 3 || code == "AuthorizationHeaderMalformed":
		text += "; is the region (aws.region) or the endpoint wrong?"
	case status == http.StatusProxyAuthRequired:
		text += ": the proxy requires a user name and password"
	case status == http.StatusNotFound && codeKind(code) == 0:
		text += "; the object may still exist: is the server an S3 server?"
	case code == "RequestTimeTooSkewed":
		text += "; is the clock of this machine wrong?"
	}
	return web.Sanitize(text)
}

// reason returns the message of the innermost error, without the SDK's long chain of
// prefixes.
func reason(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return dns.Error()
	case errors.As(err, &op):
		return op.Error()
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// neverExecuted reports whether err guarantees that the server did not carry out the
// request and never will.
func neverExecuted(err error) bool {
	var auth *authError
	var op *net.OpError
	status, _ := answer(err)
	code, _ := apiError(err)
	switch {
	case errors.As(err, &auth):
		return true
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return true
	case status == http.StatusServiceUnavailable && code == "SlowDown", status == http.StatusNotImplemented:
		return true
	case status == 0 && errors.As(err, &op) && op.Op == "dial":
		return true
	}
	return status/100 == 3
}
