package mapsuite

import (
	"fmt"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// lastingChecks are about what shows only after many calls or many bytes.
func lastingChecks() []Check {
	return []Check{
		{ID: "map.lasting.calls", Doc: "The thousandth call works as the first does.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{Content}, Run: lastingCalls},
		{ID: "map.lasting.large", Doc: "An object of 70 MiB is stored and read whole, and ranges far inside it give the right bytes.", Effort: conformance.Normal, Needs: []string{Content}, Run: largeObject},
		{ID: "map.lasting.pages", Doc: "A listing of 12,000 objects is complete, and stops when its context ends.", Effort: conformance.Thorough, Needs: []string{Content, List}, Run: manyPages},
		{ID: "map.lasting.leaks", Doc: "Stores that are opened, read and closed again and again take no more descriptors and no more memory.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{Content, Measured}, Run: leaks},
	}
}

func lastingCalls(t conformance.T, e *Env) {
	s := e.create(t)
	s.put("a/k", "steady")
	for i := 0; i < 2500 && !t.Failed(); i++ {
		s.want("a/k", "steady")
		if i%5 == 0 {
			if info, err := s.stat("a/k"); err != nil || info.Size != 6 {
				t.Errorf("stat %d: %+v, %v", i, info, err)
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
	if !s.m.Capabilities().Ranges {
		return
	}
	for _, off := range []int64{16<<20 - 7, 16 << 20, 32<<20 + 1, 64<<20 - 5000, 64 << 20, n - 10000} {
		if off < 0 || off+10000 > n {
			continue
		}
		got, _, err := s.tryRange("a/large", off, 10000)
		if err != nil || string(got) != whole[off:off+10000] {
			t.Errorf("10000 bytes at %d: want %s, got %s, %v", off, show(whole[off:off+10000]), show(string(got)), err)
		}
	}
	if got, _, err := s.tryRange("a/large", -9, -1); err != nil || string(got) != whole[n-9:] {
		t.Errorf("the last 9 bytes: want %q, got %q, %v", whole[n-9:], got, err)
	}
}

func manyPages(t conformance.T, e *Env) {
	s := e.create(t)
	const n = 12_000
	var want []string
	for i := range n {
		key := fmt.Sprintf("d/%05d", i)
		s.put(key, "")
		want = append(want, key)
	}
	s.wantMany("d/", driver.ListOptions{}, want)
	s.wantMany("d/", driver.ListOptions{StartAfter: want[5500]}, want[5501:])
	if s.m.Capabilities().RecursiveList {
		s.wantMany("", driver.ListOptions{Recursive: true}, want)
	}
	s.stopsListing("d/", n)
}

// batches and cycles are how often a store is opened and closed. As long as
// there are more descriptors after each batch there are up to mostBatches.
const batches, mostBatches, cycles = 4, 8, 40

// leaks counts what the driver holds after many cycles. What other parts of
// the process take meanwhile does not grow with every batch as a leak does.
func leaks(t conformance.T, e *Env) {
	s := e.create(t)
	content := pattern(7, 1<<20)
	s.put("a/k", content)
	s.putAll("a/l", "b/m")
	s.flush()
	s.close()
	var at []Usage
	descriptors, memory := true, true
	for b := 0; b <= batches || descriptors && b <= mostBatches; b++ {
		for i := 0; b > 0 && i < cycles; i++ {
			e.cycle(t, content)
		}
		t.Doing("measure")
		u, err := settled(t, e)
		if err != nil {
			t.Fatalf("measure: %v", err)
		}
		if at = append(at, u); b >= 2 { // the first may fill caches
			descriptors = descriptors && u.Descriptors-at[b-1].Descriptors >= cycles/2
			memory = memory && u.Memory-at[b-1].Memory >= cycles*int64(len(content))/2
		}
	}
	if descriptors {
		t.Errorf("after each %d cycles of open, read and close there are more descriptors: %+v", cycles, at)
	}
	if memory {
		t.Errorf("after each %d cycles of reading %d bytes there is more memory: %+v", cycles, len(content), at)
	}
}

// settled measures; a process that has just been told to close something may
// need a moment.
func settled(t conformance.T, e *Env) (Usage, error) {
	least, err := e.usage()
	for i := 0; i < 5 && err == nil; i++ {
		time.Sleep(10 * time.Millisecond)
		var u Usage
		if u, err = e.usage(); err == nil {
			least.Descriptors, least.Memory = min(least.Descriptors, u.Descriptors), min(least.Memory, u.Memory)
		}
	}
	t.Logf("%+v", least)
	return least, err
}

// cycle opens the store in both modes, reads, leaves a listing, and closes.
func (e *Env) cycle(t conformance.T, content string) {
	for _, mode := range []driver.Mode{driver.Read, driver.Update} {
		t.Doing("open in mode", modeName(mode))
		m, err := e.open(t.Context(), mode)
		if err != nil {
			if k := ncerr.KindOf(err); mode == driver.Update && (k == ncerr.ErrUnsupported || k == ncerr.ErrReadOnly) {
				continue // it can only be read
			}
			t.Fatalf("open in mode %s: %v", modeName(mode), err)
		}
		s := &store{t: t, m: m}
		s.want("a/k", content)
		s.wantAbsent("none")
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
