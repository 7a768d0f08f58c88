package s3

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// Delete implements driver.Map.
func (m *bucketMap) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if err := m.mayWrite(); err != nil {
		return err
	}
	return m.deleteOne(ctx, *m.name(key))
}

func (m *bucketMap) deleteOne(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	late, stop := extendedContext(ctx)
	defer stop()
	_, err := m.api.DeleteObject(late, &s3.DeleteObjectInput{Bucket: &m.at.bucket, Key: &name})
	if err = fail(ctx, err); ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil
	}
	return err
}

// clear deletes all objects below the prefix of the store, including those whose names
// are not valid keys, and returns their number.
func (m *bucketMap) clear(ctx context.Context) (n int, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &m.at.bucket, Prefix: &m.at.prefix}
	doubtful := false
	for page, err := range m.pages(ctx, in) {
		if err != nil {
			return n, err
		}
		for _, e := range page {
			doubtful = doubtful || strings.Contains(e.Key, "\ufffd")
		}
		if err := m.deletePage(ctx, page); err != nil {
			return n, err
		}
		n += len(page)
	}
	if !doubtful { // U+FFFD may replace characters that a listing cannot represent
		return n, nil
	}
	left, err := m.any(ctx)
	if err == nil && left {
		err = ncerr.Errorf(ncerr.ErrS3, "", "", "the server cannot list the names of some objects; delete them with its own tools")
	}
	return n, err
}

// deletePage deletes the listed objects, in batches if possible.
func (m *bucketMap) deletePage(ctx context.Context, page []driver.Entry) error {
	var batch, single []types.ObjectIdentifier
	for _, e := range page {
		if name := (types.ObjectIdentifier{Key: m.name(e.Key)}); inXML(*name.Key) {
			batch = append(batch, name)
		} else {
			single = append(single, name)
		}
	}
	for part := range slices.Chunk(batch, maxBatch) {
		if err := m.deleteBatch(ctx, part); err != nil {
			return err
		}
	}
	return m.deleteEach(ctx, single)
}

// inXML reports whether XML can represent name. The SDK would replace the characters
// that XML does not allow.
//
// Source: XML 1.0, 2.2.
func inXML(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff
	})
}

// deleteBatch deletes objects with one request, or one by one if the server does not
// support batches.
func (m *bucketMap) deleteBatch(ctx context.Context, names []types.ObjectIdentifier) error {
	out, err := m.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &m.at.bucket, Delete: &types.Delete{Objects: names, Quiet: new(true)},
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	})
	if err != nil {
		if status, _ := answer(err); status == http.StatusNotImplemented || status == http.StatusMethodNotAllowed {
			return m.deleteEach(ctx, names)
		}
		return fail(ctx, err)
	}
	for _, e := range out.Errors {
		if aws.ToString(e.Code) == "NoSuchKey" {
			continue
		}
		return batchError(m.at.prefix, e)
	}
	return nil
}

func (m *bucketMap) deleteEach(ctx context.Context, names []types.ObjectIdentifier) error {
	for _, n := range names {
		if err := m.deleteOne(ctx, *n.Key); err != nil {
			return err
		}
	}
	return nil
}

// batchError returns the error for one object of a batched delete.
func batchError(prefix string, e types.Error) error {
	code := aws.ToString(e.Code)
	kind := codeKind(code)
	if kind == 0 || kind == ncerr.ErrNotFound {
		kind = ncerr.ErrS3
	}
	err := ncerr.New(kind, "delete", strings.TrimPrefix(aws.ToString(e.Key), prefix),
		errors.New(web.Sanitize("the server returned "+code+": "+aws.ToString(e.Message))))
	err.Retryable = isRetryable(code) || code == "InternalError"
	return err
}
