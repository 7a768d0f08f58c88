package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Get implements driver.Map. It sends one request, except for empty ranges, which HTTP
// cannot express. It reads the body directly into the memory from alloc. It verifies
// the CRC32C of a whole object if the server sends one.
func (m *bucketMap) Get(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if r := opts.Range; r != nil && r.Offset >= 0 && r.Length == 0 {
		return m.getEmpty(ctx, key, opts, alloc)
	}
	in := &s3.GetObjectInput{Bucket: &m.at.bucket, Key: m.name(key)}
	if opts.IfMatch != "" {
		in.IfMatch = &opts.IfMatch
	}
	if text := rangeHeader(opts.Range); text != "" {
		in.Range = &text
	} else if m.cfg.Checksums {
		in.ChecksumMode = types.ChecksumModeEnabled
	}
	out, err := m.api.GetObject(ctx, in)
	if err != nil {
		if err = m.readError(ctx, err); ncerr.KindOf(err) == ncerr.ErrRange && in.Range != nil {
			return m.getEmpty(ctx, key, opts, alloc) // the range is at or beyond the end
		}
		return nil, driver.Info{}, err
	}
	defer out.Body.Close() //nolint:errcheck // the body is only read, so Close cannot lose data
	info, n, err := checkAnswer(out, opts)
	if err != nil {
		return nil, info, err
	}
	mem, err := alloc(n)
	if err != nil {
		return nil, driver.Info{}, err
	}
	data, info, err := m.fill(ctx, mem, out.Body, info)
	if sum := out.ChecksumCRC32C; err != nil && len(data) > 0 && in.Range == nil && sum != nil && !strings.Contains(*sum, "-") {
		info.CRC32C = *sum // the caller can check the whole object after it has read the rest; a hyphen marks a checksum of part checksums
	}
	return data, info, err
}

// rangeHeader returns the Range header for r, or "" for the whole object.
func rangeHeader(r *driver.Range) string {
	switch {
	case r == nil || r.Offset == 0 && r.Length < 0:
		return ""
	case r.Offset == math.MinInt64:
		return "bytes=-" + strconv.FormatInt(math.MaxInt64, 10)
	case r.Offset < 0:
		return "bytes=" + strconv.FormatInt(r.Offset, 10)
	case r.Length < 0:
		return fmt.Sprintf("bytes=%d-", r.Offset)
	case r.Length-1 > math.MaxInt64-r.Offset:
		return fmt.Sprintf("bytes=%d-%d", r.Offset, int64(math.MaxInt64))
	}
	return fmt.Sprintf("bytes=%d-%d", r.Offset, r.Offset+r.Length-1)
}

// getEmpty handles ranges that are empty or may lie outside the object.
func (m *bucketMap) getEmpty(ctx context.Context, key string, opts *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	info, _, err := m.stat(ctx, key)
	if err != nil {
		return nil, driver.Info{}, err
	}
	if opts.IfMatch != "" && opts.IfMatch != info.Version {
		return nil, info, otherVersion(info.Version, opts.IfMatch)
	}
	_, n, err := opts.Range.Resolve(info.Size)
	if err != nil {
		return nil, info, err
	}
	if n != 0 {
		return nil, info, answerError("a range inside an object of %d bytes was refused", info.Size)
	}
	mem, err := alloc(0)
	return mem, info, err
}

// checkAnswer checks the header of a response against the request and returns the
// number of bytes in the body.
func checkAnswer(out *s3.GetObjectOutput, opts *driver.GetOptions) (driver.Info, int64, error) {
	info := driver.Info{Version: aws.ToString(out.ETag), ModTime: aws.ToTime(out.LastModified)}
	if out.ContentLength == nil || *out.ContentLength < 0 {
		return info, 0, answerError("the response has no Content-Length")
	}
	n := *out.ContentLength
	start, err := extent(out, opts.Range, n, &info)
	if err != nil {
		return info, 0, err
	}
	if opts.IfMatch != "" && info.Version != opts.IfMatch {
		if info.Version == "" {
			return info, 0, answerError("the response has no ETag")
		}
		return info, 0, otherVersion(info.Version, opts.IfMatch)
	}
	if opts.Range != nil {
		wantStart, want, err := opts.Range.Resolve(info.Size)
		if err != nil {
			return info, 0, err
		}
		if wantStart != start || want != n {
			return info, 0, answerError("the response has offset %d and length %d of %d bytes, not offset %d and length %d", start, n, info.Size, wantStart, want)
		}
	}
	if opts.Range == nil && n != info.Size {
		return info, 0, answerError("the response has offset %d and length %d of %d bytes instead of the whole object", start, n, info.Size)
	}
	if opts.Limit > 0 && n > opts.Limit {
		return info, 0, ncerr.Errorf(ncerr.ErrLimit, "", "", "the result has %d bytes, more than the limit of %d", n, opts.Limit)
	}
	return info, n, nil
}

// extent returns the offset in the object of the n bytes of a response, and sets
// info.Size. A response without Content-Range is the whole object.
func extent(out *s3.GetObjectOutput, asked *driver.Range, n int64, info *driver.Info) (start int64, err error) {
	status := 0
	if raw, ok := awsmiddleware.GetRawResponse(out.ResultMetadata).(*smithyhttp.Response); ok {
		status = raw.StatusCode
	}
	if status != http.StatusOK && status != http.StatusPartialContent {
		return 0, answerError("status %d in response to a GET", status)
	}
	if out.ContentRange == nil {
		if status == http.StatusPartialContent {
			return 0, answerError("a partial response without Content-Range")
		}
		info.Size = n
		if asked != nil {
			if at, want, err := asked.Resolve(n); err == nil && (at != 0 || want != n) {
				return 0, answerError("the response ignored the range and contains the whole object")
			}
		}
		return 0, nil
	}
	if status != http.StatusPartialContent {
		return 0, answerError("status %d with Content-Range %q", status, *out.ContentRange)
	}
	start, end, size, ok := parseContentRange(*out.ContentRange)
	if !ok || end-start+1 != n {
		return 0, answerError("%d bytes with Content-Range %q", n, *out.ContentRange)
	}
	info.Size = size
	return start, nil
}

// parseContentRange parses "bytes START-END/SIZE".
func parseContentRange(text string) (start, end, size int64, ok bool) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	span, total, ok1 := strings.Cut(rest, "/")
	first, last, ok2 := strings.Cut(span, "-")
	if !ok || !ok1 || !ok2 {
		return 0, 0, 0, false
	}
	var err [3]error
	start, err[0] = strconv.ParseInt(first, 10, 64)
	end, err[1] = strconv.ParseInt(last, 10, 64)
	size, err[2] = strconv.ParseInt(total, 10, 64)
	ok = errors.Join(err[:]...) == nil && start >= 0 && start <= end && end < size
	return start, end, size, ok
}

// fill reads the body into mem. If the body ends early, fill returns the bytes received
// so far with the error. If the checksum is wrong, it returns no bytes.
func (m *bucketMap) fill(ctx context.Context, mem []byte, body io.Reader, info driver.Info) ([]byte, driver.Info, error) {
	n, err := io.ReadFull(body, mem)
	if err == nil {
		// Read to the end of the body: the SDK compares the checksum there, and only
		// then is the connection free for the next request.
		var one [1]byte
		var extra int
		if extra, err = body.Read(one[:]); errors.Is(err, io.EOF) {
			err = nil
		}
		if extra > 0 {
			return nil, info, answerError("the response exceeds the announced length of %d bytes", len(mem))
		}
		if err == nil {
			return mem, info, nil
		}
		if own := ctx.Err(); own != nil {
			return mem[:0], info, own
		}
		e := ncerr.New(ncerr.ErrCorrupt, "", "", &plain{"the content does not match its checksum: " + reason(err)})
		e.Retryable = true
		return mem[:0], info, e
	}
	if own := ctx.Err(); own != nil {
		return mem[:n], info, own
	}
	e := ncerr.New(ncerr.ErrIO, "", "", &plain{fmt.Sprintf("the response ended after %d of %d bytes: %s", n, len(mem), reason(err))})
	e.Retryable = true
	return mem[:n], info, e
}

// Stat implements driver.Map. It reads the first byte of the object, because the error
// response to a HEAD request has no body and cannot distinguish a missing object from a
// missing bucket.
func (m *bucketMap) Stat(ctx context.Context, key string) (driver.Info, error) {
	info, _, err := m.stat(ctx, key)
	return info, err
}

// stat implements Stat and also returns the write id of the object.
func (m *bucketMap) stat(ctx context.Context, key string) (driver.Info, string, error) {
	out, err := m.api.GetObject(ctx, &s3.GetObjectInput{Bucket: &m.at.bucket, Key: m.name(key), Range: new("bytes=0-0")})
	if err != nil {
		if err = m.readError(ctx, err); ncerr.KindOf(err) == ncerr.ErrRange {
			return m.head(ctx, key) // the object is empty
		}
		return driver.Info{}, "", err
	}
	defer out.Body.Close() //nolint:errcheck // only the header of the response is used
	if _, err := io.Copy(io.Discard, io.LimitReader(out.Body, 2)); err != nil {
		return driver.Info{}, "", fail(ctx, err)
	}
	ask := driver.GetOptions{Range: &driver.Range{Length: 1}}
	if out.ContentRange == nil {
		ask.Range = nil // the server ignored the range and sent the whole object
	}
	info, _, err := checkAnswer(out, &ask)
	return info, out.Metadata[WriteID], err
}

// head sends a HEAD request for an object that exists and is empty.
func (m *bucketMap) head(ctx context.Context, key string) (driver.Info, string, error) {
	out, err := m.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &m.at.bucket, Key: m.name(key)})
	if err != nil {
		if err = fail(ctx, err); ncerr.KindOf(err) == ncerr.ErrNotFound {
			e := ncerr.Errorf(ncerr.ErrIO, "", "", "the object was removed between two requests for it")
			e.Retryable = true
			err = e
		}
		return driver.Info{}, "", err
	}
	if out.ContentLength == nil || *out.ContentLength != 0 {
		return driver.Info{}, "", answerError("the server refused a range inside an object that is not empty")
	}
	return driver.Info{Version: aws.ToString(out.ETag), ModTime: aws.ToTime(out.LastModified)}, out.Metadata[WriteID], nil
}

// readError converts the error from a read of one object, like fail. With the option
// missing=403, the S3 code AccessDenied means that the object does not exist; a refusal
// by a proxy or for a whole account does not mean that.
func (m *bucketMap) readError(ctx context.Context, err error) error {
	e := fail(ctx, err)
	if m.cfg.Missing == "403" && ncerr.KindOf(e) == ncerr.ErrPermission {
		code, _ := apiError(err)
		if status, _ := answer(err); status == http.StatusForbidden && code == "AccessDenied" {
			return ncerr.ErrNotFound
		}
	}
	return e
}

// answerError returns a retryable error for a response that does not match the request.
func answerError(format string, args ...any) error {
	e := ncerr.Errorf(ncerr.ErrIO, "", "", "the server violated the protocol: "+format, args...)
	e.Retryable = true
	return e
}

func otherVersion(got, want string) error {
	return ncerr.Errorf(ncerr.ErrConflict, "", "", "the object has version %s, not %s", got, want)
}
