package mapsuite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/internal/leak"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// lastingChecks returns the checks for defects that appear only after many calls or
// bytes.
func lastingChecks() []Check {
	return []Check{
		{ID: "map.lasting.calls", Doc: "The thousandth call works like the first.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{Content}, Run: lastingCalls},
		{ID: "map.lasting.large", Doc: "An object of 70 MiB is stored and read whole, and ranges anywhere in it return the correct bytes.", Effort: conformance.Normal, Needs: []string{Content}, Run: largeObject},
		{ID: "map.lasting.pages", Doc: "A listing of 12,000 objects is complete, even if objects that sort before the next entry are deleted or added during the listing. It stops when its context is canceled, allows other calls while it runs, and leaks no descriptors if the caller stops early.", Effort: conformance.Thorough, Needs: []string{Content, List}, Run: manyPages},
		{ID: "map.lasting.leaks", Doc: "Opening, reading, writing and closing stores repeatedly leaks no descriptors and no memory.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{Content, Measured}, Run: leaks},
		{ID: "map.lasting.open", Doc: "Reading an open store repeatedly leaks no descriptors and no memory, if the reads succeed, fail or are canceled, and if the objects change between them.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{Content, Measured}, Run: leaksOpen},
	}
}

func lastingCalls(t conformance.T, e *Env) {
	s := e.create(t)
	s.put("a/k", "steady")
	for i := 0; i < 2500 && !t.Failed(); i++ {
		s.want("a/k", "steady")
		if i%5 == 0 {
			if info, err := s.stat("a/k"); err != nil || info.Size != 6 {
				t.Errorf("stat after %d gets: want size 6, got %+v, %v", i, info, err)
			}
			s.put("b/k", fmt.Sprint(i))
		}
		if i%25 == 0 && s.m.Capabilities().List {
			s.wantList("a/", driver.ListOptions{}, "a/k")
		}
	}
}

func largeObject(t conformance.T, e *Env) {
	s := e.create(t)
	n := int64(70<<20 + 5)
	if limit := s.m.Capabilities().MaxObject; limit > 0 {
		n = min(n, limit)
	}
	whole := pattern(6, int(n))
	s.put("a/large", whole)
	s.want("a/large", whole)
	if info, err := s.stat("a/large"); err != nil || info.Size != n {
		t.Errorf("stat: want size %d, got %+v, %v", n, info, err)
	}
	s.flush()
	if s.m.Capabilities().Write {
		s.close()
		s = e.mustOpen(t, driver.Update)
		if info, err := s.stat("a/large"); err != nil || info.Size != n {
			t.Errorf("stat in mode update: want size %d, got %+v, %v", n, info, err)
		}
	}
	if !s.m.Capabilities().Ranges {
		return
	}
	for _, off := range []int64{16<<20 - 7, 16 << 20, 32<<20 + 1, 64<<20 - 5000, 64 << 20, n - 10000} {
		if off < 0 || off+10000 > n {
			continue
		}
		got, _, err := s.tryRange("a/large", off, 10000)
		if err != nil || string(got) != whole[off:off+10000] {
			t.Errorf("get 10000 bytes at offset %d: want %s, got %s, %v", off, show(whole[off:off+10000]), show(string(got)), err)
		}
	}
	if got, _, err := s.tryRange("a/large", -9, -1); err != nil || string(got) != whole[n-9:] {
		t.Errorf("get the last 9 bytes: want %q, got %q, %v", whole[n-9:], got, err)
	}
}

func manyPages(t conformance.T, e *Env) {
	s := e.create(t)
	const n = 12_000
	dir := "d/"
	for k := s.m.Capabilities().MaxKey; len(dir) < 400 && (k == 0 || len(dir)+100 < k); {
		dir += strings.Repeat("d", 49) + "/" // long, so that no transport buffer holds the whole listing
	}
	var want []string
	for i := range n {
		key := dir + fmt.Sprintf("%05d", i/3) + strings.Repeat("!", i%3) // at the end of a page, the next key may start with the last one
		s.put(key, key)
		want = append(want, key)
	}
	for i := 0; i < n; i += 40 { // more contents of equal length than short checksums can distinguish
		s.wantOwn(want[i])
	}
	s.wantMany(dir, driver.ListOptions{}, want)
	s.wantMany(dir, driver.ListOptions{StartAfter: want[5500]}, want[5501:])
	if s.m.Capabilities().RecursiveList {
		s.wantMany("", driver.ListOptions{Recursive: true}, want)
	}
	s.countAbandoned(e, dir)
	s.cancelListing(dir, n, true)
	for _, recursive := range slices.Compact([]bool{false, s.m.Capabilities().RecursiveList}) {
		seen := 0
		for _, err := range s.m.List(t.Context(), dir, &driver.ListOptions{Recursive: recursive}) {
			if err != nil {
				t.Fatalf("list: %v", err)
			}
			if seen++; seen == 1 { // the driver has not reached the end of the listing
				s.put("beside", "the listing")
				s.want("beside", "the listing")
			}
		}
		if seen != n {
			t.Errorf("a listing during a put returned %d of %d entries", seen, n)
		}
	}
	s.wantSteady(dir, want, 1500)
	if s.m.Capabilities().Write { // mode Create removes all of the old objects
		s.flush()
		s.close()
		s = e.create(t)
		s.flush()
		s.wantList("", driver.ListOptions{Recursive: s.m.Capabilities().RecursiveList})
	}
}

// countAbandoned checks that abandoned listings leak no descriptors.
func (s *store) countAbandoned(e *Env, prefix string) {
	if _, err := e.usage(); err != nil {
		s.abandonListings(prefix)
		return
	}
	_, descriptors, at, err := leak.Find(func() bool { s.abandonListings(prefix); return !s.t.Failed() }, func() (conformance.Usage, error) { return leastUsage(s.t, e) }, numAbandoned/2)
	if err != nil {
		s.t.Fatalf("measure resource usage: %v", err)
	}
	if descriptors {
		s.t.Errorf("open descriptors grow with every %d abandoned listings: %+v", numAbandoned, at)
	}
}

// cycles is the number of times a store is opened and closed between measurements.
const cycles = 40

// leaks measures the driver's resources after many cycles. A leak grows with every batch
// of cycles, unlike the memory that other parts of the process allocate.
func leaks(t conformance.T, e *Env) {
	s := e.create(t)
	content := pattern(7, 1<<18)
	s.put("a/k", content)
	s.putAll("a/l", "b/m")
	s.flush()
	s.close()
	missing := *e
	spec, cleanup, err := e.newSpec()
	if err != nil {
		t.Fatalf("location of a second store: %v", err)
	}
	if missing.spec = spec; cleanup != nil {
		t.Cleanup(cleanup)
	}
	memory, descriptors, at, err := leak.Find(func() bool {
		for range cycles {
			e.cycle(t, content)
			if m, err := missing.open(t.Context(), driver.Read); err == nil {
				_ = m.Close(t.Context()) // the driver does not look for the store
			}
		}
		return !t.Failed()
	}, func() (conformance.Usage, error) { return leastUsage(t, e) }, cycles/2)
	if err != nil {
		t.Fatalf("measure resource usage: %v", err)
	}
	if descriptors {
		t.Errorf("open descriptors grow with every %d cycles of open, read and close: %+v", cycles, at)
	}
	if memory {
		t.Errorf("memory grows with every %d cycles of open, read, write and close: %+v", cycles, at)
	}
}

// leaksOpen reads through one open handle, because closing a handle may free what reads
// leak.
func leaksOpen(t conformance.T, e *Env) {
	s := e.create(t)
	s.putAll("a/l")
	content := pattern(7, 100_000) // a leak of large content is detected sooner
	s.put("a/k", content)
	s.flush()
	caps := s.m.Capabilities()
	calls := 2000 // a leaked goroutine takes 2 KiB
	switch u, err := e.usage(); {
	case err != nil || u.Memory < 0:
		calls = 100 // a leak of descriptors is detected sooner
	case t.Effort() == conformance.Thorough && s.m.Capabilities().Latency != driver.Remote:
		calls = 20_000 // to find leaked keys
	}
	read := func(i int) {
		if s.wantOwn("a/l"); i%10 == 0 {
			s.wantAbsent("none")
		}
	}
	for _, reads := range []struct {
		calls int
		what  string
		do    func(i int)
	}{ // measured separately, because garbage from one kind could hide leaks of another
		{min(calls, 250), "reads", read}, // finds a large leak before the memory of the machine is full
		{calls, "reads", read},
		{calls / 10, "reads of 100,000 bytes", func(int) { s.want("a/k", content) }},
		{calls / 10, "reads that fail", func(i int) { s.failRead(i, content) }},
		{min(calls/10, 500), "reads of new content", func(i int) {
			if !caps.Write {
				return
			}
			changed := content[:len(content)-i] // a cache that keeps what was replaced grows
			s.put("a/changed", changed)
			s.want("a/changed", changed)
		}},
		{calls / 10, "canceled reads", func(i int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			t.Step("get", "a/k")
			timer := time.AfterFunc(time.Duration(i%50)*20*time.Microsecond, cancel)
			defer timer.Stop()
			_, _, err := s.m.Get(ctx, "a/k", &driver.GetOptions{}, func(n int64) ([]byte, error) {
				if i%2 == 0 {
					cancel()
				}
				return make([]byte, n), nil
			})
			if err != nil {
				cancel() // the timer may have canceled it
				ended(ctx, t, "get", err)
			}
		}},
	} {
		memory, descriptors, at, err := leak.Find(func() bool {
			for i := range reads.calls {
				reads.do(i)
			}
			return !t.Failed()
		}, func() (conformance.Usage, error) { return leastUsage(t, e) }, max(1, reads.calls/2))
		if err != nil {
			t.Fatalf("measure resource usage: %v", err)
		}
		if descriptors {
			t.Errorf("open descriptors grow with every %d %s: %+v", reads.calls, reads.what, at)
		}
		if memory {
			t.Errorf("memory grows with every %d %s: %+v", reads.calls, reads.what, at)
			return
		}
	}
}

// failRead calls Get in one of several ways in which it must fail, each of which ends it at
// another point.
func (s *store) failRead(i int, content string) {
	caps, o, want := s.m.Capabilities(), driver.GetOptions{}, ncerr.ErrShortBuffer
	alloc := driver.Into(make([]byte, 3))
	switch i % 4 {
	case 0:
		o.Limit, want = 3, ncerr.ErrLimit
	case 1:
		if caps.Ranges {
			o.Range, want = &driver.Range{Offset: 1, Length: int64(len(content))}, ncerr.ErrRange
		}
	case 2:
		if caps.IfMatch {
			o.IfMatch, want = "not a version of this store", ncerr.ErrConflict
		}
	}
	s.t.Step("get", "a/k")
	_, _, err := s.m.Get(s.t.Context(), "a/k", &o, alloc)
	wantKind(s.t, "get that must fail", err, want)
}

// leastUsage returns the lowest of several measurements, because a process may need a
// moment to close something.
func leastUsage(t conformance.T, e *Env) (conformance.Usage, error) {
	t.Step("measure")
	least, err := e.usage()
	for i := 0; i < 5 && err == nil; i++ {
		time.Sleep(10 * time.Millisecond)
		var u conformance.Usage
		if u, err = e.usage(); err == nil {
			least.Descriptors, least.Memory = min(least.Descriptors, u.Descriptors), min(least.Memory, u.Memory)
		}
	}
	t.Logf("%+v", least)
	return least, err
}

// cycle opens the store in the modes Read and Update, reads, writes, tries calls that
// must fail, abandons a listing, and closes.
func (e *Env) cycle(t conformance.T, content string) {
	for _, mode := range []driver.Mode{driver.Read, driver.Update} {
		t.Step("open in mode", modeName(mode))
		m, err := e.open(t.Context(), mode)
		if err != nil {
			if k := ncerr.KindOf(err); mode == driver.Update && (k == ncerr.ErrUnsupported || k == ncerr.ErrReadOnly) {
				continue // the store is read-only
			}
			t.Fatalf("open in mode %s: %v", modeName(mode), err)
		}
		s := &store{t: t, m: m}
		s.want("a/k", content)
		calls := 10
		if m.Capabilities().Latency == driver.Remote {
			calls = 1
		}
		for range calls { // each call may leak only a little
			s.wantOwn("a/l")
			s.wantAbsent("none")
		}
		if mode == driver.Update && m.Capabilities().Write {
			for range 1 + calls/10 {
				s.put("a/m", content[:100_000])
			}
			if m, err := e.open(t.Context(), driver.CreateExclusive); err == nil {
				_ = m.Close(t.Context())
				t.Errorf("open in mode create-exclusive: want ErrExists, got no error")
			}
		}
		if m.Capabilities().List {
			for _, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
				if err != nil {
					t.Errorf("list: %v", err)
				}
				break
			}
		}
		s.close()
	}
}
