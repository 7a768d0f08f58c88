package host_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// TestSinkCalls has a sink that calls the plugin while its own call has the maximum
// number of messages in flight.
func TestSinkCalls(t *testing.T) {
	t.Parallel()
	for _, level := range []host.Isolation{inlineProcess, host.Process} {
		pl, _ := pipeline(t, newHost(t, levelOptions(level)), 1<<20, codecdriver.Step{ID: "xor"})
		src := bytes.Repeat([]byte("sink"), 100)
		jobs := make([]codecdriver.Job, 2000)
		for i := range jobs {
			jobs[i] = codecdriver.Job{Src: src, Limit: 64 << 10} // 16 in a message
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // rather than forever
		defer cancel()
		n := 0
		err := pl.EncodeMany(ctx, jobs, func(i int, out []byte, err error) {
			if err != nil {
				t.Errorf("job %d: %v", i, err)
			}
			if n++; n%500 == 1 && !bytes.Equal(encodeOne(ctx, t, pl, src), out) {
				t.Errorf("the sink of job %d gets other data from the plugin", i)
			}
		})
		if err != nil || n != len(jobs) {
			t.Errorf("%s: %d of %d jobs, %v", level, n, len(jobs), err)
		}
	}
}
