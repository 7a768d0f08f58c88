package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// fault selects how a faulty proxy treats a request.
type fault int

const (
	none      fault = iota
	before          // the connection breaks before the server receives the request
	after           // the connection breaks after the server has answered
	slowDown        // the server refuses the request
	internal        // an error response; the server does not receive the request
	afterFail       // an error response after the server has carried out the request
)

// faulty starts a proxy for a server. choose selects the fault for each request.
func faulty(t *testing.T, s *s3server.Server, choose func(r *http.Request) fault) *s3server.Server {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}, Transport: &inTurn{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch choose(r) {
		case none:
			proxy.ServeHTTP(w, r)
		case before:
			panic(http.ErrAbortHandler)
		case after:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case afterFail:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			refuse(w, http.StatusInternalServerError, "InternalError")
		case slowDown:
			refuse(w, http.StatusServiceUnavailable, "SlowDown")
		case internal:
			refuse(w, http.StatusInternalServerError, "InternalError")
		}
	}))
	t.Cleanup(srv.Close)
	c := *s
	c.Endpoint = srv.URL
	return &c
}

// inTurn sends one request at a time to the server. versitygw 1.8.0 checks the condition
// of a put and stores the object in two steps, so two concurrent puts can both succeed.
// This cannot happen in Amazon S3.
type inTurn struct{ mu sync.Mutex }

func (s *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// TestLostResponse checks the result of a conditional Put whose response is lost.
func TestLostResponse(t *testing.T) {
	t.Parallel()
	srv := s3server.Start(t)
	for name, tc := range map[string]struct {
		fault fault
		want  ncerr.Kind
		there bool
	}{
		"response lost":  {after, 0, true},
		"response wrong": {afterFail, 0, true},
		"request lost":   {before, ncerr.ErrAmbiguous, false},
		"server failed":  {internal, ncerr.ErrAmbiguous, false},
		"slow down":      {slowDown, ncerr.ErrIO, false},
	} {
		for _, parts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/parts=%v", name, parts), func(t *testing.T) {
				t.Parallel()
				options, method := map[string]any{}, http.MethodPut
				if parts {
					options["multipart_threshold"], method = 0, http.MethodPost // the last request of an upload
				}
				bad := faulty(t, srv, func(r *http.Request) fault {
					if r.Method == method && !r.URL.Query().Has("uploads") {
						return tc.fault
					}
					return none
				})
				m, _ := open(t, bad, options)
				info, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{IfAbsent: true})
				want := tc.want
				if parts && want == ncerr.ErrAmbiguous {
					want = ncerr.ErrIO // the upload was aborted, so it certainly failed
				}
				if ncerr.KindOf(err) != want {
					t.Fatalf("want %v, got %v", want, err)
				}
				data, got, gerr := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
				switch {
				case tc.there && (gerr != nil || string(data) != "content" || got.Version != info.Version || info.Size != 7):
					t.Errorf("got %q, %+v, %v; the put returned %+v", data, got, gerr, info)
				case !tc.there && ncerr.KindOf(gerr) != ncerr.ErrNotFound:
					t.Errorf("want ErrNotFound, got %v", gerr)
				}
			})
		}
	}
}

// TestFailedUploadIsAborted checks that a failed upload in parts is aborted, and that the
// object stays invisible until it is complete.
func TestFailedUploadIsAborted(t *testing.T) {
	t.Parallel()
	srv := s3server.Start(t)
	bad := faulty(t, srv, func(r *http.Request) fault {
		if r.URL.Query().Get("partNumber") == "3" {
			return internal
		}
		return none
	})
	m, _ := open(t, bad, map[string]any{"multipart_threshold": "5MiB", "part_size": "5MiB"})
	_, err := m.Put(t.Context(), "k", driver.Bytes(bytes.Repeat([]byte("x"), 21<<20)), &driver.PutOptions{})
	if again, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrIO || !again {
		t.Errorf("want a retryable ErrIO, got %v", err)
	}
	if _, err := m.Stat(t.Context(), "k"); ncerr.KindOf(err) != ncerr.ErrNotFound {
		t.Errorf("want ErrNotFound, got %v", err)
	}
	left, err := srv.Client().ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &srv.Bucket})
	if err != nil || len(left.Uploads) > 0 {
		t.Errorf("uploads left: %v, %v", left.Uploads, err)
	}
}

// TestDamageInTransit checks that the server rejects content that was damaged in
// transit and does not store the object.
func TestDamageInTransit(t *testing.T) {
	t.Parallel()
	srv := s3server.Start(t)
	bad := faulty(t, srv, func(r *http.Request) fault {
		if r.Method == http.MethodPut {
			r.Body = damaged("Content")
		}
		return none
	})
	m, _ := open(t, bad, nil)
	_, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{})
	if again, _ := ncerr.Retry(err); ncerr.KindOf(err) != ncerr.ErrCorrupt || !again {
		t.Errorf("want a retryable ErrCorrupt, got %v", err)
	}
	if _, err := m.Stat(t.Context(), "k"); ncerr.KindOf(err) != ncerr.ErrNotFound {
		t.Errorf("want ErrNotFound, got %v", err)
	}
}

type body struct{ *strings.Reader }

func (body) Close() error { return nil }

func damaged(text string) body { return body{strings.NewReader(text)} }

// call is an operation on one key.
type call struct {
	op      byte   // 'g' get, 'n' put if absent, 'm' put if match, 'd' delete
	expect  string // the content whose version a put if match expects
	content string // the content to put
}

type outcome struct {
	content string // the content read; empty if the object does not exist
	refused bool   // the condition was false
	unknown bool   // the call failed and may take effect at any time
}

// conditional models the content of one key.
var conditional = porcupine.NondeterministicModel{ // never changed
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		in, out := input.(call), output.(outcome)
		holds := in.op == 'd' || in.op == 'n' && state == "" || in.op == 'm' && state == in.expect
		next := in.content
		switch {
		case in.op == 'g' && (out.unknown || out.content == state):
			return []any{state}
		case in.op == 'g':
			return nil
		case out.unknown && holds:
			return []any{state, next}
		case out.unknown:
			return []any{state}
		case out.refused && !holds:
			return []any{state}
		case !out.refused && holds:
			return []any{next}
		}
		return nil
	},
}

// TestConditionalPutsLinearizable lets several clients put, replace and delete one key
// through a network that loses requests and responses, and checks that a sequential
// order of the calls explains the results.
func TestConditionalPutsLinearizable(t *testing.T) {
	t.Parallel()
	srv := s3server.Start(t)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(7, 11))
	bad := faulty(t, srv, func(r *http.Request) fault {
		if r.Method == http.MethodGet {
			return none
		}
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(6) > 0 {
			return none
		}
		return before + fault(rng.IntN(5))
	})
	m, _ := open(t, bad, nil)
	history, unknown := recordCalls(t, m)
	if unknown == 0 {
		t.Error("no outcome was unknown, so the test is useless")
	}
	model := conditional.ToModel()
	if got := porcupine.CheckOperationsTimeout(model, history, 10*time.Minute); got != porcupine.Ok {
		t.Errorf("%v: no sequential order of %d calls explains the results", got, len(history))
	}
	lie := []porcupine.Operation{
		{ClientId: 0, Input: call{op: 'n', content: "a"}, Output: outcome{unknown: true}, Call: 1, Return: 1 << 59},
		{ClientId: 1, Input: call{op: 'n', content: "b"}, Output: outcome{refused: true}, Call: 2, Return: 3},
		{ClientId: 1, Input: call{op: 'g'}, Output: outcome{content: "b"}, Call: 4, Return: 5},
	}
	if porcupine.CheckOperations(model, lie) {
		t.Error("the check accepted a value that was never stored")
	}
}

func recordCalls(t *testing.T, m driver.Map) (history []porcupine.Operation, unknown int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var now atomic.Int64 // a clock that returns unique times
	for client := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(client)))
			for i := range 30 {
				in := call{op: "gnmmmd"[rng.IntN(6)]}
				o := driver.PutOptions{IfAbsent: true}
				if in.op != 'd' && in.op != 'g' {
					in.content = fmt.Sprintf("%d.%d", client, i)
				}
				if in.op == 'm' {
					data, info, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
					if err != nil {
						continue
					}
					in.expect, o = string(data), driver.PutOptions{IfMatch: info.Version}
				}
				began := now.Add(1)
				out := doCall(t, m, in, &o)
				end := now.Add(1)
				if out.unknown {
					end = 1 << 59 // the call may take effect at any later time
				}
				mu.Lock()
				// A call that may still be in progress gets a separate client id, because
				// the calls of one client must not overlap.
				id := client
				if out.unknown {
					unknown++
					id = 10 + len(history)
				}
				history = append(history, porcupine.Operation{ClientId: id, Input: in, Call: began, Output: out, Return: end})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return history, unknown
}

func doCall(t *testing.T, m driver.Map, in call, o *driver.PutOptions) outcome {
	t.Helper()
	var err error
	var out outcome
	switch in.op {
	case 'g':
		var data []byte
		if data, _, err = m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) == ncerr.ErrNotFound {
			err = nil
		}
		out.content = string(data)
	case 'd':
		err = m.Delete(t.Context(), "k", &driver.DeleteOptions{})
	default:
		_, err = m.Put(t.Context(), "k", driver.Bytes(in.content), o)
	}
	switch ncerr.KindOf(err) {
	case 0:
	case ncerr.ErrObjectExists, ncerr.ErrConflict:
		out.refused = true
	case ncerr.ErrAmbiguous, ncerr.ErrIO:
		out.unknown = true
	default:
		t.Errorf("%c: %v", in.op, err)
	}
	return out
}
