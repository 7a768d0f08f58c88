package s3

import (
	"context"
	"errors"
	"net/http"
	"strings"

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
	_, err := m.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &m.at.bucket, Key: &name})
	if err = fail(ctx, err); ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil
	}
	return err
}

// clear deletes all objects below the store's place, names that are no keys
// of ours too, and tells how many there were.
func (m *bucketMap) clear(ctx context.Context) (n int, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &m.at.bucket, Prefix: &m.at.prefix}
	for page, err := range m.pages(ctx, in) {
		if err != nil {
			return n, err
		}
		for len(page) > 0 {
			batch := page[:min(len(page), maxBatch)]
			page = page[len(batch):]
			if err := m.deleteBatch(ctx, batch); err != nil {
				return n, err
			}
			n += len(batch)
		}
	}
	return n, nil
}

// deleteBatch deletes objects in one request, or one by one where the server
// has no such request.
func (m *bucketMap) deleteBatch(ctx context.Context, batch []driver.Entry) error {
	names := make([]types.ObjectIdentifier, len(batch))
	for i, e := range batch {
		names[i].Key = m.name(e.Key)
	}
	quiet := true
	out, err := m.api.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &m.at.bucket, Delete: &types.Delete{Objects: names, Quiet: &quiet},
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	})
	if err != nil {
		if status, _ := answer(err); status == http.StatusNotImplemented || status == http.StatusMethodNotAllowed {
			return m.deleteEach(ctx, names)
		}
		return fail(ctx, err)
	}
	for _, e := range out.Errors {
		if e.Code != nil && *e.Code == "NoSuchKey" {
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

// batchError is the failure of one object of a batched delete.
func batchError(prefix string, e types.Error) error {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	kind := codeKind(text(e.Code))
	if kind == 0 || kind == ncerr.ErrNotFound {
		kind = ncerr.ErrS3
	}
	err := ncerr.New(kind, "delete", strings.TrimPrefix(text(e.Key), prefix),
		errors.New(web.Said("the server answered "+text(e.Code)+": "+text(e.Message))))
	err.Retryable = again(text(e.Code)) || text(e.Code) == "InternalError"
	return err
}
