package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// TestRefusalIsNotAbsence checks that with the option missing=403 only S3's own
// AccessDenied means a missing object, and not the page of a proxy or the refusal of a
// whole account.
func TestRefusalIsNotAbsence(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]http.HandlerFunc{
		"page of a proxy":   answer(403, "<html>blocked</html>"),
		"no body":           answer(403, ""),
		"account suspended": refusal(403, "AccountProblem"),
		"access disabled":   refusal(403, "AllAccessDisabled"),
		"other code":        refusal(403, "NeverHeardOf"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openOnHandler(t, driver.Read, map[string]any{"missing": "403"}, handle)
			if _, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != ncerr.ErrPermission {
				t.Errorf("get: want ErrPermission, got %v", err)
			}
			if _, err := m.Stat(t.Context(), "k"); ncerr.KindOf(err) != ncerr.ErrPermission {
				t.Errorf("stat: want ErrPermission, got %v", err)
			}
		})
	}
}

// TestOtherSuccessStatus checks that only statuses 200 and 206 return an object.
func TestOtherSuccessStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{202, 203, 204, 205} {
		m := openOnHandler(t, driver.Read, nil, answer(status, ""))
		if data, info, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != ncerr.ErrIO {
			t.Errorf("%d: want ErrIO, got %q, %+v, %v", status, data, info, err)
		}
	}
}

// endless writes text repeatedly, up to 256 MiB or until the reader closes the
// connection, and counts the bytes in sent.
func endless(w io.Writer, text string, sent *atomic.Int64) {
	block := strings.Repeat(text, 1+64<<10/len(text))
	for sent.Load() < 256<<20 {
		n, err := io.WriteString(w, block)
		if sent.Add(int64(n)); err != nil {
			return
		}
	}
}

// TestEndlessDocuments checks that the driver limits how much it reads of an error
// document or of a page of a listing.
func TestEndlessDocuments(t *testing.T) {
	t.Parallel()
	const most = 64 << 20 // limit in bytes, including the buffers of the connection
	for name, tc := range map[string]struct {
		status     int
		head, body string
	}{
		"error":   {403, "<Error><Code>AccessDenied</Code><Message>", "no"},
		"server":  {500, "", "no"},
		"listing": {200, "<ListBucketResult><IsTruncated>false</IsTruncated>", "<Contents><Key>p/a</Key></Contents>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			m := openOnHandler(t, driver.Read, nil, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.head)
				endless(w, tc.body, &sent)
			})
			failed := false
			if name == "listing" {
				for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
					failed = err != nil
				}
			} else {
				_, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
				failed = err != nil && len(err.Error()) < 4096
			}
			if !failed || sent.Load() > most {
				t.Errorf("want a failure within the limit, got failed %v after %d bytes", failed, sent.Load())
			}
		})
	}
}

// TestCircularListing checks that deleting a store ends even if the server's listing is
// circular.
func TestCircularListing(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			fmt.Fprint(w, "<DeleteResult></DeleteResult>")
			return
		}
		n := asked.Add(1)
		if n > 100 {
			http.Error(w, "enough", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>p/%d</Key></Contents>"+
			"<NextContinuationToken>%d</NextContinuationToken></ListBucketResult>", n%2, n%2)
	}))
	t.Cleanup(srv.Close)
	spec := specOn(srv.URL, "bucket", nil)
	spec.Path = "bucket/p"
	err := s3.New().Remove(t.Context(), spec)
	if ncerr.KindOf(err) != ncerr.ErrIO || asked.Load() > 10 {
		t.Errorf("want ErrIO within 10 requests, got after %d: %v", asked.Load(), err)
	}
}

// TestHostileMessage checks that a message from a server stays on one line and is
// truncated.
func TestHostileMessage(t *testing.T) {
	t.Parallel()
	m := openOnHandler(t, driver.Read, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Request-Id", strings.Repeat("i", 5000))
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<Error><Code>AccessDenied&#10;x</Code><Message>one&#10;two&#13;&#x9b;31m %s</Message></Error>", strings.Repeat("long ", 5000))
	})
	_, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
	text := fmt.Sprint(err)
	if err == nil || strings.ContainsAny(text, "\n\r\u009b") || len(text) > 4096 {
		t.Errorf("want a short error on one line, got %d bytes: %.200q", len(text), text)
	}
}

// TestReplayedByProxy checks that a conditional write that a proxy sent twice succeeds
// although the second response reports a conflict, and that a server that accepts every
// abort does not make a completed upload fail.
func TestReplayedByProxy(t *testing.T) {
	t.Parallel()
	for _, parts := range []bool{false, true} {
		for _, second := range []string{"PreconditionFailed", "NoSuchUpload", "lost"} {
			if !parts && second == "NoSuchUpload" {
				continue
			}
			t.Run(fmt.Sprintf("parts=%v/%s", parts, second), func(t *testing.T) {
				t.Parallel()
				s := &replaying{second: second}
				options := map[string]any{}
				if parts {
					options["multipart_threshold"] = 0
				}
				m := openOnHandler(t, driver.Update, options, s.serve)
				info, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{IfAbsent: true})
				if err != nil || info.Size != 7 || info.Version != `"v1"` {
					t.Errorf("want size 7 and version \"v1\", got %+v, %v", info, err)
				}
			})
		}
	}
}

// replaying is a server that stores one object, and refuses a repetition of the request
// that stored it.
type replaying struct {
	second string
	id     atomic.Value
}

func (s *replaying) serve(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	q := r.URL.Query()
	w.Header().Set("ETag", `"v1"`)
	if id := r.Header.Get("X-Amz-Meta-" + s3.WriteID); id != "" {
		s.id.Store(id)
	}
	switch {
	case r.Method == http.MethodPost && q.Has("uploads"):
		fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	case r.Method == http.MethodPut && q.Has("partNumber"):
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		w.Header().Set("X-Amz-Meta-"+s3.WriteID, s.id.Load().(string))
		w.Header().Set("Content-Range", "bytes 0-0/7")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "c")
	case s.second == "lost":
		panic(http.ErrAbortHandler)
	case s.second == "NoSuchUpload":
		refuse(w, http.StatusNotFound, s.second)
	default:
		refuse(w, http.StatusPreconditionFailed, s.second)
	}
}

// TestInvalidKeysAreNotListed checks that a listing omits objects whose keys are not valid
// in a store, and returns the others.
func TestInvalidKeysAreNotListed(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("<ListBucketResult><EncodingType>url</EncodingType>")
	for _, key := range []string{"", "%01", "%2E%2E/a", "./a", "a", "a%09b", "a%7Fb", "a%C2%80b", "a%C2%9Fb", "a%C2%A0b", "b/", "b//a"} {
		fmt.Fprintf(&page, "<Contents><Key>p/%s</Key><ETag>e</ETag><Size>0</Size></Contents>", key)
	}
	page.WriteString("</ListBucketResult>")
	m := openOnHandler(t, driver.Read, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page.String()) })
	var got []string
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Key)
	}
	if want := []string{"a", "a\u00a0b"}; !slices.Equal(got, want) {
		t.Errorf("listed keys: want %q, got %q", want, got)
	}
}

// TestTemporaryFailuresAreRetryable checks that temporary failures are retryable: a
// listing that is truncated or breaks the protocol, and a part of an upload whose ETag
// was lost.
func TestTemporaryFailuresAreRetryable(t *testing.T) {
	t.Parallel()
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	for name, handle := range map[string]http.HandlerFunc{
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "<ListBucketResult><Contents><Key>p/a</Key>")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"no document":  page("hello"),
		"does not end": page("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
		"foreign":      page("<ListBucketResult><Contents><Key>q/a</Key></Contents></ListBucketResult>"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got error
			for _, err := range openOnHandler(t, driver.Read, nil, handle).List(t.Context(), "", &driver.ListOptions{}) {
				got = err
			}
			if can, _ := ncerr.Retry(got); ncerr.KindOf(got) != ncerr.ErrIO || !can {
				t.Errorf("want a retryable ErrIO, got %v", got)
			}
		})
	}
	t.Run("part", func(t *testing.T) {
		t.Parallel()
		m := openOnHandler(t, driver.Update, map[string]any{"multipart_threshold": 0}, func(w http.ResponseWriter, r *http.Request) {
			switch q := r.URL.Query(); {
			case q.Has("uploads"):
				fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
			case r.Method == http.MethodPost:
				refuse(w, http.StatusBadRequest, "InvalidPart")
			}
		})
		_, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{})
		if can, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrIO || !can {
			t.Errorf("want a retryable ErrIO, got %v", err)
		}
	})
}

// TestUnexpectedDocument checks that a response without the expected document, such as
// one from a proxy, is not accepted as an empty listing or a successful deletion.
func TestUnexpectedDocument(t *testing.T) {
	t.Parallel()
	const list = "<ListBucketResult><Contents><Key>p/a</Key></Contents></ListBucketResult>"
	for name, said := range map[string]string{
		"empty": "", "text": "ok", "page": "<!DOCTYPE html><html><body>log in</body></html>", "other": "<DeleteMarker></DeleteMarker>",
		"blanks": strings.Repeat(" ", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := "list"
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case wrong == "list" || r.Method == http.MethodPost:
					_, _ = io.WriteString(w, said)
				default:
					_, _ = io.WriteString(w, strings.Repeat(" ", 5000)+list)
				}
			}))
			t.Cleanup(srv.Close)
			spec := specOn(srv.URL, "bucket", map[string]any{"multipart_threshold": 0})
			spec.Path, spec.Mode = "bucket/p", driver.Update
			m := openSpec(t, spec)
			for _, wrong = range []string{"list", "delete"} {
				if err := s3.New().Remove(t.Context(), spec); ncerr.KindOf(err) != ncerr.ErrIO {
					t.Errorf("remove, %s wrong: want ErrIO, got %v", wrong, err)
				}
			}
			if _, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{}); ncerr.KindOf(err) != ncerr.ErrIO {
				t.Errorf("put in parts: want ErrIO, got %v", err)
			}
		})
	}
}

// TestUnconfirmedWrite checks that a response from a proxy is not accepted as a successful
// write.
func TestUnconfirmedWrite(t *testing.T) {
	t.Parallel()
	m := openOnHandler(t, driver.Update, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>log in</html>") })
	for name, o := range map[string]driver.PutOptions{"plain": {}, "if absent": {IfAbsent: true}} {
		_, err := m.Put(t.Context(), "k", driver.Bytes("content"), &o)
		want := map[bool]ncerr.Kind{false: ncerr.ErrIO, true: ncerr.ErrAmbiguous}[o.IfAbsent]
		if ncerr.KindOf(err) != want {
			t.Errorf("%s: want %v, got %v", name, want, err)
		}
	}
}

// TestTruncatedReadReturnsChecksum checks that a truncated read of a whole object
// returns the checksum of the whole, which the caller needs after reading the rest, and
// not a checksum of parts.
func TestTruncatedReadReturnsChecksum(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sum  string
		want string
	}{
		"whole":    {sum: "4waSgw==", want: "4waSgw=="},
		"of parts": {sum: "4waSgw==-2"},
		"none":     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := openOnHandler(t, driver.Read, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"v1"`)
				if tc.sum != "" {
					w.Header().Set("X-Amz-Checksum-Crc32c", tc.sum)
				}
				cutBody(w, r)
			})
			data, info, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
			if err == nil || string(data) != "012" || info.CRC32C != tc.want {
				t.Errorf("got %q, %+v, %v", data, info, err)
			}
		})
	}
}
