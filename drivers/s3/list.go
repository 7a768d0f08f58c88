package s3

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// emptyPages limits the number of consecutive pages without a new entry in a listing.
// Deleted versions cause such pages, and a broken server may send them forever.
const emptyPages = 1000

// List implements driver.Map. It yields repeated entries once. A listing that is not in
// order, does not advance or contains keys outside the prefix causes a retryable
// ncerr.ErrIO. Names that are not valid keys are omitted, such as the empty objects that
// consoles create for directories.
func (m *bucketMap) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &m.at.bucket, Prefix: m.name(prefix), MaxKeys: &m.cfg.PageSize}
		if !o.Recursive {
			in.Delimiter = new("/")
		}
		if o.StartAfter != "" {
			in.StartAfter = m.name(o.StartAfter)
		}
		last := ""
		for page, err := range m.pages(ctx, in) {
			if err == nil {
				last, err = yieldPage(page, prefix, &o, last, yield)
			}
			switch {
			case err == errStop: //nolint:errorlint // the error is created here and never wrapped
				return
			case err != nil:
				yield(driver.Entry{}, err)
				return
			}
		}
	}
}

// errStop is returned if the caller stops the iteration.
const errStop = ncerr.ErrInternal

// yieldPage yields the entries of a page that come after StartAfter and last. It
// returns the key of the last entry.
func yieldPage(page []driver.Entry, prefix string, o *driver.ListOptions, last string, yield func(driver.Entry, error) bool) (string, error) {
	for _, e := range page {
		if o.Recursive && e.Prefix {
			return last, answerError("a recursive listing contains the prefix %q", e.Key)
		}
		if !o.Recursive && !e.Prefix {
			e = segment(e, prefix)
		}
		switch {
		case !strings.HasPrefix(e.Key, prefix):
			return last, answerError("the listing contains %q for the prefix %q", e.Key, prefix)
		case e.Key <= o.StartAfter || e.Key == last:
			continue
		case e.Key < last:
			return last, answerError("the listing is not sorted: %q follows %q", e.Key, last)
		}
		last = e.Key
		if !validKey(strings.TrimSuffix(e.Key, "/")) || !e.Prefix && strings.HasSuffix(e.Key, "/") {
			continue
		}
		if !yield(e, nil) {
			return last, errStop
		}
	}
	return last, nil
}

// segment returns e. For an object below a deeper prefix, it returns that prefix instead.
// Servers without support for delimiters list such objects.
func segment(e driver.Entry, prefix string) driver.Entry {
	rest, below := strings.CutPrefix(e.Key, prefix)
	if i := strings.IndexByte(rest, '/'); below && i >= 0 && i < len(rest)-1 {
		return driver.Entry{Key: e.Key[:len(prefix)+i+1], Prefix: true, Info: driver.Info{Size: -1}}
	}
	return e
}

// pages returns the pages of a listing, each in byte order, with keys relative to the
// store. Keys outside the store are an error.
func (m *bucketMap) pages(ctx context.Context, in *s3.ListObjectsV2Input) iter.Seq2[[]driver.Entry, error] {
	return func(yield func([]driver.Entry, error) bool) {
		seen, last, empty := "", "", 0
		in.EncodingType = types.EncodingTypeUrl // keys may contain characters that XML does not allow
		for {
			out, err := m.api.ListObjectsV2(ctx, in)
			if err != nil {
				if err = fail(ctx, err); ncerr.KindOf(err) == ncerr.ErrNotFound {
					err = answerError("NoSuchKey in response to a listing")
				}
				yield(nil, err)
				return
			}
			page, err := m.entries(out)
			if err == nil && len(page) == 0 {
				err = sameRequest(out, *in.Prefix)
			}
			if n := len(page); err == nil && n > 0 {
				if page[n-1].Key < last {
					page, err = nil, answerError("the listing is not sorted: %q follows %q", page[n-1].Key, last)
				} else if page[n-1].Key > last {
					last, empty = page[n-1].Key, 0
				}
			}
			token := aws.ToString(out.NextContinuationToken)
			more := token != ""
			if out.IsTruncated != nil {
				more = *out.IsTruncated
			}
			if !yield(page, err) || err != nil || !more {
				return
			}
			if token == "" || token == seen || empty >= emptyPages {
				yield(nil, answerError("the listing made no progress"))
				return
			}
			empty++
			seen, in.ContinuationToken = token, &token
		}
	}
}

// entries returns the entries of one page in byte order.
func (m *bucketMap) entries(out *s3.ListObjectsV2Output) ([]driver.Entry, error) {
	list := make([]driver.Entry, 0, len(out.Contents)+len(out.CommonPrefixes))
	add := func(raw *string, e driver.Entry) error {
		key, err := listed(out, raw)
		if err != nil {
			return err
		}
		if len(key) > maxKey+1 { // a prefix ends in an extra slash
			return answerError("a listed key has %d bytes, more than the limit of %d", len(key), maxKey)
		}
		var ok bool
		if e.Key, ok = strings.CutPrefix(key, m.at.prefix); !ok {
			return answerError("the listing contains %q for the prefix %q", key, m.at.prefix)
		}
		if e.Key != "" { // an empty key is the object that a console creates for the store
			list = append(list, e)
		}
		return nil
	}
	for i := range out.Contents {
		o := &out.Contents[i]
		e := driver.Entry{Info: driver.Info{Size: -1, Version: aws.ToString(o.ETag), ModTime: aws.ToTime(o.LastModified)}}
		if o.Size != nil {
			e.Info.Size = *o.Size
		}
		if err := add(o.Key, e); err != nil {
			return nil, err
		}
	}
	for _, p := range out.CommonPrefixes {
		if err := add(p.Prefix, driver.Entry{Prefix: true, Info: driver.Info{Size: -1}}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b driver.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// listed decodes a name in a listing.
func listed(out *s3.ListObjectsV2Output, raw *string) (string, error) {
	switch {
	case raw == nil:
		return "", answerError("the listing contains an entry without a name")
	case out.EncodingType != types.EncodingTypeUrl:
		return *raw, nil
	}
	name, err := url.QueryUnescape(*raw)
	if err != nil {
		return "", answerError("the listing contains the name %q, which is not URL-encoded", *raw)
	}
	return name, nil
}

// sameRequest checks that a page without entries belongs to this request, and is not a
// cached response to another request.
func sameRequest(out *s3.ListObjectsV2Output, prefix string) error {
	if out.Prefix == nil || *out.Prefix == prefix {
		return nil
	}
	if got, err := listed(out, out.Prefix); err != nil || got != prefix {
		return answerError("the listing has the prefix %q instead of %q", *out.Prefix, prefix)
	}
	return nil
}

// any reports whether the store contains an object.
func (m *bucketMap) any(ctx context.Context) (bool, error) {
	two := int32(2) // one of them may be the empty object that a console creates
	in := &s3.ListObjectsV2Input{Bucket: &m.at.bucket, Prefix: &m.at.prefix, MaxKeys: &two}
	for page, err := range m.pages(ctx, in) {
		if err != nil || len(page) > 0 {
			return len(page) > 0, err
		}
	}
	return false, nil
}
