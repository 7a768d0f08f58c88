//go:build linux

package host_test

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// lend returns memory lent by the pipeline, with a copy of src.
func lend(t *testing.T, pl codecdriver.Pipeline, src []byte) (mem []byte, release func()) {
	t.Helper()
	mem, release = pl.(codecdriver.InputLender).LendInput(int64(len(src)))
	if mem == nil {
		t.Fatal("LendInput returned no memory")
	}
	copy(mem, src)
	return mem, release
}

// TestPlaneInput checks that lent memory and parts of it can be encoded, even after the
// process that lent the memory has died. It also checks that memory is not lent twice.
func TestPlaneInput(t *testing.T) {
	t.Parallel()
	h := newHost(t, levelOptions(host.Process))
	pl, _ := pipeline(t, h, 1<<20, codecdriver.Step{ID: "xor"}, codecdriver.Step{ID: "twice"})
	src := bytes.Repeat([]byte("lent"), 100_000)
	want := encodeOne(t.Context(), t, pl, src)
	mem, release := lend(t, pl, src)
	for i, part := range [][]byte{mem, mem[:1000], mem, mem[4:1004], mem[:0]} {
		if got := encodeOne(t.Context(), t, pl, part); !bytes.Equal(got, encodeOne(t.Context(), t, pl, bytes.Clone(part))) {
			t.Errorf("part %d: lent memory and other memory have different encodings", i)
		}
	}
	other, releaseOther := lend(t, pl, src)
	if &other[0] == &mem[0] {
		t.Error("LendInput returned the same memory twice")
	}
	releaseOther()
	if p, err := os.FindProcess(h.Plugins()[0].PID); err != nil || p.Kill() != nil {
		t.Fatal("the process cannot be killed")
	}
	if got := encodeOne(t.Context(), t, pl, mem); !bytes.Equal(got, want) {
		t.Error("a new process returned different data")
	}
	release()
	release() // harmless
	again, release := lend(t, pl, src)
	defer release()
	if got := encodeOne(t.Context(), t, pl, again); !bytes.Equal(got, want) {
		t.Error("encoding memory lent by the new process returned different data")
	}
}

// TestPlaneInputCeiling checks that lent memory is limited, so that other jobs have
// room.
func TestPlaneInputCeiling(t *testing.T) {
	t.Parallel()
	pl, _ := pipeline(t, newHost(t, levelOptions(host.Process)), 1<<20, codecdriver.Step{ID: "xor"})
	held := int64(0)
	for {
		mem, release := pl.(codecdriver.InputLender).LendInput(8 << 20)
		if mem == nil {
			break
		}
		defer release()
		if held += 8 << 20; held > 1<<30 {
			t.Fatal("LendInput returned more than 1 GiB in total")
		}
	}
	if held == 0 {
		t.Fatal("LendInput returned no memory")
	}
	if mem, _ := pl.(codecdriver.InputLender).LendInput(1 << 40); mem != nil {
		t.Error("LendInput(1 << 40) returned memory")
	}
	if got := encodeOne(t.Context(), t, pl, []byte("abc")); len(got) != 3 {
		t.Errorf("a job without lent memory: %q", got)
	}
}

// TestPlaneInputQuarantine checks that released memory is not lent again while an
// abandoned job may still read it.
func TestPlaneInputQuarantine(t *testing.T) {
	t.Parallel()
	o := planeOptions(t, "plane-held")
	ctx := cancelOnLog(t, &o, "received a job and does not answer")
	h := newHost(t, o)
	pl, _ := pipeline(t, h, 100, codecdriver.Step{ID: "zoo"})
	mem, release := lend(t, pl, []byte("wait"))
	err := pl.DecodeMany(ctx, []codecdriver.Job{{Src: mem, Limit: 4}}, func(int, []byte, error) { t.Error("the sink was called") })
	if err != context.Canceled { //nolint:errorlint // the host must return it unchanged
		t.Fatalf("want the caller's cancellation, got %v", err)
	}
	release()
	other, releaseOther := lend(t, pl, []byte("four"))
	if &other[0] == &mem[0] {
		t.Error("LendInput returned memory that the plugin may still read")
	}
	releaseOther()
	encodeOne(t.Context(), t, pl, []byte("over"))
	for range 6000 { // until the plugin has answered
		other, releaseOther = lend(t, pl, []byte("four"))
		releaseOther()
		if &other[0] == &mem[0] {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("LendInput did not return the memory again")
}
