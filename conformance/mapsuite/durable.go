package mapsuite

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func durableChecks() []Check {
	return []Check{
		{ID: "map.durable.flush", Doc: "Flushed objects are visible to other handles when Flush returns, before Close.", Needs: []string{Write}, Run: flushedForOthers},
		{ID: "map.durable.put", Doc: "With durability on put, an object is visible to other handles when Put returns, before Flush and Close, even to handles that had already looked for it or read its previous content.", Needs: []string{Write, DurableOnPut}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			first := e.mustOpen(t, driver.Read)
			first.wantOwn("a/b")
			first.wantAbsent("c")
			lists := first.m.Capabilities().List
			if lists {
				first.wantList("", driver.ListOptions{}, "a/")
			}
			old, _ := first.stat("a/b")
			s.put("a/b", "again and longer")
			s.putAll("c")
			for _, other := range []*store{e.mustOpen(t, driver.Read), first} {
				other.want("a/b", "again and longer")
				other.wantOwn("c")
				if info, err := other.stat("a/b"); err != nil || info.Size != 16 || info.Version == old.Version && info.Version != "" {
					t.Errorf("stat after a put: want size 16 and a new version, got %+v, %v; before the put: %+v", info, err, old)
				}
				if lists {
					other.wantList("", driver.ListOptions{}, "a/", "c")
				}
			}
		}},
		{ID: "map.durable.flush.crash", Doc: "Flushed objects survive a kill of the driver's process, and the next process does not reuse their versions for other content.", Needs: []string{Write, Delete, Crashes}, Run: flushedBeforeCrash},
		{ID: "map.durable.put.crash", Doc: "With durability on put, stored objects survive a kill of the driver's process.", Needs: []string{Write, Delete, DurableOnPut, Crashes}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b", "a/c", "deleted")
			s.put("a/c", "again")
			s.delete("deleted")
			s.kill(e)
			again := e.mustOpen(t, driver.Read)
			again.wantOwn("a/b")
			again.want("a/c", "again")
			again.wantAbsent("deleted")
		}},
		{ID: "map.durable.unflushed.crash", Doc: "After a kill of the driver's process, each object has the complete content of the last flush or of a later put. An object that was not flushed may be missing. Unless puts are durable, a new store opened with mode Create replaces the old one at its first flush.", Needs: []string{Write, Crashes}, Run: unflushedBeforeCrash},
	}
}

// flushedForOthers reads through other handles while the writing handle is still open,
// because Close might write what Flush did not.
func flushedForOthers(t conformance.T, e *Env) {
	s := e.create(t)
	s.putAll(tree[:]...)
	s.put("empty", "")
	s.flush()
	first := e.mustOpen(t, driver.Read)
	first.wantOwn(tree[:]...)
	first.want("empty", "")
	first.close()
	version := s.put("b", "new").Version
	gone := s.m.Capabilities().Delete
	if gone {
		s.delete("a-b")
	}
	many := map[string]bool{}
	for i := range 300 {
		key := fmt.Sprintf("many/%d", i)
		s.put(key, key)
		many[key] = true
	}
	s.flush()
	if info, err := s.m.Stat(t.Context(), "b"); err != nil || info.Version != "" && version != "" && info.Version != version {
		t.Errorf("stat after a flush: want version %q, which Put returned, got %q, %v", version, info.Version, err)
	}
	again := e.mustOpen(t, driver.Read)
	again.want("b", "new")
	if info, err := again.m.Stat(t.Context(), "b"); again.m.Capabilities().IfMatch && s.m.Capabilities().IfMatch && (err != nil || info.Version != version) {
		t.Errorf("stat by another handle: want version %q, which Put returned, got %q, %v", version, info.Version, err)
	}
	if gone {
		again.wantAbsent("a-b")
	}
	again.wantOwn(slices.Sorted(maps.Keys(many))...)
}

// kill kills the driver's process. It ignores errors from the handle.
func (s *store) kill(e *Env) {
	s.t.Step("kill the process of the driver")
	if err := e.crash(); err != nil {
		s.t.Fatalf("kill the process of the driver: %v", err)
	}
	m := s.m
	s.m = nil
	_ = m.Close(s.t.Context()) // the process of the driver is gone
}

func flushedBeforeCrash(t conformance.T, e *Env) {
	big := pattern(3, 3<<20)
	s := e.create(t)
	version := s.put("counted", "one").Version // the first put of the process, like the put of "counted" in the next process
	s.putAll(tree[:]...)
	s.putAll("deleted")
	s.put("big", big)
	s.flush()
	s.kill(e)
	s = e.mustOpen(t, driver.Update)
	s.wantOwn(tree[:]...)
	s.want("big", big)
	if v := s.put("counted", "two").Version; v != "" && v == version {
		t.Errorf("version %q was returned for different contents before and after the driver was killed", v)
	}
	s.put("b", "new")
	s.delete("deleted")
	s.flush()
	s.kill(e)
	again := e.mustOpen(t, driver.Read)
	again.want("b", "new")
	again.want("big", big)
	again.wantAbsent("deleted")
	again.wantOwn("a/0/0", "c/d/e/f")
}

// crashInPuts kills the process at several times during a long put.
func crashInPuts(t conformance.T, e *Env) {
	old, fresh := pattern(1, 4<<20), pattern(2, 4<<20)
	s := e.mustOpen(t, driver.Update)
	began := time.Now()
	s.put("large", old)
	took := time.Since(began)
	s.put("beside", "beside")
	s.flush()
	const n = 6
	for i := range n {
		if i > 0 {
			s = e.mustOpen(t, driver.Update)
		}
		m, done := s.m, make(chan struct{})
		go func() {
			defer close(done)
			_, _ = m.Put(t.Context(), "large", driver.Bytes(fresh), &driver.PutOptions{}) // fails when the process dies
		}()
		t.Step("put", "large", "and kill the process of the driver concurrently")
		time.Sleep(took * time.Duration(i) / n)
		err := e.crash()
		<-done
		if s.m = nil; err != nil {
			t.Fatalf("kill the process of the driver: %v", err)
		}
		_ = m.Close(t.Context()) // the process of the driver is gone
		again := e.mustOpen(t, driver.Read)
		again.wantOwn("beside")
		if got, _, err := again.tryGet("large", driver.GetOptions{}); err != nil || string(got) != old && string(got) != fresh {
			t.Fatalf("driver killed %v after the start of a put: want the old or the new content, got %d bytes %s, %v", took*time.Duration(i)/n, len(got), show(string(got)), err)
		}
		again.close()
	}
}

func unflushedBeforeCrash(t conformance.T, e *Env) {
	old, fresh := pattern(1, 200_000), pattern(2, 200_000)
	s := e.create(t)
	s.put("kept", old)
	s.put("replaced", old)
	s.flush()
	s.close()
	s = e.mustOpen(t, driver.Update)
	s.put("replaced", fresh)
	s.put("added", fresh)
	s.kill(e)
	again := e.mustOpen(t, driver.Read)
	again.want("kept", old)
	for key, other := range map[string]string{"replaced": old, "added": ""} {
		got, _, err := again.tryGet(key, driver.GetOptions{})
		switch {
		case err == nil && (string(got) == fresh || other != "" && string(got) == other):
		case err != nil && other == "" && ncerr.KindOf(err) == ncerr.ErrNotFound:
		default:
			t.Errorf("%q has neither the flushed content nor the new one: %d bytes %s, %v", key, len(got), show(string(got)), err)
		}
	}
	again.close()
	s = e.create(t)
	s.put("added", fresh)
	if s.m.Capabilities().Durable == driver.OnFlush {
		s.kill(e)
		again = e.mustOpen(t, driver.Read)
		again.want("kept", old)
		again.close()
	} else {
		s.flush()
		s.close()
	}
	crashInPuts(t, e)
}
