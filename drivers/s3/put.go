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
		return driver.Info{}, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "conditional writes are switched off for this server")
	}
	name := m.name(key)
	if len(*name) > maxKey {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrBadName, "", "", "with that of the store the key has %d bytes; S3 has keys of at most %d", len(*name), maxKey)
	}
	if n := body.Size(); n > maxObject {
		return driver.Info{}, ncerr.Errorf(ncerr.ErrLimit, "", "", "%d bytes; S3 has objects of at most 5 TiB", n)
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
	return w.settle(ctx, err)
}

// write is one Put.
type write struct {
	m    *bucketMap
	key  string
	name *string
	body driver.Body
	opts driver.PutOptions
	id   string // of a write with a condition
}

// bodyError is a failure to read what is to be written.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "read the content: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// abortedError is the failure of a multipart upload that has been aborted: it
// will not be completed any more.
type abortedError struct {
	err   error
	asked bool // the server was asked to complete it before
}

func (e *abortedError) Error() string { return e.err.Error() }
func (e *abortedError) Unwrap() error { return e.err }

// refused reports whether the failed write has certainly not been done. Two
// answers do not show that: a proxy that sends a request a second time gets
// them for what the first one did.
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
	return unsent(err)
}

// over reports whether the failed write is not on its way any more.
func over(err error) bool {
	var aborted *abortedError
	return errors.As(err, &aborted) || unsent(err)
}

// fail gives the error of a failed write.
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
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the object is not there any more")
	case ncerr.KindOf(e) == ncerr.ErrNotFound:
		return ncerr.New(ncerr.ErrS3, "", "", &plain{e.Error()}) // a write finds nothing missing
	}
	return e
}

// settle finds out what became of a conditional write whose answer was lost, or
// may be that to its repetition by a proxy. An object with its id is its own.
// Anything else proves nothing when the answer was lost: the write may still be
// on its way, or somebody may have replaced or deleted what it wrote; so it is
// not sent again either, which could do twice what was asked for once.
func (w *write) settle(ctx context.Context, lost error) (driver.Info, error) {
	info, id, err := w.m.stat(ctx, w.key)
	found := "there is another object"
	switch {
	case err == nil && id == w.id:
		return info, nil
	case ctx.Err() != nil:
		return driver.Info{}, ctx.Err()
	case over(lost):
		return driver.Info{}, w.fail(ctx, lost)
	case ncerr.KindOf(err) == ncerr.ErrNotFound:
		found = "there is no object"
	case err != nil:
		found = err.Error()
	}
	return driver.Info{}, ncerr.New(ncerr.ErrAmbiguous, "", "", &plain{fmt.Sprintf(
		"the answer was lost (%v), and whether the write was done cannot be told: %s", fail(ctx, lost), found)})
}

// send sends the object once.
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
		Bucket: &w.m.at.bucket, Key: w.name, Body: untilEnd{w.section(0, n), ctx}, ContentLength: &n,
		ChecksumCRC32C: sum, IfNoneMatch: w.ifNoneMatch(), IfMatch: w.ifMatch(), Metadata: w.metadata(),
	}
	late, stop := outlasting(ctx)
	defer stop()
	out, err := w.m.api.PutObject(late, in)
	if err != nil {
		return driver.Info{}, err
	}
	if out.ETag == nil {
		return driver.Info{}, errNoETag()
	}
	return written(n, out.ETag), nil
}

// errNoETag is about an answer to a write: every S3 server names what it has
// stored; a proxy's page does not.
func errNoETag() error { return answerError("it answered a write without an ETag") }

func written(n int64, etag *string) driver.Info {
	info := driver.Info{Size: n}
	if etag != nil {
		info.Version = *etag
	}
	return info
}

func (w *write) ifNoneMatch() *string {
	if !w.opts.IfAbsent {
		return nil
	}
	any := "*"
	return &any
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

// section gives a part of the body to a request, without a copy.
func (w *write) section(off, n int64) io.ReadSeeker {
	if b, ok := w.body.(driver.Bytes); ok {
		return bytes.NewReader(b[off : off+n])
	}
	return io.NewSectionReader(w.body, off, n)
}

// sum gives the CRC32C of a part of the body, as S3 writes it. It shows, too,
// that the body can be read before anything of it is sent.
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
