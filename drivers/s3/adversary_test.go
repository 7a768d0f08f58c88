package s3_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// openOnHandler opens a store on a server with the given handler.
func openOnHandler(t *testing.T, mode driver.Mode, options map[string]any, handle http.HandlerFunc) driver.Map {
	t.Helper()
	srv := httptest.NewServer(handle)
	t.Cleanup(srv.Close)
	spec := specOn(srv.URL, "bucket", options)
	spec.Path, spec.Mode = "bucket/p", mode
	return openSpec(t, spec)
}

// refuse sends an S3 error document.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said so</Message></Error>", code)
}

// answer returns a handler that sends the given response to a GET.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		for i := 0; i < len(headers); i += 2 {
			if headers[i+1] == "" {
				w.Header().Del(headers[i])
			} else {
				w.Header().Set(headers[i], headers[i+1])
			}
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body)) // the write fails if the test closes the connection
	}
}

// TestResponses checks that a call with a wrong or refused response returns the
// expected error and no value.
func TestResponses(t *testing.T) {
	t.Parallel()
	part := &driver.Range{Offset: 2, Length: 3}
	for name, tc := range map[string]struct {
		handle  http.HandlerFunc
		opts    driver.GetOptions
		options map[string]any
		want    ncerr.Kind
		again   bool
		after   time.Duration
		text    string
	}{
		"range ignored":       {handle: answer(200, "0123456789"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true, text: "ignored the range"},
		"other range":         {handle: answer(206, "345", "Content-Range", "bytes 3-5/10"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true, text: "offset 3 and length 3"},
		"shorter range":       {handle: answer(206, "23", "Content-Range", "bytes 2-3/10"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true},
		"range and length":    {handle: answer(206, "234", "Content-Range", "bytes 2-9/10"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true},
		"no total":            {handle: answer(206, "234", "Content-Range", "bytes 2-4/*"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true},
		"nonsense range":      {handle: answer(206, "234", "Content-Range", "bytes 4-2/10"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true},
		"part without range":  {handle: answer(206, "234"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true, text: "without Content-Range"},
		"whole with range":    {handle: answer(200, "234", "Content-Range", "bytes 2-4/10"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrIO, again: true},
		"cut at the end":      {handle: answer(206, "23", "Content-Range", "bytes 2-3/4"), opts: driver.GetOptions{Range: part}, want: ncerr.ErrRange},
		"part of the whole":   {handle: answer(206, "01", "Content-Range", "bytes 0-1/10"), want: ncerr.ErrIO, again: true},
		"other version":       {handle: answer(200, "x"), opts: driver.GetOptions{IfMatch: `"v0"`}, want: ncerr.ErrConflict},
		"no version":          {handle: answer(200, "x", "ETag", "", "X-Amz-Request-Id", "r"), opts: driver.GetOptions{IfMatch: `"v0"`}, want: ncerr.ErrIO, again: true, text: "no ETag"},
		"wrong checksum":      {handle: answer(200, "content", "x-amz-checksum-crc32c", "AAAAAA=="), want: ncerr.ErrCorrupt, again: true, text: "checksum"},
		"limit":               {handle: answer(200, "0123456789"), opts: driver.GetOptions{Limit: 5}, want: ncerr.ErrLimit},
		"cut body":            {handle: cutBody, want: ncerr.ErrIO, again: true, text: "3 of 10 bytes"},
		"no length":           {handle: noLength, want: ncerr.ErrIO, again: true, text: "no Content-Length"},
		"no such key":         {handle: refusal(404, "NoSuchKey"), want: ncerr.ErrNotFound},
		"no such bucket":      {handle: refusal(404, "NoSuchBucket"), want: ncerr.ErrNoDataset},
		"404 of a web server": {handle: answer(404, "<html>not here</html>"), want: ncerr.ErrIO, again: true, text: "is the server an S3 server?"},
		"404 without a body":  {handle: answer(404, ""), want: ncerr.ErrIO, again: true},
		"NoSuchKey with 400":  {handle: refusal(400, "NoSuchKey"), want: ncerr.ErrS3},
		"denied":              {handle: refusal(403, "AccessDenied"), want: ncerr.ErrPermission},
		"denied is missing":   {handle: refusal(403, "AccessDenied"), options: map[string]any{"missing": "403"}, want: ncerr.ErrNotFound},
		"wrong secret":        {handle: refusal(403, "SignatureDoesNotMatch"), options: map[string]any{"missing": "403"}, want: ncerr.ErrAuth},
		"expired":             {handle: refusal(400, "ExpiredToken"), want: ncerr.ErrAuth},
		"delayed":             {handle: skewed(0), want: ncerr.ErrAuth, again: true},
		"clock is wrong":      {handle: skewed(-time.Hour), want: ncerr.ErrAuth, text: "clock of this machine"},
		"slow down":           {handle: refusal(503, "SlowDown", "Retry-After", "7"), want: ncerr.ErrIO, again: true, after: 7 * time.Second},
		"internal":            {handle: refusal(500, "InternalError"), want: ncerr.ErrIO, again: true},
		"gateway":             {handle: answer(502, "<html>"), want: ncerr.ErrIO, again: true},
		"too many":            {handle: answer(429, ""), want: ncerr.ErrIO, again: true},
		"other region":        {handle: refusal(301, "PermanentRedirect", "x-amz-bucket-region", "eu-north-1"), want: ncerr.ErrS3, text: "aws.region=eu-north-1"},
		"moved elsewhere":     {handle: refusal(307, "TemporaryRedirect", "Location", "http://127.0.0.1:1/"), want: ncerr.ErrS3, text: "answered 307"}, // the redirect must not be followed
		"temporary redirect":  {handle: refusal(307, "TemporaryRedirect", "x-amz-request-id", "r"), want: ncerr.ErrS3, text: "is the region (aws.region) or the endpoint wrong?"},
		"login elsewhere":     {handle: answer(302, "", "Location", "/login"), want: ncerr.ErrS3, text: "is the server an S3 server"},
		"proxy":               {handle: answer(407, ""), want: ncerr.ErrAuth, text: "the proxy requires"},
		"other code":          {handle: refusal(400, "NeverHeardOf"), want: ncerr.ErrS3, text: "NeverHeardOf: said so"},
		"precondition":        {handle: refusal(412, "PreconditionFailed"), opts: driver.GetOptions{IfMatch: `"v0"`}, want: ncerr.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openOnHandler(t, driver.Read, tc.options, tc.handle)
			data, _, err := m.Get(t.Context(), "k", &tc.opts, driver.Heap)
			if ncerr.KindOf(err) != tc.want || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("want %v with %q, got %v", tc.want, tc.text, err)
			}
			if again, after := ncerr.Retry(err); again != tc.again || after != tc.after {
				t.Errorf("want retryable %v after %v, got %v after %v", tc.again, tc.after, again, after)
			}
			if name == "cut body" && string(data) != "012" {
				t.Errorf("want the bytes received, got %q", data)
			} else if name != "cut body" && len(data) > 0 {
				t.Errorf("want no value with an error, got %q", data)
			}
			if strings.Contains(fmt.Sprint(err), "test-secret") {
				t.Errorf("the secret is in the error: %v", err)
			}
		})
	}
}

// TestOldDate checks that a response with an old date, such as a cached one, does not
// affect the date of the next signature.
func TestOldDate(t *testing.T) {
	t.Parallel()
	var dates []string
	m := openOnHandler(t, driver.Read, nil, func(w http.ResponseWriter, r *http.Request) {
		dates = append(dates, r.Header.Get("X-Amz-Date")) // requests are sequential
		answer(200, "x", "Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))(w, r)
	})
	for range 2 {
		if _, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); err != nil {
			t.Fatal(err)
		}
	}
	for _, date := range dates {
		if at, err := time.Parse("20060102T150405Z", date); err != nil || time.Since(at).Abs() > 10*time.Minute {
			t.Errorf("want a signature with the current date, got %q, %v", date, err)
		}
	}
	if len(dates) != 2 {
		t.Errorf("want 2 requests, got %d", len(dates))
	}
}

// skewed returns a handler that refuses requests with RequestTimeTooSkewed. The clock of
// the server is off by the given time.
func skewed(by time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refusal(403, "RequestTimeTooSkewed", "Date", time.Now().Add(by).UTC().Format(http.TimeFormat))(w, r)
	}
}

func refusal(status int, code string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		refuse(w, status, code)
	}
}

// cutBody announces ten bytes and sends three.
func cutBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("ETag", `"v1"`)
	w.Header().Set("Content-Length", "10")
	_, _ = w.Write([]byte("012"))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// noLength sends content without Content-Length.
func noLength(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("ETag", `"v1"`)
	_, _ = w.Write([]byte("012"))
	_ = http.NewResponseController(w).Flush()
	_, _ = w.Write([]byte("345"))
}

// TestWholeForRange checks that a whole object is accepted if it equals the requested
// range.
func TestWholeForRange(t *testing.T) {
	t.Parallel()
	m := openOnHandler(t, driver.Read, nil, answer(200, "0123456789"))
	for _, r := range []driver.Range{{Offset: 0, Length: 10}, {Offset: -10, Length: -1}, {Offset: -99, Length: -1}} {
		data, info, err := m.Get(t.Context(), "k", &driver.GetOptions{Range: &r}, driver.Heap)
		if err != nil || string(data) != "0123456789" || info.Size != 10 {
			t.Errorf("%+v: got %q, %+v, %v", r, data, info, err)
		}
	}
}

type page struct {
	Keys, Prefixes []string
	Trunc          bool
	Token          string
	Encoding       string
	Prefix         string // the prefix that the server claims to list
	Silent         bool   // omits IsTruncated
}

// write sends the page with one Contents or CommonPrefixes element per entry.
func (p page) write(w http.ResponseWriter) {
	fmt.Fprint(w, "<ListBucketResult>")
	for _, k := range p.Keys {
		fmt.Fprint(w, "<Contents><Key>")
		_ = xml.EscapeText(w, []byte(k))
		fmt.Fprint(w, "</Key><Size>3</Size></Contents>")
	}
	for _, k := range p.Prefixes {
		fmt.Fprintf(w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", k)
	}
	if !p.Silent {
		fmt.Fprintf(w, "<IsTruncated>%v</IsTruncated>", p.Trunc)
	}
	if p.Prefix != "" {
		fmt.Fprintf(w, "<Prefix>%s</Prefix>", p.Prefix)
	}
	if p.Token != "" {
		fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", p.Token)
	}
	if p.Encoding != "" {
		fmt.Fprintf(w, "<EncodingType>%s</EncodingType>", p.Encoding)
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// TestListings checks that each unusual listing ends, either with the correct entries or
// with an error.
func TestListings(t *testing.T) {
	t.Parallel()
	pages := func(list ...page) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
			list[min(n, len(list)-1)].write(w)
		}
	}
	for name, tc := range map[string]struct {
		handle http.HandlerFunc
		after  string
		deep   bool
		want   string
		err    string
	}{
		"no delimiters":        {handle: pages(page{Keys: []string{"p/a/b", "p/a/c"}, Trunc: true, Token: "1"}, page{Keys: []string{"p/a/d", "p/e"}}), want: "a/ e"},
		"unrequested prefixes": {handle: pages(page{Prefixes: []string{"p/a/"}, Keys: []string{"p/b"}}), deep: true, err: "a recursive listing contains"},
		"only a token":         {handle: pages(page{Keys: []string{"p/a"}, Silent: true, Token: "1"}, page{Keys: []string{"p/b"}}), want: "a b"},
		"other prefix":         {handle: pages(page{Prefix: "q/"}), err: `"q/"`},
		"same prefix":          {handle: pages(page{Prefix: "p/"})},
		"encoded prefix":       {handle: pages(page{Prefix: "p%2F", Encoding: "url"})},
		"two pages":            {handle: pages(page{Keys: []string{"p/a"}, Trunc: true, Token: "1"}, page{Keys: []string{"p/b"}}), want: "a b"},
		"one page":             {handle: pages(page{Keys: []string{"p/c", "p/a"}, Prefixes: []string{"p/b/"}}), want: "a b/ c"},
		"prefix twice":         {handle: pages(page{Prefixes: []string{"p/a/"}, Trunc: true, Token: "1"}, page{Prefixes: []string{"p/a/", "p/b/"}}), want: "a/ b/"},
		"name and prefix":      {handle: pages(page{Keys: []string{"p/a"}, Prefixes: []string{"p/a/"}}), want: "a a/"},
		"invalid keys":         {handle: pages(page{Keys: []string{"p/", "p/a", "p/b/"}, Prefixes: []string{"p//", "p/../"}}), want: "a"},
		"encoded":              {handle: pages(page{Keys: []string{"p/a+b", "p/%C3%B6", "p/x%2By"}, Encoding: "url"}), want: "a b x+y ö"},
		"not encoded":          {handle: pages(page{Keys: []string{"p/a+b", "p/a%20c"}}), want: "a%20c a+b"},
		"badly encoded":        {handle: pages(page{Keys: []string{"p/%zz"}, Encoding: "url"}), err: "not URL-encoded"},
		"empty page":           {handle: pages(page{Trunc: true, Token: "1"}, page{Keys: []string{"p/a"}}), want: "a"},
		"token repeats":        {handle: pages(page{Keys: []string{"p/a"}, Trunc: true, Token: "0"}), want: "a", err: "made no progress"},
		"no token":             {handle: pages(page{Keys: []string{"p/a"}, Trunc: true}), want: "a", err: "made no progress"},
		"out of order":         {handle: pages(page{Keys: []string{"p/b"}, Trunc: true, Token: "1"}, page{Keys: []string{"p/a"}}), want: "b", err: "not sorted"},
		"foreign key":          {handle: pages(page{Keys: []string{"q/b"}}), err: `"q/b"`},
		"long key":             {handle: pages(page{Keys: []string{"p/" + strings.Repeat("k", 1024)}}), err: "a listed key has 1026 bytes"},
		"endless tokens":       {handle: endlessPages, err: "made no progress"},
		"start is ignored":     {handle: pages(page{Keys: []string{"p/a", "p/b", "p/c"}}), after: "b", want: "c"},
		"no such key":          {handle: refusal(404, "NoSuchKey"), err: "NoSuchKey"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openOnHandler(t, driver.Read, nil, tc.handle)
			var got []string
			var failed error
			for e, err := range m.List(t.Context(), "", &driver.ListOptions{StartAfter: tc.after, Recursive: tc.deep}) {
				if failed = err; err == nil {
					got = append(got, e.Key)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("want %q, got %q", tc.want, s)
			}
			if (failed == nil) != (tc.err == "") || failed != nil && !strings.Contains(failed.Error(), tc.err) {
				t.Errorf("want an error with %q, got %v", tc.err, failed)
			}
			if failed != nil && ncerr.KindOf(failed) != ncerr.ErrIO {
				t.Errorf("want ErrIO, got %v", failed)
			}
		})
	}
}

// endlessPages sends empty pages, each with a new token.
func endlessPages(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.URL.Query().Get("continuation-token"))
	page{Trunc: true, Token: strconv.Itoa(n + 1)}.write(w)
}

// TestFailureBeforeRequest checks calls that must fail before a request is sent.
func TestFailureBeforeRequest(t *testing.T) {
	t.Parallel()
	sent := func(_ http.ResponseWriter, r *http.Request) { t.Errorf("request sent: %s %s", r.Method, r.URL) }
	m := openOnHandler(t, driver.Update, map[string]any{"conditional_writes": false}, sent)
	for _, tc := range []struct {
		key  string
		body driver.Body
		opts driver.PutOptions
		want ncerr.Kind
	}{
		{strings.Repeat("k", 1023), driver.Bytes("x"), driver.PutOptions{}, ncerr.ErrBadName},
		{"k", huge{}, driver.PutOptions{}, ncerr.ErrLimit},
		{"k", driver.Bytes("x"), driver.PutOptions{IfAbsent: true}, ncerr.ErrUnsupported},
		{"k", driver.Bytes("x"), driver.PutOptions{IfMatch: "v"}, ncerr.ErrUnsupported},
	} {
		if _, err := m.Put(t.Context(), tc.key, tc.body, &tc.opts); ncerr.KindOf(err) != tc.want {
			t.Errorf("key of %d bytes, %+v: want %v, got %v", len(tc.key), tc.opts, tc.want, err)
		}
	}
	ro := openOnHandler(t, driver.Read, nil, sent)
	if _, err := ro.Put(t.Context(), "k", driver.Bytes("x"), &driver.PutOptions{}); !errors.Is(err, ncerr.ErrReadOnly) {
		t.Errorf("want ErrReadOnly, got %v", err)
	}
	for options, want := range map[string]ncerr.Kind{
		`{"addressing": "other"}`: ncerr.ErrInvalid, `{"part_size": "1MiB"}`: ncerr.ErrInvalid, `{"page_size": 1001}`: ncerr.ErrInvalid,
		`{"connections": 0}`: ncerr.ErrInvalid, `{"missing": "404"}`: ncerr.ErrInvalid, `{"multipart_threshold": "6GiB"}`: ncerr.ErrInvalid,
	} {
		_, err := s3.New().Open(t.Context(), driver.OpenSpec{Path: "b/k", Endpoint: "http://127.0.0.1:1", Options: []byte(options)})
		if ncerr.KindOf(err) != want {
			t.Errorf("%s: want %v, got %v", options, want, err)
		}
	}
	for _, endpoint := range []string{"", "127.0.0.1", "ftp://h", "http://h/path", "http://u:p@h", "http://"} {
		_, err := s3.New().Open(t.Context(), driver.OpenSpec{Path: "b/k", Endpoint: endpoint})
		if ncerr.KindOf(err) != ncerr.ErrBadURL || strings.Contains(fmt.Sprint(err), "u:p") {
			t.Errorf("endpoint %q: want ErrBadURL, got %v", endpoint, err)
		}
	}
}

// huge is a body that exceeds the maximum size of an object.
type huge struct{ driver.Bytes }

func (huge) Size() int64 { return 6 << 40 }
