package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// inRenewed returns the number of running calls of provider.renewed, which search for new
// credentials or wait for such a search.
func inRenewed() int {
	stacks := make([]byte, 1<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("(*provider).renewed("))
}

// TestSlowLookup checks that a call whose context is done does not wait for a search
// for credentials by another call, and that waiting calls share one search.
func TestSlowLookup(t *testing.T) { // not parallel, because it sets environment variables
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(v, "")
	}
	var looked atomic.Int64
	begun, proceed := make(chan struct{}, 100), make(chan struct{})
	hold := func() {}
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if looked.Add(1) > 1 {
			begun <- struct{}{}
			<-proceed
			hold() // returns when all calls that share the search have arrived
		}
		_, _ = io.WriteString(w, `{"AccessKeyId":"one","SecretAccessKey":"s","Token":"t","Expiration":"2099-01-01T00:00:00Z"}`)
	}))
	t.Cleanup(source.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", source.URL)
	s := &expiring{}
	s.key.Store("two")
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	m := openSpec(t, func() driver.OpenSpec {
		spec := specOn(srv.URL, "bucket", nil)
		spec.Mode = driver.Update
		return spec
	}())
	get := func(ctx context.Context, err chan<- error) {
		_, _, e := m.Get(ctx, "k", &driver.GetOptions{}, driver.Heap)
		err <- e
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go get(t.Context(), first)
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	go get(ctx, second)
	select {
	case err := <-second:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the caller's context, got %v", err)
		}
		close(proceed)
	case <-time.After(time.Minute):
		t.Error("a canceled call waits for another call")
		close(proceed)
		<-second
	}
	<-first
	const calls = 20
	before, refused := looked.Load(), s.asked.Load()
	hold = sync.OnceFunc(func() {
		for range 12_000 { // wait for at most two minutes
			if s.asked.Load() >= refused+calls && inRenewed() >= calls {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("want all %d calls to share the search, got %d", calls, inRenewed())
	})
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != ncerr.ErrAuth {
				t.Errorf("want ErrAuth, got %v", err)
			}
		})
	}
	all.Wait()
	if n := looked.Load() - before; n > 10 { // a call that arrives during a search shares the next one
		t.Errorf("want at most 10 searches by %d calls, got %d", calls, n)
	}
}
