package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestProxyPageIsRejected checks that a page that a proxy sends with status 200 for every
// request is never accepted as an object, a write or a deletion.
func TestProxyPageIsRejected(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]string{
		"page":          {"ETag", "", "Content-Type", "text/html"},
		"text":          {"ETag", "", "Content-Type", "text/plain"},
		"page with tag": {"Content-Type", "text/html; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handle := answer(200, "<html>log in</html>", headers...)
			if name == "text" {
				handle = answer(200, "log in", headers...)
			}
			m := openOnHandler(t, driver.Update, nil, handle)
			failed := func(op string, err error) {
				if can, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrIO || !can {
					t.Errorf("%s: want a retryable ErrIO, got %v", op, err)
				}
			}
			_, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
			failed("get", err)
			_, err = m.Stat(t.Context(), "k")
			failed("stat", err)
			_, err = m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{})
			failed("put", err)
			failed("delete", m.Delete(t.Context(), "k", &driver.DeleteOptions{}))
		})
	}
}

// TestDeleteConfirmation checks that Delete accepts every response that confirms a
// deletion.
func TestDeleteConfirmation(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]http.HandlerFunc{
		"no content": answer(204, ""), "nothing": answer(200, ""), "blanks": answer(200, "\r\n"), "not there": refusal(404, "NoSuchKey"),
	} {
		m := openOnHandler(t, driver.Update, nil, handle)
		if err := m.Delete(t.Context(), "k", &driver.DeleteOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUploadWithoutID checks that the driver sends no further request if a server
// starts an upload without an id, because an abort without an id would delete the
// object. If a proxy responds to the abort, the outcome of the upload is unknown.
func TestUploadWithoutID(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"<UploadId></UploadId>", ""} {
		var mu sync.Mutex
		var asked []string
		m := openOnHandler(t, driver.Update, map[string]any{"multipart_threshold": 0}, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r.Method+" "+r.URL.String())
			mu.Unlock()
			w.Header().Set("ETag", `"v1"`)
			fmt.Fprint(w, "<InitiateMultipartUploadResult>"+doc+"</InitiateMultipartUploadResult>")
		})
		_, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{})
		if ncerr.KindOf(err) != ncerr.ErrIO || !strings.Contains(err.Error(), "has no id") || len(asked) != 1 {
			t.Errorf("response %q: want one request and ErrIO about the id, got %v after %q", doc, err, asked)
		}
	}
	m := openOnHandler(t, driver.Update, map[string]any{"multipart_threshold": 0}, func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Has("uploads"):
			fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
		case q.Has("partNumber"):
			w.Header().Set("ETag", `"p"`)
		case r.Method == http.MethodPost:
			panic(http.ErrAbortHandler)
		case r.Method == http.MethodDelete:
			_, _ = io.WriteString(w, "<html>log in</html>")
		default:
			refuse(w, http.StatusNotFound, "NoSuchKey")
		}
	})
	if _, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{IfAbsent: true}); ncerr.KindOf(err) != ncerr.ErrAmbiguous {
		t.Errorf("want ErrAmbiguous, got %v", err)
	}
}

// TestEmptyObject checks Stat if the server refuses to send the first byte: either HEAD
// confirms that the object is empty, or Stat fails.
func TestEmptyObject(t *testing.T) {
	t.Parallel()
	for n, want := range map[string]ncerr.Kind{"0": 0, "3": ncerr.ErrIO} {
		m := openOnHandler(t, driver.Read, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				refuse(w, http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
				return
			}
			answer(200, "", "Content-Length", n)(w, r)
		})
		if info, err := m.Stat(t.Context(), "k"); ncerr.KindOf(err) != want || info.Size != 0 {
			t.Errorf("length %s: want %v, got %+v, %v", n, want, info, err)
		}
	}
}

// TestCanceledWriteCompletes uses a server that completes a request after the caller
// has canceled it. The call must not end earlier, so that it cannot undo a later call.
func TestCanceledWriteCompletes(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		var done atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		m := openOnHandler(t, driver.Update, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			time.Sleep(200 * time.Millisecond) // a call that does not wait would return earlier
			done.Store(true)
			w.Header().Set("ETag", `"x"`)
		})
		var err error
		if method == http.MethodPut {
			_, err = m.Put(ctx, "k", driver.Bytes("content"), &driver.PutOptions{})
		} else {
			err = m.Delete(ctx, "k", &driver.DeleteOptions{})
		}
		if err != nil && !errors.Is(err, context.Canceled) || !done.Load() {
			t.Errorf("%s: want a return after the server has finished, got %v, finished %v", method, err, done.Load())
		}
		cancel()
	}
}

// TestHangingAbort checks that a canceled upload ends although the server no longer
// responds, and that the abort is not repeated.
func TestHangingAbort(t *testing.T) {
	t.Parallel()
	var aborts atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := openOnHandler(t, driver.Update, map[string]any{"multipart_threshold": 0}, func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Has("uploads"):
			fmt.Fprint(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
			return
		case r.Method == http.MethodDelete:
			aborts.Add(1)
		default:
			cancel()
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			<-r.Context().Done()
		}
	})
	_, err := m.Put(ctx, "k", driver.Bytes("content"), &driver.PutOptions{})
	if !errors.Is(err, context.Canceled) || aborts.Load() != 1 {
		t.Errorf("want context.Canceled after one abort, got %v after %d", err, aborts.Load())
	}
}
