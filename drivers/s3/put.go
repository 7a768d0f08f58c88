package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Put implements driver.Map.
func (m *bucketMap) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if err := m.mayWrite(); err != nil {
		return driver.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Info{}, err
	}
	if (opts.IfAbsent || opts.IfMatch != "") && !m.conditional {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "conditional writes are disabled for this server")
	}
	name := m.name(key)
	if len(*name) > maxKey {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrBadName, "", "", "the key, including the prefix of the store, has %d bytes, more than the limit of %d", len(*name), maxKey)
	}
	if n := body.Size(); n > maxObject {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrLimit, "", "", "the object has %d bytes; the maximum in S3 is 5 TiB", n)
	}
	w := &write{m: m, key: key, name: name, body: body, opts: *opts}
	if opts.IfAbsent || opts.IfMatch != "" {
		w.id = rand.Text()
	}
	info, err := w.send(ctx)
	if err == nil {
		return info, nil
	}
	if w.id == "" || ctx.Err() != nil || w.refused(err) {
		return driver.Info{}, w.fail(ctx, err)
	}
	return w.resolve(ctx, err)
}

// write holds the state of one Put.
type write struct {
	m    *bucketMap
	key  string
	name *string
	body driver.Body
	opts driver.PutOptions
	id   string // unique id of a conditional write
}

// bodyError is a failure to read the content to be written.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// abortedError is the failure of a multipart upload that was aborted and can no longer
// complete.
type abortedError struct {
	err   error
	asked bool // whether a request to complete the write was sent earlier
}

func (e *abortedError) Error() string { return e.err.Error() }
func (e *abortedError) Unwrap() error { return e.err }

// refused reports whether the server certainly did not carry out the failed write.
// PreconditionFailed and NoSuchUpload do not prove that: if a proxy repeats a request,
// they may be caused by the success of the first one.
func (w *write) refused(err error) bool {
	var body *bodyError
	var aborted *abortedError
	code, _ := apiError(err)
	switch {
	case errors.As(err, &body), errors.As(err, &aborted) && !aborted.asked:
		return true
	case code == "PreconditionFailed", code == "NoSuchUpload":
		return false
	}
	return neverExecuted(err)
}

// cannotComplete reports whether the server can no longer carry out the failed write.
func cannotComplete(err error) bool {
	var aborted *abortedError
	return errors.As(err, &aborted) || neverExecuted(err)
}

// fail returns the error from a failed write.
func (w *write) fail(ctx context.Context, err error) error {
	var body *bodyError
	if errors.As(err, &body) {
		if own := ctx.Err(); own != nil {
			return own
		}
		return ncerr.New(ncerr.ErrIO, "", "", &plain{body.Error()})
	}
	e := fail(ctx, err)
	code, _ := apiError(err)
	switch {
	case w.opts.IfAbsent && code == "PreconditionFailed":
		return ncerr.New(ncerr.ErrObjectExists, "", "", nil)
	case w.opts.IfMatch != "" && ncerr.KindOf(e) == ncerr.ErrNotFound:
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the object no longer exists")
	case ncerr.KindOf(e) == ncerr.ErrNotFound:
		return ncerr.New(ncerr.ErrS3, "", "", &plain{e.Error()}) // a write cannot fail because the key is missing
	}
	return e
}

// resolve determines the outcome of a conditional write whose response was lost or may
// belong to a request that a proxy repeated. If the object has the id of the write, the
// write succeeded. Anything else proves nothing after a lost response: the write may
// still be in progress, or another writer may have replaced or deleted its object. For
// the same reason resolve does not retry, which could carry out the write twice.
func (w *write) resolve(ctx context.Context, lost error) (driver.Info, error) {
	info, id, err := w.m.stat(ctx, w.key)
	found := "another object exists"
	switch {
	case err == nil && id == w.id:
		return info, nil
	case ctx.Err() != nil:
		return driver.Info{}, ctx.Err()
	case cannotComplete(lost):
		return driver.Info{}, w.fail(ctx, lost)
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
		found = "the object does not exist"
	case err != nil:
		found = err.Error()
	}
	return driver.Info{}, ncerr.New(ncerr.ErrAmbiguous, "", "", &plain{fmt.Sprintf(
		"the response was lost (%v), and the outcome of the write is unknown: %s", fail(ctx, lost), found)})
}

// send uploads the object once.
func (w *write) send(ctx context.Context) (driver.Info, error) {
	if w.body.Size() > int64(w.m.cfg.Threshold) {
		return w.sendParts(ctx)
	}
	sum, err := w.sum(0, w.body.Size())
	if err != nil {
		return driver.Info{}, err
	}
	n := w.body.Size()
	in := &s3.PutObjectInput{
		Bucket: &w.m.at.bucket, Key: w.name, Body: contextBody{w.section(0, n), ctx}, ContentLength: &n,
		ChecksumCRC32C: sum, IfNoneMatch: w.ifNoneMatch(), IfMatch: w.ifMatch(), Metadata: w.metadata(),
	}
	late, stop := extendedContext(ctx)
	defer stop()
	out, err := w.m.api.PutObject(late, in)
	if err != nil {
		return driver.Info{}, err
	}
	if out.ETag == nil {
		return driver.Info{}, errNoETag()
	}
	return driver.Info{Size: n, Version: *out.ETag}, nil
}

// errNoETag returns the error for a response to a write without an ETag, such as the
// page of a proxy. Every S3 server sends the ETag of the object that it stored.
func errNoETag() error { return answerError("the response to a write has no ETag") }

func (w *write) ifNoneMatch() *string {
	if !w.opts.IfAbsent {
		return nil
	}
	return new("*")
}

func (w *write) ifMatch() *string {
	if w.opts.IfMatch == "" {
		return nil
	}
	return &w.opts.IfMatch
}

func (w *write) metadata() map[string]string {
	if w.id == "" {
		return nil
	}
	return map[string]string{WriteID: w.id}
}

// section returns a reader of a part of the body, without copying it.
func (w *write) section(off, n int64) io.ReadSeeker {
	if b, ok := w.body.(driver.Bytes); ok {
		return bytes.NewReader(b[off : off+n])
	}
	return io.NewSectionReader(w.body, off, n)
}

// sum returns the CRC32C of a part of the body in the form that S3 uses, or nil if
// checksums are disabled. It also ensures that the body can be read before any of it is
// sent.
func (w *write) sum(off, n int64) (*string, error) {
	var crc uint32
	if b, ok := w.body.(driver.Bytes); ok {
		if !w.m.cfg.Checksums {
			return nil, nil
		}
		crc = crc32.Checksum(b[off:off+n], crc32.MakeTable(crc32.Castagnoli))
	} else {
		h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		got, err := io.CopyBuffer(h, io.NewSectionReader(w.body, off, n), make([]byte, min(n+1, 256<<10)))
		if err == nil && got != n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, &bodyError{err}
		}
		crc = h.Sum32()
	}
	if !w.m.cfg.Checksums {
		return nil, nil
	}
	text := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
	return &text, nil
}
