package mapsuite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func openChecks() []Check {
	w := []string{Write}
	return []Check{
		{ID: "map.describe", Doc: "A driver has a name and a summary, and documents its options.", Run: func(t conformance.T, e *Env) {
			d := e.opener.Describe()
			if d.Name == "" || d.Summary == "" {
				t.Errorf("want a name and a summary, got %q and %q", d.Name, d.Summary)
			}
			if err := d.CheckSchemes(); err != nil {
				t.Errorf("%v", err)
			}
			for _, o := range d.Options {
				if o.Name == "" || o.Type == "" || o.Doc == "" {
					t.Errorf("option %+v is not documented", o)
				}
			}
		}},
		{ID: "map.open.missing", Doc: "Opening a missing store fails with ErrNoDataset and does not create it.", Needs: []string{FindsMissing}, Refuse: missingLater, Run: func(t conformance.T, e *Env) {
			for _, mode := range []driver.Mode{driver.Read, driver.Update, driver.Read} {
				m, err := e.open(t.Context(), mode)
				if err == nil {
					_ = m.Close(t.Context())
				}
				wantKind(t, "open in mode "+modeName(mode), err, ncerr.ErrNoDataset)
			}
		}},
		{ID: "map.open.bad-option", Doc: "An unknown option, or a value of the wrong type, fails with ErrInvalid.", Run: func(t conformance.T, e *Env) {
			spec := e.spec
			spec.Mode, spec.Options = driver.Create, []byte(`{"no-such-option-of-any-driver": 1}`)
			m, err := e.opener.Open(t.Context(), spec)
			if err == nil {
				_ = m.Close(t.Context())
			}
			wantKind(t, "open with an unknown option", err, ncerr.ErrInvalid)
			for _, o := range e.opener.Describe().Options {
				spec.Options = fmt.Appendf(nil, `{%q: {"no": ["value of any option"]}}`, o.Name)
				m, err := e.opener.Open(t.Context(), spec)
				if err == nil {
					_ = m.Close(t.Context())
				}
				wantKind(t, fmt.Sprintf("open with an object as option %s, which is a %s", o.Name, o.Type), err, ncerr.ErrInvalid)
			}
		}},
		{ID: "map.open.options", Doc: "For every described option, Open accepts the default (of a size, as a string and as a number of bytes), both true and false if it is a bool, and the empty string if it is a string without a default. Open refuses options that are not described.", Run: options},
		{ID: "map.open.secret", Doc: "Errors do not contain the values of secret options.", Run: secretInError},
		{ID: "map.open.persists", Doc: "Flushed objects exist when the store is opened again.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll(tree[:]...)
			s.put("empty", "")
			s.flush()
			s.close()
			for _, mode := range []driver.Mode{driver.Read, driver.Update} {
				again := e.mustOpen(t, mode)
				again.wantOwn(tree[:]...)
				again.want("empty", "")
				again.close()
			}
		}},
		{ID: "map.open.durable-on-put", Doc: "With durability on put, objects are kept when a store is closed without a flush.", Needs: []string{Write, DurableOnPut}, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/b")
			s.close()
			e.mustOpen(t, driver.Read).wantOwn("a/b")
		}},
		{ID: "map.open.untouched", Doc: "If a store is opened for update, only read, and closed with or without a flush, it can be opened again and has all objects.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll(tree[:]...)
			s.flush()
			s.close()
			for _, flush := range []bool{false, true} {
				up := e.mustOpen(t, driver.Update)
				up.wantOwn(tree[:]...)
				up.wantAbsent("no-such-key")
				if flush {
					up.flush()
				}
				up.close()
				for range 2 {
					again := e.mustOpen(t, driver.Read)
					again.wantOwn(tree[:]...)
					again.close()
				}
			}
		}},
		{ID: "map.open.unflushed", Doc: "Closing a store without a flush keeps the flushed objects that were not changed since. Without durability on put, it discards all unflushed changes, even the replacement of the whole store by mode Create.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("kept", "deleted", "replaced")
			s.flush()
			s.close()
			up := e.mustOpen(t, driver.Update)
			caps := up.m.Capabilities() // capabilities of the writer, because those of a reader may differ
			up.putAll("later")
			up.put("replaced", "anew")
			if caps.Delete {
				up.delete("deleted")
			}
			up.close()
			again := e.mustOpen(t, driver.Read)
			again.wantOwn("kept")
			if caps.Durable == driver.OnFlush {
				again.wantAbsent("later")
				again.wantOwn("deleted", "replaced")
				again.close()
				s = e.create(t)
				s.put("kept", "anew")
				s.close()
				again = e.mustOpen(t, driver.Read)
				again.wantOwn("kept", "deleted", "replaced")
			}
		}},
		{ID: "map.open.read-only", Doc: "A store opened for reading refuses writes and stays unchanged.", Needs: []string{Write, Delete}, Run: openReadOnly},
		{ID: "map.open.update", Doc: "A store opened for update keeps its objects, and objects can be replaced, added and deleted.", Needs: []string{Write, Delete}, Run: openUpdate},
		{ID: "map.open.create-replaces", Doc: "Mode Create starts from an empty store.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.putAll("a/old", "both")
			s.flush()
			s.close()
			s = e.create(t)
			s.wantAbsent("a/old")
			s.put("both", "new")
			s.flush()
			s.close()
			again := e.mustOpen(t, driver.Read)
			again.wantAbsent("a/old")
			again.want("both", "new")
			if again.m.Capabilities().List {
				again.wantList("", driver.ListOptions{}, "both")
			}
			again.close()
			s = e.create(t)
			s.flush() // without any put
			s.close()
			again = e.mustOpen(t, driver.Read)
			again.wantAbsent("both")
		}},
		{ID: "map.open.create-exclusive", Doc: "Mode CreateExclusive creates a new store and refuses an existing one, which stays unchanged.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.mustOpen(t, driver.CreateExclusive)
			s.putAll("k")
			s.flush()
			s.close()
			m, err := e.open(t.Context(), driver.CreateExclusive)
			if err == nil {
				_ = m.Close(t.Context())
			}
			wantKind(t, "open in mode create-exclusive a second time", err, ncerr.ErrExists)
			e.mustOpen(t, driver.Read).wantOwn("k")
		}},
		{ID: "map.open.create-exclusive.race", Doc: "On a local medium, if many callers concurrently open a store with CreateExclusive and flush it, exactly one succeeds, and its objects exist.", Needs: w, Run: createRace},
		{ID: "map.open.empty", Doc: "A store that was created and flushed without any object exists until it is removed.", Needs: []string{Write, FindsMissing}, Run: func(t conformance.T, e *Env) {
			s := e.mustOpen(t, driver.CreateExclusive)
			s.flush()
			s.close()
			for _, mode := range []driver.Mode{driver.Read, driver.Update, driver.Read} {
				again := e.mustOpen(t, mode)
				again.wantAbsent("k")
				if mode == driver.Update && again.m.Capabilities().Delete { // remove the objects again
					again.put("k", "v")
					again.flush()
					again.delete("k")
					again.flush()
				}
				again.close()
			}
		}},
		{ID: "map.open.handles", Doc: "Closing a handle does not affect other handles of the same or another store, and no handle sees the objects of another store.", Needs: w, Run: handles},
		{ID: "map.open.remove", Doc: "A removed store no longer exists, and removing a missing store fails with ErrNoDataset.", Needs: w, Run: func(t conformance.T, e *Env) {
			wantKind(t, "remove a missing store", e.opener.Remove(t.Context(), e.spec), ncerr.ErrNoDataset)
			s := e.create(t)
			s.putAll(tree[:]...)
			s.flush()
			s.close()
			if err := e.opener.Remove(t.Context(), e.spec); err != nil {
				t.Fatalf("remove: %v", err)
			}
			missingLater(t, e)
			wantKind(t, "remove again", e.opener.Remove(t.Context(), e.spec), ncerr.ErrNoDataset)
			e.create(t).wantAbsent("b")
		}},
		{ID: "map.open.siblings", Doc: "If letters are appended to a path that contains a slash, the result names a different store; neither store sees, replaces or removes objects of the other.", Needs: []string{Write, Delete, List, Siblings}, Run: openSiblings},
	}
}

// createRace creates one store many times concurrently. It is skipped for drivers with the
// latency of a remote store, which may be unable to create a store atomically.
func createRace(t conformance.T, e *Env) {
	s := e.create(t)
	remote := s.m.Capabilities().Latency == driver.Remote
	s.close()
	if _ = e.opener.Remove(t.Context(), e.spec); remote { // the store might not exist without a flush
		t.Skipf("the driver declares the latency of a remote store, which need not create a store atomically")
	}
	for round := 0; round < raceRounds(t)/5 && !t.Failed(); round++ {
		var made [racers]bool
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range racers {
			wg.Go(func() {
				<-start
				m, err := e.open(t.Context(), driver.CreateExclusive)
				if err != nil {
					wantKind(t, "concurrent open of a store that another caller creates", err, ncerr.ErrExists)
					return
				}
				_, err = m.Put(t.Context(), "k", driver.Bytes(pattern(byte(i), 1000)), &driver.PutOptions{})
				if err == nil {
					err = m.Flush(t.Context())
				}
				if made[i] = err == nil; err != nil {
					wantKind(t, "put or flush in a store that another caller created", err, ncerr.ErrExists, ncerr.ErrConflict)
				}
				if err := m.Close(t.Context()); err != nil && made[i] {
					t.Errorf("close: %v", err)
				}
			})
		}
		t.Step("open in mode create-exclusive several times concurrently")
		close(start)
		wg.Wait()
		winner, winners := 0, 0
		for i := range made {
			if made[i] {
				winner, winners = i, winners+1
			}
		}
		if winners != 1 {
			t.Errorf("round %d: want 1 of %d opens to create the store, got %d", round, racers, winners)
			return
		}
		s := e.mustOpen(t, driver.Read)
		s.want("k", pattern(byte(winner), 1000))
		s.close()
		if err := e.opener.Remove(t.Context(), e.spec); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
}

// handles opens several handles of one store and of another store.
func handles(t conformance.T, e *Env) {
	other := *e
	spec, cleanup, err := e.newSpec()
	if err != nil {
		t.Fatalf("location of a second store: %v", err)
	}
	other.spec = spec
	if cleanup != nil {
		t.Cleanup(cleanup)
	}
	w, apart := e.create(t), other.create(t)
	w.put("k", "this one")
	w.put("here", "here")
	apart.put("k", "that")
	w.flush()
	apart.flush()
	check := func(s *store, k string) {
		s.want("k", k)
		if info, err := s.stat("k"); err != nil || info.Size != int64(len(k)) {
			t.Errorf("stat in the store with content %q: want the object of this store, got %+v, %v", k, info, err)
		}
		if k == "that" {
			s.wantAbsent("here")
		} else {
			s.wantOwn("here")
		}
	}
	one, two, there := e.mustOpen(t, driver.Read), e.mustOpen(t, driver.Read), other.mustOpen(t, driver.Read)
	a, _ := one.stat("k")
	if b, _ := two.stat("k"); a.Version != b.Version || !a.ModTime.Equal(b.ModTime) {
		t.Errorf("two handles return different versions or times of the same object: version %q and time %v, version %q and time %v", a.Version, a.ModTime, b.Version, b.ModTime)
	}
	two.close() // close the second before the first, then the first before the third
	check(one, "this one")
	check(there, "that")
	two = e.mustOpen(t, driver.Read)
	one.close()
	check(two, "this one")
	check(there, "that")
	check(w, "this one")
	two.close()
	w.put("k", "this one") // the writer continues
	w.flush()
	w.close()
	check(apart, "that")
	check(there, "that")
	three := e.mustOpen(t, driver.Read)
	apart.close()
	there.close()
	check(three, "this one")
}

// missingLater checks that opening a missing store fails, or that the store has no objects
// if Open does not look for it.
func missingLater(t conformance.T, e *Env) {
	m, err := e.open(t.Context(), driver.Read)
	if err != nil {
		wantKind(t, "open in mode read", err, ncerr.ErrNoDataset)
		return
	}
	s := &store{t: t, m: m}
	t.Cleanup(s.close)
	s.wantAbsent("a/b")
}

func openSiblings(t conformance.T, e *Env) {
	if !strings.Contains(e.spec.Path, "/") {
		t.Skipf("siblings are defined only for paths with a slash, not for %q", e.spec.Path)
	}
	sibling := *e
	sibling.spec.Path += ".nczstage-x"
	t.Cleanup(func() { _ = sibling.opener.Remove(context.WithoutCancel(t.Context()), sibling.spec) }) // the store might no longer exist
	a := e.create(t)
	a.putAll("a/b", "c")
	a.flush()
	b := sibling.create(t)
	b.wantList("", driver.ListOptions{Recursive: true})
	b.putAll("a/b2", "d")
	b.flush()
	a.wantOwn("a/b", "c")
	a.wantAbsent("d")
	a.wantList("", driver.ListOptions{Recursive: true}, "a/b", "c")
	a.close()
	b.close()
	a = e.create(t) // the store is empty after the flush at the latest
	a.flush()
	a.close()
	b = sibling.mustOpen(t, driver.Read)
	b.wantList("", driver.ListOptions{Recursive: true}, "a/b2", "d")
	b.close()
	a = e.mustOpen(t, driver.Update)
	a.putAll("kept")
	a.flush()
	a.close()
	if err := sibling.opener.Remove(t.Context(), sibling.spec); err != nil {
		t.Fatalf("remove: %v", err)
	}
	e.mustOpen(t, driver.Read).wantList("", driver.ListOptions{Recursive: true}, "kept")
	b = sibling.create(t)
	b.putAll("kept too")
	b.flush()
	b.close()
	if err := e.opener.Remove(t.Context(), e.spec); err != nil {
		t.Fatalf("remove: %v", err)
	}
	b = sibling.mustOpen(t, driver.Read)
	b.wantList("", driver.ListOptions{Recursive: true}, "kept too")
	b.close()
	e.checkNeighbors(t)
}

// checkNeighbors creates, replaces and removes a store, and checks that other stores whose
// paths are longer by a suffix that drivers use for temporary names are unchanged.
func (e *Env) checkNeighbors(t conformance.T) {
	var others []Env
	for _, letters := range []string{"x", "new", "tmp", "old", "lock", "db"} {
		o := *e
		o.spec.Path += letters
		t.Cleanup(func() { _ = o.opener.Remove(context.WithoutCancel(t.Context()), o.spec) })
		s := o.create(t)
		s.put("other", letters)
		s.flush()
		s.close()
		others = append(others, o)
	}
	for range 2 { // a new store, and one that replaces it
		s := e.create(t)
		s.put("k", pattern(1, 100_000))
		s.flush()
		s.close()
	}
	if err := e.opener.Remove(t.Context(), e.spec); err != nil {
		t.Fatalf("remove: %v", err)
	}
	for _, o := range others {
		s := o.mustOpen(t, driver.Read)
		s.want("other", strings.TrimPrefix(o.spec.Path, e.spec.Path))
		s.close()
	}
}

func openReadOnly(t conformance.T, e *Env) {
	s := e.create(t)
	s.putAll("a/b", "c")
	s.flush()
	s.close()
	before := localFiles(t, e.spec.Path)
	ro := e.mustOpen(t, driver.Read)
	_, err := ro.tryPut("a/b", "scrawled")
	wantKind(t, "put", err, ncerr.ErrReadOnly)
	_, err = ro.tryPut("new/key", "x")
	wantKind(t, "put of a new key", err, ncerr.ErrReadOnly)
	err = ro.m.Delete(t.Context(), "c", &driver.DeleteOptions{})
	wantKind(t, "delete", err, ncerr.ErrReadOnly)
	ro.wantOwn("a/b", "c")
	ro.wantAbsent("new/key")
	if err := ro.m.Flush(t.Context()); err != nil && ncerr.KindOf(err) != ncerr.ErrReadOnly {
		t.Errorf("flush: %v", err)
	}
	if ro.m.Capabilities().List {
		ro.keys("", driver.ListOptions{})
	}
	ro.close()
	if after := localFiles(t, e.spec.Path); after != before {
		t.Errorf("mode Read changes the files of the store:\nbefore\n%safter\n%s", before, after)
	}
	e.mustOpen(t, driver.Read).wantOwn("a/b", "c")
}

// localFiles describes the files of a store in a local directory or file: their names, modes,
// times of change and checksums. It returns "" for a store elsewhere.
func localFiles(t conformance.T, path string) string {
	var all strings.Builder
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%q %v %v", strings.TrimPrefix(name, path), info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, " %d bytes, %08x", len(b), crc32.ChecksumIEEE(b))
		}
		return all.WriteByte('\n')
	})
	if errors.Is(err, fs.ErrNotExist) && all.Len() == 0 {
		return "" // not a local path
	}
	if err != nil {
		t.Fatalf("files of the store: %v", err)
	}
	return all.String()
}

func openUpdate(t conformance.T, e *Env) {
	s := e.create(t)
	s.putAll("a/kept", "a/replaced", "a/deleted")
	s.flush()
	s.close()
	up := e.mustOpen(t, driver.Update)
	up.put("a/replaced", "x")
	up.put("added", "y")
	up.delete("a/deleted")
	for _, s := range []*store{up, nil} {
		if s == nil { // the same rule applies after reopening
			up.flush()
			up.close()
			s = e.mustOpen(t, driver.Read)
		}
		s.wantOwn("a/kept")
		s.want("a/replaced", "x")
		s.want("added", "y")
		s.wantAbsent("a/deleted")
	}
}

// secretInError sets each secret string option to a distinctive value and searches for
// it in the errors from failing calls to Open, Stat and Remove.
func secretInError(t conformance.T, e *Env) {
	const secret = "a-string-that-occurs-nowhere-else"
	for _, o := range e.opener.Describe().Options {
		if !o.Secret || o.Type != "string" {
			continue
		}
		given := e.options(t)
		given[o.Name] = secret
		silent := func(what string, err error) {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error contains the value of option %s: %s", what, o.Name, strings.ReplaceAll(err.Error(), secret, "SECRET"))
			}
		}
		spec := e.spec
		open := func(what string) {
			var err error
			if spec.Options, err = json.Marshal(given); err != nil {
				t.Fatalf("options: %v", err)
			}
			m, err := e.opener.Open(t.Context(), spec) // mode Read
			if silent(what, err); err != nil {
				return
			}
			_, err = m.Stat(t.Context(), "none") // for a driver that does not look for the store in Open
			silent(what+" and stat an object", err)
			_ = m.Close(t.Context())
		}
		open("open a missing store")
		silent("remove a missing store", e.opener.Remove(t.Context(), spec))
		given["no-such-option-of-any-driver"] = secret
		open("open with an unknown option")
		delete(given, "no-such-option-of-any-driver")
		given[o.Name] = secret + " too"
		created, err := json.Marshal(given)
		if err != nil {
			t.Fatalf("options: %v", err)
		}
		spec.Options, spec.Mode = created, driver.Create
		m, err := e.opener.Open(t.Context(), spec)
		if silent("create a store", err); err != nil { // the driver cannot write, or the server does not accept the value
			continue
		}
		silent("flush", m.Flush(t.Context()))
		silent("close", m.Close(t.Context()))
		given[o.Name], spec.Mode = secret, driver.Read
		open("open a store that was created with another value")
		spec.Options = created
		silent("remove a store", e.opener.Remove(t.Context(), spec))
	}
}
