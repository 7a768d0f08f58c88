package s3

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// emptyPages is how many pages without a new entry may follow each other before
// a listing is given up: deleted versions make some, a broken server no end.
const emptyPages = 1000

// List implements driver.Map. What a server says twice is given once; a
// listing that is not in order, does not advance or names foreign keys is a
// Retryable ncerr.ErrIO. Names that are no keys of ours (such as the empty objects that
// consoles make for directories) are left out.
func (m *bucketMap) List(ctx context.Context, prefix string, opts *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	o := *opts
	return func(yield func(driver.Entry, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: &m.at.bucket, Prefix: m.name(prefix), MaxKeys: &m.cfg.PageSize}
		if !o.Recursive {
			slash := "/"
			in.Delimiter = &slash
		}
		if o.StartAfter != "" {
			in.StartAfter = m.name(o.StartAfter)
		}
		last := ""
		for page, err := range m.pages(ctx, in) {
			if err == nil {
				last, err = give(page, prefix, &o, last, yield)
			}
			switch {
			case err == errStop: //nolint:errorlint // made here, never wrapped
				return
			case err != nil:
				yield(driver.Entry{}, err)
				return
			}
		}
	}
}

// errStop says that nobody wants more entries.
const errStop = ncerr.ErrInternal

// give yields the entries of a page that come after start and last, and gives
// the new last.
func give(page []driver.Entry, prefix string, o *driver.ListOptions, last string, yield func(driver.Entry, error) bool) (string, error) {
	for _, e := range page {
		if o.Recursive && e.Prefix {
			return last, answerError("it listed %q instead of what is below it", e.Key)
		}
		if !o.Recursive && !e.Prefix {
			e = segment(e, prefix)
		}
		switch {
		case !strings.HasPrefix(e.Key, prefix):
			return last, answerError("it listed %q below %q", e.Key, prefix)
		case e.Key <= o.StartAfter || e.Key == last:
			continue
		case e.Key < last:
			return last, answerError("its listing is not in order: %q comes after %q", e.Key, last)
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

// segment gives the prefix in whose place a server that knows no delimiters
// lists an object.
func segment(e driver.Entry, prefix string) driver.Entry {
	rest, below := strings.CutPrefix(e.Key, prefix)
	if i := strings.IndexByte(rest, '/'); below && i >= 0 && i < len(rest)-1 {
		return driver.Entry{Key: e.Key[:len(prefix)+i+1], Prefix: true, Info: driver.Info{Size: -1}}
	}
	return e
}

// pages gives the pages of a listing, each in byte order, with keys as they
// are in the store. Keys outside the store are an error.
func (m *bucketMap) pages(ctx context.Context, in *s3.ListObjectsV2Input) iter.Seq2[[]driver.Entry, error] {
	return func(yield func([]driver.Entry, error) bool) {
		seen, last, empty := "", "", 0
		in.EncodingType = types.EncodingTypeUrl // keys may have letters that XML has not
		for {
			out, err := m.api.ListObjectsV2(ctx, in)
			if err != nil {
				if err = fail(ctx, err); ncerr.KindOf(err) == ncerr.ErrNotFound {
					err = answerError("it knows no such key")
				}
				yield(nil, err)
				return
			}
			page, err := m.entries(out)
			if err == nil && len(page) == 0 {
				err = sameQuestion(out, *in.Prefix)
			}
			if n := len(page); err == nil && n > 0 {
				if page[n-1].Key < last {
					page, err = nil, answerError("its listing is not in order: %q comes after %q", page[n-1].Key, last)
				} else if page[n-1].Key > last {
					last, empty = page[n-1].Key, 0
				}
			}
			token := ""
			if out.NextContinuationToken != nil {
				token = *out.NextContinuationToken
			}
			more := token != ""
			if out.IsTruncated != nil {
				more = *out.IsTruncated
			}
			if !yield(page, err) || err != nil || !more {
				return
			}
			if token == "" || token == seen || empty >= emptyPages {
				yield(nil, answerError("its listing does not advance"))
				return
			}
			empty++
			seen, in.ContinuationToken = token, &token
		}
	}
}

// entries gives the entries of one page in byte order.
func (m *bucketMap) entries(out *s3.ListObjectsV2Output) ([]driver.Entry, error) {
	list := make([]driver.Entry, 0, len(out.Contents)+len(out.CommonPrefixes))
	add := func(raw *string, e driver.Entry) error {
		key, err := listed(out, raw)
		if err != nil {
			return err
		}
		if len(key) > maxKey+1 { // a prefix has a slash besides
			return answerError("it listed a key of %d bytes; S3 has keys of at most %d", len(key), maxKey)
		}
		var ok bool
		if e.Key, ok = strings.CutPrefix(key, m.at.prefix); !ok {
			return answerError("it listed %q below %q", key, m.at.prefix)
		}
		if e.Key != "" { // the empty object that a console makes for the store
			list = append(list, e)
		}
		return nil
	}
	for i := range out.Contents {
		o := &out.Contents[i]
		e := driver.Entry{Info: driver.Info{Size: -1}}
		if o.Size != nil {
			e.Info.Size = *o.Size
		}
		if o.ETag != nil {
			e.Info.Version = *o.ETag
		}
		if o.LastModified != nil {
			e.Info.ModTime = *o.LastModified
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

// listed gives a name in a listing as it is in the bucket.
func listed(out *s3.ListObjectsV2Output, raw *string) (string, error) {
	switch {
	case raw == nil:
		return "", answerError("it listed an entry without a name")
	case out.EncodingType != types.EncodingTypeUrl:
		return *raw, nil
	}
	name, err := url.QueryUnescape(*raw)
	if err != nil {
		return "", answerError("it listed the name %q, which is not encoded as it says", *raw)
	}
	return name, nil
}

// sameQuestion makes sure that a page without entries is the answer to the
// question that was asked, and not one that a proxy has kept from another.
func sameQuestion(out *s3.ListObjectsV2Output, prefix string) error {
	if out.Prefix == nil || *out.Prefix == prefix {
		return nil
	}
	if got, err := listed(out, out.Prefix); err != nil || got != prefix {
		return answerError("it listed what is below %q when asked for what is below %q", *out.Prefix, prefix)
	}
	return nil
}

// any reports whether there is an object below the store's place.
func (m *bucketMap) any(ctx context.Context) (bool, error) {
	two := int32(2) // one may be a console's empty object
	in := &s3.ListObjectsV2Input{Bucket: &m.at.bucket, Prefix: &m.at.prefix, MaxKeys: &two}
	for page, err := range m.pages(ctx, in) {
		if err != nil || len(page) > 0 {
			return len(page) > 0, err
		}
	}
	return false, nil
}
