package s3_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// wire is a server that keeps objects in memory and records requests.
type wire struct {
	mu      sync.Mutex
	dials   int
	heads   []http.Header // headers of all requests
	lengths []int64       // announced lengths of their bodies
	objects map[string][]byte
}

func (s *wire) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heads, s.lengths = append(s.heads, r.Header.Clone()), append(s.lengths, r.ContentLength)
	w.Header().Set("ETag", `"v1"`)
	if r.Method == http.MethodPut {
		s.objects[r.URL.Path] = body
		return
	}
	data, there := s.objects[r.URL.Path]
	if !there {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("X-Amz-Checksum-Crc32c", crc(data))
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // the client notices missing bytes
}

func crc(data []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}

// start starts the server and counts its connections.
func (s *wire) start(t *testing.T, tls bool) *httptest.Server {
	t.Helper()
	s.objects = map[string][]byte{}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dials++
		}
	}
	if tls {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// dialed returns the number of connections.
func (s *wire) dialed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// TestRequestCost checks the cost of transfers: one request each, without waiting for
// 100-continue and without a trailing checksum, and a single connection for sequential
// requests, whether the object exists or not.
func TestRequestCost(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("nczarr"), 700_000)
	var s *wire
	for tries := 0; s == nil || s.dialed() != 1 && tries < 10; tries++ {
		// On a busy machine net/http sometimes closes a connection, if it notices only
		// 50 ms after the response that the whole request was sent.
		s = new(wire)
		spec := specOn(s.start(t, false).URL, "bucket", nil)
		spec.Mode = driver.Update
		use(t, openSpec(t, spec), content)
	}
	if n := s.dialed(); n != 1 {
		t.Errorf("want 1 connection, got %d", n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heads) != 9 {
		t.Errorf("want 9 requests, got %d", len(s.heads))
	}
	for i, h := range s.heads {
		for _, name := range []string{"Expect", "Content-Encoding", "X-Amz-Trailer", "Transfer-Encoding"} {
			if h.Get(name) != "" {
				t.Errorf("request %d has %s: %s", i, name, h.Get(name))
			}
		}
		if len(h.Get("X-Amz-Content-Sha256")) != 64 {
			t.Errorf("request %d: without TLS the signature covers the body, got %q", i, h.Get("X-Amz-Content-Sha256"))
		}
		if i%3 == 0 && (s.lengths[i] != int64(len(content)) || h.Get("X-Amz-Checksum-Crc32c") != crc(content)) {
			t.Errorf("request %d: want %d bytes with their CRC32C, got %d with %q", i, len(content), s.lengths[i], h.Get("X-Amz-Checksum-Crc32c"))
		}
	}
}

// use writes and reads content three times, and each time reads a missing object.
func use(t *testing.T, m driver.Map, content []byte) {
	t.Helper()
	for range 3 {
		if _, err := m.Put(t.Context(), "k", driver.Bytes(content), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		got, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("want the %d bytes that were written, got %d: %v", len(content), len(got), err)
		}
		if _, _, err := m.Get(t.Context(), "absent", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != ncerr.ErrNotFound {
			t.Fatal(err)
		}
	}
}

// TestRequestCostTLS checks that bodies are not hashed for the signature under TLS, and
// that the requests have a CRC32C, which detects damage.
func TestRequestCostTLS(t *testing.T) { // not parallel, because it sets an environment variable
	var s wire
	srv := s.start(t, true)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(bundle, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	spec := specOn(srv.URL, "bucket", nil)
	spec.Mode = driver.Update
	m, err := s3.New().Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	content := []byte("content")
	use(t, m, content)
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.heads); i += 3 {
		if got := s.heads[i].Get("X-Amz-Content-Sha256"); got != "UNSIGNED-PAYLOAD" {
			t.Errorf("request %d: want an unsigned body, got %q", i, got)
		}
		if got := s.heads[i].Get("X-Amz-Checksum-Crc32c"); got != crc(content) {
			t.Errorf("request %d: want the CRC32C of the content, got %q", i, got)
		}
	}
}

// TestChangedAcceptEncoding checks that requests remain valid if an intermediate
// server changes Accept-Encoding, as Google's does.
func TestChangedAcceptEncoding(t *testing.T) {
	t.Parallel()
	srv := s3server.Start(t)
	target, err := url.Parse(srv.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		if got := r.In.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("%s accepts the encodings %q", r.In.Method, got)
		}
		r.Out.Header.Set("Accept-Encoding", "identity,gzip(gfe)")
	}})
	t.Cleanup(front.Close)
	c := *srv
	c.Endpoint = front.URL
	m, _ := open(t, &c, nil)
	use(t, m, []byte("content"))
}
