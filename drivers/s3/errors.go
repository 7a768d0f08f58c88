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

var errNoSource = errors.New("nothing gives credentials")

// plain is an error of the SDK in our words; what it wraps stays hidden from
// errors.Is, so that no context or file error of its inside is taken for ours.
type plain struct{ text string }

func (e *plain) Error() string { return e.text }

func newPlain(what string, err error) error {
	return &plain{fmt.Sprintf("%s: %v", what, err)}
}

// codeKind gives what a code of S3 means, 0 for one that is not known.
// Source: Amazon S3 API Reference, "Error responses".
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
	case "ObjectParentIsFile", "ExistingObjectIsDirectory", "XMinioParentIsObject": // file systems behind a gateway
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
		"InvalidPart": // the name that the server gave to a part, or the part, was lost on its way
		return ncerr.ErrIO
	}
	return 0
}

// again lists the codes, besides every 5xx and 429, after which a repetition
// may succeed.
func again(code string) bool {
	switch code {
	case "SlowDown", "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch",
		"ConditionalRequestConflict", "OperationAborted", "ThrottlingException", "InvalidPart",
		"ExistingObjectIsDirectory": // a gateway's directory that is about to go
		return true
	}
	return false
}

// fail makes a failure of a request one of ours: its kind, whether a
// repetition may succeed and how long the server asks to wait. The caller's
// own context error passes unchanged.
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
			"no AWS credentials: %v (public data needs none: aws.profile=none in the fragment)", auth.err)})
	}
	status, header := answer(err)
	if status == 0 {
		return web.Failed(ctx, err)
	}
	if status/100 == 2 { // a document that broke off
		return answerError("its answer cannot be read: %s", web.Said(reason(err)))
	}
	code, message := apiError(err)
	e := ncerr.New(kindOf(code, status), "", "", &plain{describe(code, message, status, header)})
	cut := status == http.StatusNotFound && codeKind(code) == 0 // what it says may have been cut off on its way
	paused := code == "RequestTimeTooSkewed" && clockAgrees(header, time.Now())
	e.Retryable = status >= 500 && status != http.StatusNotImplemented || status == http.StatusTooManyRequests || cut || paused || again(code)
	e.RetryAfter = web.RetryAfter(header, time.Now())
	return e
}

// clockAgrees reports whether the server's clock is about ours: then a request
// that was too old when it arrived had been held up, as by a machine that was
// asleep, and another one is signed anew. Source: Amazon S3 API Reference,
// "Error responses", RequestTimeTooSkewed: more than 15 minutes.
func clockAgrees(header http.Header, now time.Time) bool {
	date, err := http.ParseTime(header.Get("Date"))
	return err == nil && now.Sub(date).Abs() < 5*time.Minute
}

// answer gives the status and header of the answer that made err; 0 when
// there was none.
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
		return ncerr.ErrIO // says nothing about the object
	}
	return ncerr.ErrS3
}

// describe gives what the server said, and what to do about it.
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
		text += "; the bucket is in region " + region + ": say so with aws.region=" + region
	case status/100 == 3 && codeKind(code) == 0 && header.Get("x-amz-request-id") == "":
		text += "; is it an S3 server, or a proxy that wants a login?"
	case status/100 == 3 || code == "AuthorizationHeaderMalformed":
		text += "; is it another region (aws.region) or endpoint?"
	case status == http.StatusProxyAuthRequired:
		text += ": the proxy wants a user name and password"
	case status == http.StatusNotFound && codeKind(code) == 0:
		text += "; that does not say that the object is absent: is it an S3 server?"
	case code == "RequestTimeTooSkewed":
		text += "; is the clock of this machine right?"
	}
	return web.Said(text)
}

// reason gives the innermost words of a transport error: not the SDK's long
// chain, but what happened.
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

// unsent reports whether the failure of a request is one after which the
// server has certainly not done it, and will not.
func unsent(err error) bool {
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
