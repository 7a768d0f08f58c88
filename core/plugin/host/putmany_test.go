package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// putBatch performs puts in one call and compares the error of each put with want,
// where nil means success.
func putBatch(t *testing.T, m driver.Map, reqs []driver.PutRequest, want ...error) {
	t.Helper()
	seen := make([]int, len(reqs))
	err := m.(driver.PutManyer).PutMany(t.Context(), reqs, func(i int, info driver.Info, err error) {
		seen[i]++
		switch {
		case want[i] == nil && (err != nil || info.Size != reqs[i].Body.Size()):
			t.Errorf("put %q: %+v, %v", reqs[i].Key, info, err)
		case want[i] != nil && !errors.Is(err, want[i]):
			t.Errorf("put %q: want %v, got %v", reqs[i].Key, want[i], err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range seen {
		if n != 1 {
			t.Errorf("put %q: got %d results, want 1", reqs[i].Key, n)
		}
	}
}

// numbered returns n puts with different keys and bodies of at least size bytes.
func numbered(n, size int) []driver.PutRequest {
	reqs := make([]driver.PutRequest, n)
	for i := range reqs {
		reqs[i] = driver.PutRequest{Key: fmt.Sprint("k", i), Body: driver.Bytes(bytes.Repeat([]byte{byte(i)}, size+i))}
	}
	return reqs
}

// TestPutManyCalls checks the number of calls that a PutMany makes: one with shared
// memory, and one per MiB without it, even if the driver does not implement PutMany. It
// also checks that bodies of all sizes are stored.
func TestPutManyCalls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		isolation host.Isolation
		driver    string
		maxCalls  int64
	}{
		{host.Process, "file", 1}, {inlineProcess, "file", 3}, {host.Loopback, "file", 3}, {host.Loopback, "mem", 3},
	} {
		t.Run(string(tc.isolation)+" "+tc.driver, func(t *testing.T) {
			t.Parallel()
			opts := levelOptions(tc.isolation)
			dir := t.TempDir()
			opts.Roots = []string{dir}
			if tc.driver == "mem" {
				opts.Builtin = plugin.Builtin{Openers: []driver.Opener{memmap.NewOpener()}}
			}
			if tc.isolation == host.Process && sharedLevel() == 0 {
				tc.maxCalls = 3
			}
			h := newHost(t, opts)
			m := open(t, h, tc.driver, driver.OpenSpec{Path: filepath.Join(dir, "s"), Mode: driver.Create})
			calls := func() (n int64) {
				for _, p := range h.Plugins() {
					n += p.Calls
				}
				return n
			}
			reqs := numbered(128, 10_000)
			before := calls()
			putBatch(t, m, reqs, make([]error, len(reqs))...)
			if n := calls() - before; n > tc.maxCalls {
				t.Errorf("128 puts of 10 KB made %d calls, want at most %d", n, tc.maxCalls)
			}
			reqs = append(numbered(20, 300_000), driver.PutRequest{Key: "large", Body: driver.Bytes(bytes.Repeat([]byte("x"), 5<<20))}, driver.PutRequest{Key: "empty", Body: driver.Bytes{}})
			putBatch(t, m, reqs, make([]error, len(reqs))...)
			for _, r := range reqs {
				want, _ := driver.ReadBody(r.Body)
				if got, err := get(t.Context(), m, r.Key); err != nil || got != string(want) {
					t.Errorf("get %q: %d bytes, %v", r.Key, len(got), err)
				}
			}
		})
	}
}

// TestPutManyOfADyingPlugin checks that puts are repeated in a new process, except
// conditional puts, whose outcome is unknown. A put that kills each process must not
// affect the other puts.
func TestPutManyOfADyingPlugin(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Process, inlineProcess} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			m := open(t, newHost(t, levelOptions(isolation)), "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
			put := func(key string, absent bool) driver.PutRequest {
				return driver.PutRequest{Key: key, Body: driver.Bytes(key), Opts: driver.PutOptions{IfAbsent: absent}}
			}
			putBatch(t, m, []driver.PutRequest{put("a", false), put("new", true), put("die-once", false), put("b", false)}, nil, ncerr.ErrAmbiguous, nil, nil)
			for _, key := range []string{"a", "b"} {
				if got, err := get(t.Context(), m, key); err != nil || got != key {
					t.Errorf("%s: got %q, %v", key, got, err)
				}
			}
			putBatch(t, m, []driver.PutRequest{put("kind", false), put("c", false), put("a", true)}, ncerr.ErrAuth, nil, ncerr.ErrObjectExists)
			putBatch(t, m, []driver.PutRequest{put("d", false), put("die", false), put("e", false)}, nil, ncerr.ErrAmbiguous, nil)
		})
	}
}

// TestPutManyCanceled checks that PutMany cancels the puts in progress, waits for all puts
// that were sent, and sends no further puts. Level 0 cannot cancel puts that were sent.
func TestPutManyCanceled(t *testing.T) {
	t.Parallel()
	needSharedMemory(t)
	opts := host.Options{}
	ctx := cancelOnLog(t, &opts, "it waits")
	m := open(t, newHost(t, opts), "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	reqs := append([]driver.PutRequest{{Key: "first", Body: driver.Bytes("1")}, {Key: "say-wait", Body: driver.Bytes("2")}}, numbered(300, 100_000)...)
	var stored []string
	err := m.(driver.PutManyer).PutMany(ctx, reqs, func(i int, _ driver.Info, err error) {
		if err != nil {
			t.Errorf("put %q: %v", reqs[i].Key, err)
		}
		stored = append(stored, reqs[i].Key)
	})
	if err != context.Canceled { //nolint:errorlint // the host must return it unchanged
		t.Errorf("want the caller's cancellation, got %v", err)
	}
	if len(stored) == len(reqs) {
		t.Error("the canceled PutMany performed all puts")
	}
	for _, key := range stored {
		if _, err := m.Stat(t.Context(), key); err != nil {
			t.Errorf("stat of the stored object %q: %v", key, err)
		}
	}
	before := countEntries(t, m)
	putBatch(t, m, numbered(3, 10), nil, nil, nil)
	time.Sleep(100 * time.Millisecond) // longer than the delay of a late put
	if after := countEntries(t, m); after < before || after > before+3 {
		t.Errorf("the store has %d objects after the canceled PutMany, and %d after 3 more puts", before, after)
	}
}

// countEntries returns the number of entries at the top of a store.
func countEntries(t *testing.T, m driver.Map) (n int) {
	t.Helper()
	for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestPutManyOfAnOldPlugin checks that a plugin that does not announce PutMany receives
// the puts one by one.
func TestPutManyOfAnOldPlugin(t *testing.T) {
	t.Parallel()
	h := newHost(t, zooOptions(t, "put-old", "nczarr-driver-zoo"))
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
	putBatch(t, m, numbered(5, 100), make([]error, 5)...)
	if i := h.Plugins()[0]; i.Jobs != 5 {
		t.Errorf("want 5 jobs, got %+v", i)
	}
}

// TestPutManyLongMessages checks that messages do not become too large if they contain
// the maximum number of puts with the longest keys, errors and versions.
func TestPutManyLongMessages(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Process, inlineProcess} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			h := newHost(t, levelOptions(isolation))
			zip := open(t, h, "zip", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s.zip"), Mode: driver.Create})
			reqs := numbered(handshake.MaxPuts, 10)
			for i := range reqs {
				reqs[i].Key += strings.Repeat("k", zip.Capabilities().MaxKey-len(reqs[i].Key))
			}
			putBatch(t, zip, reqs, make([]error, len(reqs))...)
			for _, r := range reqs {
				if got, err := get(t.Context(), zip, r.Key); err != nil || got != string(r.Body.(driver.Bytes)) {
					t.Fatalf("got %q, %v", got, err)
				}
			}

			m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
			want := make([]error, handshake.MaxPuts)
			for i := range reqs {
				reqs[i].Key, want[i] = fmt.Sprint("long-error#", i), ncerr.ErrAuth
			}
			putBatch(t, m, reqs, want...)
			for i := range reqs {
				reqs[i].Key, want[i] = fmt.Sprint("long-version#", i), nil
				if levelOf(isolation) == 0 {
					want[i] = ncerr.ErrAmbiguous // the answers in one message are shortened
				}
			}
			putBatch(t, m, reqs, want...)
			putBatch(t, m, []driver.PutRequest{{Key: strings.Repeat("k", 2<<20), Body: driver.Bytes("x")}, {Key: "a", Body: driver.Bytes("a")}}, ncerr.ErrLimit, nil)
		})
	}
}

// unreadable is a body that cannot be read.
type unreadable int64

func (u unreadable) Size() int64 { return int64(u) }

func (u unreadable) ReadAt([]byte, int64) (int, error) {
	return 0, fmt.Errorf("source: %w", context.DeadlineExceeded)
}

// TestPutManyUnreadable checks that only the put of an unreadable body fails, even if the
// error is a context error.
func TestPutManyUnreadable(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Process, inlineProcess} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			m := open(t, newHost(t, levelOptions(isolation)), "file", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
			putBatch(t, m, []driver.PutRequest{
				{Key: "large", Body: unreadable(2 << 20)},
				{Key: "a", Body: driver.Bytes("a")},
				{Key: "small", Body: unreadable(10)},
				{Key: "b", Body: driver.Bytes("b")},
			}, context.DeadlineExceeded, nil, context.DeadlineExceeded, nil)
			if n := countEntries(t, m); n != 2 {
				t.Errorf("the store has %d objects, want 2", n)
			}
		})
	}
}

// TestPutManyWithoutRestart checks that the outcome of puts sent to a plugin that died
// is unknown if the plugin cannot be started again.
func TestPutManyWithoutRestart(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Process, inlineProcess} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			opts := levelOptions(isolation)
			opts.MaxRestarts = -1
			m := open(t, newHost(t, opts), "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
			reqs := []driver.PutRequest{{Key: "a", Body: driver.Bytes("a")}, {Key: "die", Body: driver.Bytes("b")}}
			seen := 0
			err := m.(driver.PutManyer).PutMany(t.Context(), reqs, func(i int, _ driver.Info, err error) {
				seen++
				if !errors.Is(err, ncerr.ErrAmbiguous) {
					t.Errorf("put %q: want ErrAmbiguous, got %v", reqs[i].Key, err)
				}
			})
			if seen != 2 {
				t.Errorf("want 2 results, got %d, %v", seen, err)
			}
		})
	}
}
