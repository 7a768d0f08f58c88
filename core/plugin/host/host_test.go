package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// TestSeparateProcesses checks that drivers and filters run in separate processes.
func TestSeparateProcesses(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	text, err := get(t.Context(), m, "pid")
	if err != nil {
		t.Fatal(err)
	}
	driverPID, _ := strconv.Atoi(text)
	p, err := h.Filter("trouble")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := p.Open("trouble", []byte(`{"mode":"pid"}`), codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 100)
	n, err := c.Decode(t.Context(), dst, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	filterPID, _ := strconv.Atoi(string(dst[:n]))
	own := os.Getpid()
	if driverPID == 0 || filterPID == 0 || driverPID == own || filterPID == own || driverPID == filterPID {
		t.Errorf("want three processes, got host %d, driver %d, filters %d", own, driverPID, filterPID)
	}
	served := map[int]int64{}
	for _, i := range h.Plugins() {
		served[i.PID] += i.Jobs
		if i.Isolation != host.Process || i.Level != sharedLevel() || i.Uptime <= 0 || i.Calls == 0 {
			t.Errorf("unexpected info: %+v", i)
		}
	}
	if served[driverPID] == 0 || served[filterPID] == 0 {
		t.Errorf("want jobs served in both processes, got %v", served)
	}
	if _, ok := p.(filters); ok {
		t.Error("the provider runs in this process")
	}
}

// TestGrantSets checks which stores share a process.
func TestGrantSets(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		m := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(dir, name), Mode: driver.Create})
		if _, err := m.Put(t.Context(), "k", driver.Bytes("v"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		r := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(dir, name)})
		if got, err := get(t.Context(), r, "k"); err != nil || got != "v" {
			t.Errorf("want %q, got %q, %v", "v", got, err)
		}
	}
	var got []string
	for _, i := range h.Plugins() {
		got = append(got, i.Serves+" "+strings.Join(i.Grants, " "))
	}
	// Both stores are created in one directory, but each one is read by a separate
	// process.
	want := []string{"driver:file/read read:" + dir + "/a", "driver:file/read read:" + dir + "/b", "driver:file/write write:" + dir}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("want processes %q, got %q", want, got)
	}
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		isolation host.Isolation
		same      bool // whether Driver returns the built-in opener
	}{{host.Process, false}, {host.Loopback, false}, {host.InProcess, true}} {
		h := newHost(t, host.Options{Isolation: tc.isolation})
		o, err := h.Driver("trouble")
		if err != nil {
			t.Fatal(err)
		}
		if _, same := o.(trouble); same != tc.same {
			t.Errorf("%s: Driver returned the built-in opener: %t, want %t", tc.isolation, same, tc.same)
		}
		if _, err := h.Driver("floppy"); !errors.Is(err, ncerr.ErrUnsupported) {
			t.Errorf("%s: want ErrUnsupported, got %v", tc.isolation, err)
		}
		if _, err := h.Filter("floppy"); !errors.Is(err, ncerr.ErrNoFilter) || !strings.Contains(err.Error(), "nczarr-filter-floppy") {
			t.Errorf("%s: want ErrNoFilter naming a plugin, got %v", tc.isolation, err)
		}
		if len(h.Drivers()) != 4 || len(h.Filters()) != len(builtins().Registry().Filters()) {
			t.Errorf("%s: got %v, %v", tc.isolation, h.Drivers(), h.Filters())
		}
	}
}

// TestNoMain checks that a host does not execute a program that did not call
// plugin.Main.
func TestNoMain(t *testing.T) {
	t.Parallel()
	h, err := host.New(&host.Options{Builtin: builtins(), Isolation: host.Process, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(context.Background()) }()
	o, err := h.Driver("file")
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.Open(t.Context(), driver.OpenSpec{Path: t.TempDir()})
	if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "plugin.Main") {
		t.Errorf("want ErrPlugin about plugin.Main, got %v", err)
	}
	if (plugin.Self{}).Valid() {
		t.Error("the zero Self is valid")
	}
}

func TestErrorsCross(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Process, host.Loopback} {
		opts := host.Options{Isolation: isolation}
		hangs := cancelOnLog(t, &opts, "it hangs")
		h := newHost(t, opts)
		m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		_, err := get(t.Context(), m, "kind")
		var e *ncerr.Error
		if !errors.As(err, &e) || e.Kind != ncerr.ErrAuth || e.Op != "log in" || e.Key != "bucket" || !e.Retryable || e.RetryAfter != 3*time.Second {
			t.Errorf("%s: got %#v", isolation, err)
		}
		if want := `log in "bucket": credentials missing or rejected: no such user`; err.Error() != want {
			t.Errorf("%s: want %q, got %q", isolation, want, err)
		}
		if _, err = get(t.Context(), m, "nothing"); !errors.Is(err, ncerr.ErrNotFound) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: want ErrNotFound, got %v", isolation, err)
		}
		if _, err = get(t.Context(), m, "own-timeout"); ncerr.KindOf(err) != ncerr.ErrIO || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: want ErrIO, got %v", isolation, err)
		}
		data, info, err := m.Get(t.Context(), "half", &driver.GetOptions{}, driver.Heap)
		if string(data) != "01234" || info.Size != 10 || !errors.Is(err, ncerr.ErrCorrupt) {
			t.Errorf("%s: want the received data, got %q, %v, %v", isolation, data, info, err)
		}
		_, _, err = m.Get(t.Context(), "pid", &driver.GetOptions{}, driver.Into(nil))
		if !errors.Is(err, ncerr.ErrShortBuffer) {
			t.Errorf("%s: want alloc's error, got %v", isolation, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err = get(ctx, m, "wait"); err != context.DeadlineExceeded { //nolint:errorlint // the host must return it unchanged
			t.Errorf("%s: want the caller's deadline, got %v", isolation, err)
		}
		cancel()
		if isolation == host.Loopback { // a hanging goroutine in this process could not be stopped
			continue
		}
		o, _ := h.Driver("trouble")
		hung, err := o.Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "h"), Mode: driver.Create})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = get(hangs, hung, "hang"); err != context.Canceled { //nolint:errorlint // as above
			t.Errorf("%s: want the caller's cancellation, got %v", isolation, err)
		}
		if _, err = get(t.Context(), m, "pid"); err != nil {
			t.Errorf("%s: a call after the plugin ignored a cancellation: %v", isolation, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := hung.Close(ctx); err != context.DeadlineExceeded { //nolint:errorlint // as above
			t.Errorf("%s: want the caller's deadline from Close during a call that hangs, got %v", isolation, err)
		}
		cancel()
	}
}

// TestCrash checks that a call is repeated after a crash, and which error it returns if
// the repeated call crashes too.
func TestCrash(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	before, _ := get(t.Context(), m, "pid")

	data, err := get(t.Context(), m, "die-once")
	if err != nil || data != "\x01" {
		t.Fatalf("want the repeated read to succeed, got %q, %v", data, err)
	}
	after, _ := get(t.Context(), m, "pid")
	if before == after || after == "" {
		t.Errorf("want a new process, got %s and %s", before, after)
	}
	if _, err := m.Put(t.Context(), "panic-once", driver.Bytes("body"), &driver.PutOptions{}); err != nil {
		t.Errorf("want the repeated put to succeed, got %v", err)
	}
	if got := h.Plugins()[0].Restarts; got != 2 {
		t.Errorf("want 2 restarts, got %d", got)
	}
	if deaths := fmt.Sprint(h.Deaths()); !strings.Contains(deaths, "it reported: panic: out of cheese") {
		t.Errorf("want Deaths to report the panic, got %s", deaths)
	}
	_, err = get(t.Context(), m, "die")
	if !errors.Is(err, ncerr.ErrPlugin) {
		t.Fatalf("want ErrPlugin, got %v", err)
	}
	for _, part := range []string{"nczarr (driver:trouble/write)", "exit status 7", "these are my last words"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("want %q in %q", part, err)
		}
	}
}

// TestRestartPause checks that the host refuses a plugin that dies repeatedly.
func TestRestartPause(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	o, _ := h.Driver("trouble")
	dir := t.TempDir()
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(dir, "s"), Mode: driver.Create})
	var err error
	for range 3 { // two deaths each
		_, err = get(t.Context(), m, "die")
	}
	if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "is not restarted until") {
		t.Fatalf("want a refusal, got %v", err)
	}
	before := h.Plugins()[0].Restarts
	_, err = o.Open(t.Context(), driver.OpenSpec{Path: filepath.Join(dir, "another"), Mode: driver.Create})
	if retry, after := ncerr.Retry(err); !retry || after <= 0 || after > time.Minute || h.Plugins()[0].Restarts != before {
		t.Errorf("want a retryable error without a start, got %v after %d starts", err, h.Plugins()[0].Restarts-before)
	}
}

// TestWriteOutcome checks the errors of writes whose process died.
func TestWriteOutcome(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	h := newHost(t, host.Options{})
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(dir, "a"), Mode: driver.Create})
	if _, err := m.Put(ctx, "die-once", driver.Bytes("x"), &driver.PutOptions{IfAbsent: true}); !errors.Is(err, ncerr.ErrAmbiguous) {
		t.Errorf("conditional put: want ErrAmbiguous, got %v", err)
	}
	o, _ := h.Driver("trouble")
	if err := o.Remove(ctx, driver.OpenSpec{Path: filepath.Join(dir, "die")}); !errors.Is(err, ncerr.ErrAmbiguous) {
		t.Errorf("remove: want ErrAmbiguous, got %v", err)
	}
	if _, err := o.Open(ctx, driver.OpenSpec{Path: filepath.Join(dir, "die-on-open"), Mode: driver.CreateExclusive}); !errors.Is(err, ncerr.ErrAmbiguous) {
		t.Errorf("exclusive create: want ErrAmbiguous, got %v", err)
	}
}

// TestUnflushed checks that a store with unflushed writes fails permanently.
func TestUnflushed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	spec := driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create, Options: []byte(`{"flush":true}`)}
	h := newHost(t, host.Options{})
	m := open(t, h, "trouble", spec)
	put := func(key string) error {
		_, err := m.Put(ctx, key, driver.Bytes("v"), &driver.PutOptions{})
		return err
	}
	if err := errors.Join(put("a"), m.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	if data, err := get(ctx, m, "die-once"); err != nil || data != "\x01" {
		t.Fatalf("a read after a flush: want the repeated read to succeed, got %q, %v", data, err)
	}
	if err := put("b"); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"panic-once", "a", "a"} {
		_, err := get(ctx, m, key)
		if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "not flushed") {
			t.Errorf("get %s: want an error about lost writes, got %v", key, err)
		}
	}
	if err := put("c"); !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "not flushed") {
		t.Errorf("put: want an error about lost writes, got %v", err)
	}
	if err := m.Flush(ctx); !errors.Is(err, ncerr.ErrPlugin) {
		t.Errorf("flush: want ErrPlugin, got %v", err)
	}

	spec.Mode = driver.Update
	m2 := open(t, h, "trouble", spec)
	for _, key := range []string{"a", "die-on-flush"} {
		if _, err := m2.Put(ctx, key, driver.Bytes("v"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m2.Flush(ctx); !errors.Is(err, ncerr.ErrAmbiguous) {
		t.Errorf("flush of a process that dies: want ErrAmbiguous, got %v", err)
	}
}

// TestHang checks that the host kills and replaces a plugin that does not answer, and
// that a slow caller does not count as a plugin that hangs.
func TestHang(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // ends the test if the host does not kill the plugin
	defer cancel()
	const short, long = 300 * time.Millisecond, 2 * time.Minute // long is for calls that must succeed on a busy machine
	host.SetCallTimeout(h, short)
	_, err := get(ctx, m, "hang")
	if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "did not respond for 300ms") {
		t.Fatalf("want ErrPlugin after the call timeout, got %v", err)
	}
	host.SetCallTimeout(h, long)
	if _, err := get(t.Context(), m, "pid"); err != nil {
		t.Errorf("want a new process, got %v", err)
	}
	host.SetCallTimeout(h, short)
	if _, err := m.Put(t.Context(), "hang", driver.Bytes("x"), &driver.PutOptions{}); !errors.Is(err, ncerr.ErrAmbiguous) {
		t.Errorf("put: want ErrAmbiguous, got %v", err)
	}
	host.SetCallTimeout(h, long)
	for i := range 20 { // objects for the listing below, whose caller is slow
		if _, err := m.Put(t.Context(), fmt.Sprint("k", i), driver.Bytes("x"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	host.SetCallTimeout(h, 15*time.Second)
	n := 0
	for _, err := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			time.Sleep(18 * time.Second)
		}
	}
	host.SetCallTimeout(h, long)
	if n != 20 {
		t.Errorf("want 20 entries, got %d", n)
	}
}

// TestSlowPut checks that the time limit of a put increases with its size, at both
// levels.
func TestSlowPut(t *testing.T) {
	t.Parallel()
	for _, inline := range []bool{true, false} {
		h := newHost(t, host.Options{InlineOnly: inline})
		m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		host.SetCallTimeout(h, 200*time.Millisecond)
		if _, err := m.Put(t.Context(), "slow-put", make(driver.Bytes, 1<<20), &driver.PutOptions{}); err != nil {
			t.Errorf("inline %v: %v", inline, err)
		}
		host.SetCallTimeout(h, 2*time.Minute)
	}
}

// TestFlood checks that a plugin that writes much output is not blocked.
func TestFlood(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	if got, err := get(t.Context(), m, "flood"); err != nil || got != "ok" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestBig checks transfers of objects from zero bytes to several parts, singly and with
// GetMany.
func TestBig(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	sizes := []int{0, 1, plugin.MaxPart - 1, plugin.MaxPart, plugin.MaxPart + 1, 5*plugin.MaxPart + 7}
	want := make([][]byte, len(sizes))
	var reqs []driver.GetRequest
	for i, n := range sizes {
		want[i] = bytes.Repeat([]byte{byte(i + 1), 2, 3}, n/3+1)[:n]
		key := fmt.Sprint("k", i)
		var body driver.Body = driver.Bytes(want[i])
		if i%2 == 1 {
			body = bytes.NewReader(want[i])
		}
		info, err := m.Put(t.Context(), key, body, &driver.PutOptions{})
		if err != nil || info.Size != int64(n) {
			t.Fatalf("put %d bytes: %v, %v", n, info, err)
		}
		if got, err := get(t.Context(), m, key); err != nil || got != string(want[i]) {
			t.Errorf("get %d bytes: received %d, %v", n, len(got), err)
		}
		reqs = append(reqs, driver.GetRequest{Key: key}, driver.GetRequest{Key: key, Alloc: driver.Heap}, driver.GetRequest{Key: "no" + key})
		if n > 0 {
			reqs = append(reqs, driver.GetRequest{Key: key, Alloc: driver.Into(nil)})
		}
	}
	seen := make([]bool, len(reqs))
	err := m.(driver.GetManyer).GetMany(t.Context(), reqs, func(i int, data []byte, info driver.Info, err error) {
		if seen[i] {
			t.Errorf("request %d answered twice", i)
		}
		seen[i] = true
		k, absent := strings.CutPrefix(reqs[i].Key, "no")
		n, _ := strconv.Atoi(k[1:])
		switch {
		case absent && !errors.Is(err, ncerr.ErrNotFound):
			t.Errorf("%s: want ErrNotFound, got %v", reqs[i].Key, err)
		case absent:
		case reqs[i].Alloc != nil && errors.Is(err, ncerr.ErrShortBuffer):
		case err != nil || !bytes.Equal(data, want[n]) || info.Size != int64(len(want[n])):
			t.Errorf("%s: got %d bytes, %v, %v", reqs[i].Key, len(data), info, err)
		}
	})
	if err != nil || slices.Contains(seen, false) {
		t.Errorf("got %v, answered %v", err, seen)
	}
}

// TestManyReads checks a call of GetMany with so many reads that the host sends several
// messages.
func TestManyReads(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	m := open(t, h, "file", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	if _, err := m.Put(t.Context(), "a", driver.Bytes("b"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	reqs := make([]driver.GetRequest, 3000)
	for i := range reqs {
		reqs[i].Key = "a"
	}
	count := 0
	err := m.(driver.GetManyer).GetMany(t.Context(), reqs, func(_ int, data []byte, _ driver.Info, err error) {
		if err == nil && string(data) == "b" {
			count++
		}
	})
	if err != nil || count != len(reqs) {
		t.Errorf("want %d successful reads, got %d, %v", len(reqs), count, err)
	}
}

// TestOneStart checks that concurrent calls start only one process.
func TestOneStart(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	p, err := h.Filter("xor")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, err := p.Open("xor", nil, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 10}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if ps := h.Plugins(); len(ps) != 1 || ps[0].Restarts != 0 {
		t.Errorf("want one process, got %+v", ps)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	var opts host.Options
	hangs := cancelOnLog(t, &opts, "it hangs")
	h := newHost(t, opts)
	m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	failed := make(chan error, 1)
	go func() {
		_, err := get(context.Background(), m, "hang")
		failed <- err
	}()
	<-hangs.Done()
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, ncerr.ErrPlugin) {
		t.Errorf("call in progress: want ErrPlugin, got %v", err)
	}
	if _, err := get(t.Context(), m, "a"); !errors.Is(err, ncerr.ErrPlugin) {
		t.Errorf("call after: want ErrPlugin, got %v", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, isolation := range []host.Isolation{host.Loopback, host.InProcess} {
		h := newHost(t, host.Options{Isolation: isolation, Defaults: map[string]json.RawMessage{"trouble": json.RawMessage(`{"flush":true}`)}})
		for options, want := range map[string]driver.Durability{``: driver.OnFlush, `{"flush":false}`: driver.OnPut} {
			m := open(t, h, "trouble", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create, Options: []byte(options)})
			if got := m.Capabilities().Durable; got != want {
				t.Errorf("options %q: want durability %d, got %d", options, want, got)
			}
		}
		o, _ := h.Driver("trouble")
		if _, err := o.Open(t.Context(), driver.OpenSpec{Path: t.TempDir(), Options: []byte(`{"flash":true}`)}); !errors.Is(err, ncerr.ErrInvalid) {
			t.Errorf("want ErrInvalid, got %v", err)
		}
	}
}
