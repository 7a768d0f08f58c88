package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// abortTime limits the time to abort a failed upload, including retries. The abort is
// sent even if the caller's context is done, because providers charge for the parts
// that remain.
const abortTime = 15 * time.Second

// partSize returns the size of the parts of an object of n bytes: want, or a larger
// size that keeps the number of parts within the limit.
func partSize(n, want int64) int64 {
	least := (n + maxParts - 1) / maxParts
	if least <= want {
		return want
	}
	return (least + partsRound - 1) / partsRound * partsRound
}

// sendParts uploads the object in parts, several at a time. The last request makes the
// object visible; after a failure sendParts aborts the upload.
func (w *write) sendParts(ctx context.Context) (driver.Info, error) {
	in := &s3.CreateMultipartUploadInput{Bucket: &w.m.at.bucket, Key: w.name, Metadata: w.metadata()}
	if w.m.cfg.Checksums {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32c
	}
	up, err := w.m.api.CreateMultipartUpload(ctx, in)
	if err != nil {
		return driver.Info{}, &abortedError{err: err} // an upload without a known id is never completed
	}
	if up.UploadId == nil || *up.UploadId == "" { // requests without an id would affect the object itself
		return driver.Info{}, &abortedError{err: answerError("the new upload has no id")}
	}
	parts, err := w.uploadParts(ctx, up.UploadId)
	if err != nil {
		w.discard(ctx, up.UploadId)
		return driver.Info{}, &abortedError{err: err}
	}
	late, stop := extendedContext(ctx)
	defer stop()
	out, err := w.m.api.CompleteMultipartUpload(late, &s3.CompleteMultipartUploadInput{
		Bucket: &w.m.at.bucket, Key: w.name, UploadId: up.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		IfNoneMatch:     w.ifNoneMatch(), IfMatch: w.ifMatch(),
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		if w.abort(ctx, up.UploadId) == nil {
			return driver.Info{}, &abortedError{err: err, asked: true}
		}
		return driver.Info{}, err
	}
	return driver.Info{Size: w.body.Size(), Version: aws.ToString(out.ETag)}, nil
}

// discard removes an upload with missing parts. A part that the server receives during
// an abort can remain, so discard repeats the abort until the server reports that the
// upload does not exist. It ignores errors, because the failure of the part is more
// useful.
//
// Source: Amazon S3 API, AbortMultipartUpload.
func (w *write) discard(ctx context.Context, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
	defer cancel()
	for wait := 50 * time.Millisecond; wait < time.Second && ctx.Err() == nil; wait *= 3 {
		if code, _ := apiError(w.abort(ctx, upload)); code == "NoSuchUpload" {
			return
		}
		time.Sleep(wait)
	}
}

func (w *write) abort(ctx context.Context, upload *string) error {
	_, err := w.m.api.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &w.m.at.bucket, Key: w.name, UploadId: upload})
	return err
}

// uploadParts uploads the parts and returns their list in order. The first failure
// cancels the other uploads.
func (w *write) uploadParts(ctx context.Context, upload *string) ([]types.CompletedPart, error) {
	total := w.body.Size()
	size := partSize(total, int64(w.m.cfg.PartSize))
	parts := make([]types.CompletedPart, (total+size-1)/size)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(w.m.cfg.PartsAtOnce)
	for i := range parts {
		g.Go(func() (err error) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			off := int64(i) * size
			parts[i], err = w.uploadPart(ctx, upload, int32(i+1), off, min(size, total-off))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return parts, nil
}

func (w *write) uploadPart(ctx context.Context, upload *string, number int32, off, n int64) (types.CompletedPart, error) {
	sum, err := w.sum(off, n)
	if err != nil {
		return types.CompletedPart{}, err
	}
	out, err := w.m.api.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &w.m.at.bucket, Key: w.name, UploadId: upload, PartNumber: &number,
		Body: w.section(off, n), ContentLength: &n, ChecksumCRC32C: sum,
	})
	if err != nil {
		return types.CompletedPart{}, err
	}
	if out.ETag == nil {
		return types.CompletedPart{}, errNoETag()
	}
	return types.CompletedPart{PartNumber: &number, ETag: out.ETag, ChecksumCRC32C: sum}, nil
}
