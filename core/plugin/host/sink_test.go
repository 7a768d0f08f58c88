package host_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// TestSinkCalls checks that a sink can call the plugin while its own call has the
// maximum number of messages in flight.
func TestSinkCalls(t *testing.T) {
	t.Parallel()
	for _, level := range []host.Isolation{inlineProcess, host.Process} {
		pl, _ := pipeline(t, newHost(t, levelOptions(level)), 1<<20, codecdriver.Step{ID: "xor"})
		src := bytes.Repeat([]byte("sink"), 100)
		jobs := make([]codecdriver.Job, 2000)
		for i := range jobs {
			jobs[i] = codecdriver.Job{Src: src, Limit: 64 << 10} // one message has 16 jobs
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends the test after a deadlock
		defer cancel()
		n := 0
		err := pl.EncodeMany(ctx, jobs, func(i int, out []byte, err error) {
			if err != nil {
				t.Errorf("job %d: %v", i, err)
			}
			if n++; n%500 == 1 && !bytes.Equal(encodeOne(ctx, t, pl, src), out) {
				t.Errorf("job %d: the call in the sink returned different data", i)
			}
		})
		if err != nil || n != len(jobs) {
			t.Errorf("%s: got results of %d of %d jobs, %v", level, n, len(jobs), err)
		}
	}
}
