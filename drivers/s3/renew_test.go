package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// expiring is a bucket that accepts one access key at a time.
type expiring struct {
	key   atomic.Value // string
	asked atomic.Int64
	mu    sync.Mutex
	held  []byte // content of the last put
}

func (s *expiring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.key.Load().(string)+"/") {
		refuse(w, http.StatusBadRequest, "ExpiredToken")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("ETag", `"v1"`)
	switch r.Method {
	case http.MethodPut:
		s.held = body
	case http.MethodGet:
		w.Header().Set("Content-Length", strconv.Itoa(len(s.held)))
		_, _ = w.Write(s.held) // the client notices missing bytes
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	}
}

// TestExpiredCredentials checks that a store continues with new credentials that
// another program writes after the server rejects the old ones, and that without new
// ones a refused request is not repeated.
func TestExpiredCredentials(t *testing.T) { // not parallel, because it sets environment variables
	home := t.TempDir()
	name := filepath.Join(home, "credentials")
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", name)
	writeCredentials := func(key string) {
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = s\naws_session_token = t\n", key)
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	writeCredentials("one")
	s := &expiring{}
	s.key.Store("one")
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	spec := specOn(srv.URL, "bucket", nil)
	spec.Mode = driver.Update
	o := s3.New()
	m, err := o.Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"one", "two", "three"} {
		s.key.Store(key)
		if i > 0 { // the new key is not in the file yet
			s.asked.Store(0)
			if _, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{IfAbsent: true}); ncerr.KindOf(err) != ncerr.ErrAuth || s.asked.Load() != 1 {
				t.Errorf("want ErrAuth after one request, got %v after %d", err, s.asked.Load())
			}
			writeCredentials(key)
		}
		want := bytes.Repeat([]byte(key), 1000)
		s.asked.Store(0)
		if _, err := m.Put(t.Context(), "k", driver.Bytes(want), &driver.PutOptions{IfAbsent: true}); err != nil {
			t.Fatalf("put with key %s: %v", key, err)
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); err != nil || !bytes.Equal(got, want) {
					t.Errorf("get with key %s: want the stored content, got %d bytes, %v", key, len(got), err)
				}
			})
		}
		all.Wait()
		if n := s.asked.Load(); n != 11+int64(min(i, 1)) {
			t.Errorf("key %s: %d requests", key, n)
		}
	}
	if err := m.Delete(t.Context(), "k", &driver.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.key.Store("four")
	writeCredentials("four")
	if m, err = o.Open(t.Context(), spec); err != nil { // shares the client with the first Open
		t.Fatal(err)
	}
	if _, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); err != nil {
		t.Error(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
