package s3server_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
)

// TestThreadEnds starts a server on a thread that ends. The server must end only with
// the process.
func TestThreadEnds(t *testing.T) {
	t.Parallel()
	var srv *s3server.Server
	thread := make(chan int)
	go func() {
		defer close(thread)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		srv = s3server.Start(t)
		thread <- unix.Gettid()
	}()
	tid, ok := <-thread
	if !ok {
		return // Start has reported the reason
	}
	for tid != os.Getpid() { // Go keeps the first thread
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := srv.MakeBucket(t.Context(), "another"); err != nil {
		t.Error(err)
	}
}
