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

// lend gives memory of the pipeline with src in it.
func lend(t *testing.T, pl codecdriver.Pipeline, src []byte) (mem []byte, release func()) {
	t.Helper()
	mem, release = pl.(codecdriver.InputLender).LendInput(int64(len(src)))
	if mem == nil {
		t.Fatal("nothing was lent")
	}
	copy(mem, src)
	return mem, release
}

// TestPlaneInput: chunks in memory of the pipeline are encoded as others are,
// whole or in part, again and again, and by a fresh process when that which lent
// it is gone. What is given back is lent again.
func TestPlaneInput(t *testing.T) {
	t.Parallel()
	h := newHost(t, levelOptions(host.Process))
	pl, _ := pipeline(t, h, 1<<20, codecdriver.Step{ID: "xor"}, codecdriver.Step{ID: "twice"})
	src := bytes.Repeat([]byte("lent"), 100_000)
	want := encodeOne(t.Context(), t, pl, src)
	mem, release := lend(t, pl, src)
	for i, part := range [][]byte{mem, mem[:1000], mem, mem[4:1004], mem[:0]} {
		if got := encodeOne(t.Context(), t, pl, part); !bytes.Equal(got, encodeOne(t.Context(), t, pl, bytes.Clone(part))) {
			t.Errorf("part %d comes back changed", i)
		}
	}
	other, releaseOther := lend(t, pl, src)
	if &other[0] == &mem[0] {
		t.Error("one memory was lent twice")
	}
	releaseOther()
	if p, err := os.FindProcess(h.Plugins()[0].PID); err != nil || p.Kill() != nil {
		t.Fatal("the process cannot be killed")
	}
	if got := encodeOne(t.Context(), t, pl, mem); !bytes.Equal(got, want) {
		t.Error("a fresh process encodes something else")
	}
	release()
	release() // does no harm
	again, release := lend(t, pl, src)
	defer release()
	if got := encodeOne(t.Context(), t, pl, again); !bytes.Equal(got, want) {
		t.Error("memory of the fresh process is encoded to something else")
	}
}

// TestPlaneInputCeiling: callers that hold memory leave room for jobs without.
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
			t.Fatal("there is no ceiling")
		}
	}
	if held == 0 {
		t.Fatal("nothing was lent")
	}
	if mem, _ := pl.(codecdriver.InputLender).LendInput(1 << 40); mem != nil {
		t.Error("more was lent than there is")
	}
	if got := encodeOne(t.Context(), t, pl, []byte("abc")); len(got) != 3 {
		t.Errorf("a job without lent memory: %q", got)
	}
}

// TestPlaneInputQuarantine: memory that a job which was left behind may still be
// read from is lent to nobody, though its caller has given it back.
func TestPlaneInputQuarantine(t *testing.T) {
	t.Parallel()
	o := planeOptions(t, "plane-held")
	ctx := onCue(t, &o, "asked and does not answer")
	h := newHost(t, o)
	pl, _ := pipeline(t, h, 100, codecdriver.Step{ID: "zoo"})
	mem, release := lend(t, pl, []byte("wait"))
	err := pl.DecodeMany(ctx, []codecdriver.Job{{Src: mem, Limit: 4}}, func(int, []byte, error) { t.Error("it was answered") })
	if err != context.Canceled { //nolint:errorlint // unchanged is the promise
		t.Fatalf("want the caller's cancellation, got %v", err)
	}
	release()
	other, releaseOther := lend(t, pl, []byte("four"))
	if &other[0] == &mem[0] {
		t.Error("it was lent while the plugin may read it")
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
	t.Error("it was never lent again")
}
