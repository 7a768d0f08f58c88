package mapsuite_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// planted is an Opener whose Maps have a defect.
type planted struct {
	driver.Opener
	plant func(driver.Map) driver.Map
}

func (p planted) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := p.Opener.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return p.plant(m), nil
}

// inPlace is a Map that overwrites objects without truncating them, as a file driver
// might by mistake.
type inPlace struct{ driver.Map }

func (m inPlace) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	old, _, err := m.Get(ctx, key, &driver.GetOptions{}, driver.Heap)
	if err != nil || int64(len(old)) <= body.Size() || o.IfAbsent || o.IfMatch != "" {
		return m.Map.Put(ctx, key, body, o)
	}
	fresh, err := driver.ReadBody(body)
	if err != nil {
		return driver.Info{}, err
	}
	info, err := m.Map.Put(ctx, key, driver.Bytes(slices.Concat(fresh, old[len(fresh):])), o)
	info.Size = body.Size()
	return info, err
}

// absentOnError is a Map that returns ErrNotFound for every failed Get.
type absentOnError struct{ driver.Map }

func (m absentOnError) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	data, info, err := m.Map.Get(ctx, key, o, alloc)
	if err != nil {
		err = ncerr.ErrNotFound
	}
	return data, info, err
}

// shortRead is a Map that returns the available bytes of a range that extends past the
// end.
type shortRead struct{ driver.Map }

func (m shortRead) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if info, err := m.Stat(ctx, key); err == nil && o.Range != nil && o.Range.Offset >= 0 {
		c := *o
		off := min(o.Range.Offset, info.Size)
		c.Range = &driver.Range{Offset: off, Length: min(o.Range.Length, info.Size-off)}
		o = &c
	}
	return m.Map.Get(ctx, key, o, alloc)
}

// stringPrefix is a Map that lists all keys that start with the prefix as a string, not
// by segments.
type stringPrefix struct{ driver.Map }

func (m stringPrefix) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if !o.Recursive {
			for e, err := range m.Map.List(ctx, prefix, o) {
				if !yield(e, err) {
					return
				}
			}
			return
		}
		for e, err := range m.Map.List(ctx, "", o) {
			if (err != nil || strings.HasPrefix(e.Key, strings.TrimSuffix(prefix, "/"))) && !yield(e, err) {
				return
			}
		}
	}
}

// torn returns a Map that stores half of an object before the whole object.
func torn(m driver.Map) driver.Map {
	h := &hooked{Map: m}
	h.put = func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
		if b, ok := body.(driver.Bytes); ok && len(b) > 10000 && unconditional(o) {
			if _, err := m.Put(ctx, key, b[:len(b)/2], o); err != nil {
				return driver.Info{}, err
			}
			h.reads.wait(allCalls)
		}
		return m.Put(ctx, key, body, o)
	}
	return h
}

// lateCheck returns a Map that checks IfAbsent and stores the object in two separate
// steps.
func lateCheck(m driver.Map) driver.Map {
	var lookups meeting
	return &hooked{Map: m, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
		if o.IfAbsent {
			_, err := m.Stat(ctx, key)
			lookups.call()
			if err == nil {
				return driver.Info{}, ncerr.ErrObjectExists
			}
			lookups.wait(1)
			o = &driver.PutOptions{}
		}
		return m.Put(ctx, key, body, o)
	}}
}

// unread is a driver whose stores cannot be read after they were opened for update and
// closed without a write.
type unread struct {
	driver.Opener
	broken *sync.Map // paths
}

func (u unread) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	if _, ok := u.broken.Load(spec.Path); ok && spec.Mode == driver.Read {
		return nil, ncerr.ErrPermission
	}
	m, err := u.Opener.Open(ctx, spec)
	if err != nil || spec.Mode != driver.Update {
		return m, err
	}
	u.broken.Store(spec.Path, true)
	return &hooked{Map: plain{m}, put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
		u.broken.Delete(spec.Path)
		return m.Put(ctx, key, body, o)
	}}, nil
}

// TestUpdateWithoutWrites checks that the suite detects a driver whose stores are unreadable
// after they were opened for update and nothing was written.
func TestUpdateWithoutWrites(t *testing.T) {
	t.Parallel()
	mustFail(t, inMemory(unread{memmap.NewOpener(), &sync.Map{}}), 10*time.Minute, "map.open.untouched")
}

// TestObjectsThatArePrefixes checks that map.list.both passes if a name can be both an object
// and a prefix, fails if such a prefix is not listed, and is unsupported if a remote server
// refuses such names.
func TestObjectsThatArePrefixes(t *testing.T) {
	t.Parallel()
	target := func(unlisted bool) *mapsuite.Target {
		return inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			const end = "$" // appended to the keys of objects in m, in which no name can be both an object and a prefix
			return &hooked{
				Map: plain{m},
				caps: func() driver.Capabilities {
					c := m.Capabilities()
					c.PrefixExclusive, c.OrderedList = false, false
					return c
				},
				put: func(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
					return m.Put(ctx, key+end, body, o)
				},
				list: func(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
					return func(yield func(driver.Entry, error) bool) {
						for e, err := range m.List(ctx, prefix, o) {
							if e.Prefix && unlisted {
								if _, err := m.Stat(ctx, strings.TrimSuffix(e.Key, "/")+end); err == nil {
									continue
								}
							}
							if e.Key = strings.TrimSuffix(e.Key, end); !yield(e, err) {
								return
							}
						}
					}
				},
			}
		}})
	}
	run := func(target *mapsuite.Target) conformance.Result {
		return conformance.Run(t.Context(), mapsuite.Suite(), target, &conformance.Options{Select: []string{"map.list.both"}, Limit: 10 * time.Minute}).Results[0]
	}
	mustFail(t, target(true), 10*time.Minute, "map.list.both")
	if x := run(target(false)); x.Status != conformance.StatusPass {
		t.Errorf("a correct driver fails: %+v", x)
	}
	refusing := func(latency driver.Latency) *mapsuite.Target {
		return inMemory(planted{memmap.NewOpener(), func(m driver.Map) driver.Map {
			return &hooked{Map: plain{m}, caps: func() driver.Capabilities {
				c := m.Capabilities()
				c.PrefixExclusive, c.Latency = false, latency
				return c
			}}
		}})
	}
	mustFail(t, refusing(driver.Local), 10*time.Minute, "map.list.both")
	for reason, target := range map[string]*mapsuite.Target{"the server refuses": refusing(driver.Remote), "declares PrefixExclusive": inMemory(memmap.NewOpener())} {
		if x := run(target); x.Status != conformance.StatusUnsupported || !strings.Contains(x.Message, reason) {
			t.Errorf("want unsupported because %s, got %+v", reason, x)
		}
	}
}

// plain is a Map without GetMany, which the defects do not cover.
type plain struct{ driver.Map }

// TestPlantedDefects checks that each defect fails exactly the checks written for it.
// The checks of concurrent and canceled calls may fail too.
func TestPlantedDefects(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plant func(driver.Map) driver.Map
		want  []string
	}{
		"none": {func(m driver.Map) driver.Map { return m }, nil},
		"overwrites without truncating": {func(m driver.Map) driver.Map { return inPlace{m} }, []string{
			"map.put.shorter", "map.put.to-empty", "map.model.random", "map.concurrent.same-key", "map.open.update", "map.stat.fresh",
		}},
		"reports failures as absence": {func(m driver.Map) driver.Map { return absentOnError{m} }, []string{
			"map.get.limit", "map.get.if-match", "map.get.range.past-end", "map.get.range.rounded", "map.get.range.beyond-end", "map.get.range.huge",
			"map.get.range.empty-past-end", "map.get.range.limit", "map.get.alloc.error", "map.get.alloc.absent",
			"map.get.range.overflow", "map.cancel.before", "map.model.random", "map.put.if-match.others",
		}},
		"shortens ranges past the end": {func(m driver.Map) driver.Map { return shortRead{m} }, []string{
			"map.get.range.past-end", "map.get.range.rounded", "map.get.range.beyond-end", "map.get.range.huge", "map.get.range.overflow", "map.get.range.empty-past-end", "map.model.random",
		}},
		"lists by string prefix": {func(m driver.Map) driver.Map { return stringPrefix{m} }, []string{
			"map.list.recursive", "map.list.segment-wise", "map.list.start-after.recursive", "map.list.literal", "map.list.below",
		}},
		"stores objects in two steps":          {torn, []string{"map.concurrent.same-key", "map.concurrent.first-put"}},
		"checks for the object without a lock": {lateCheck, []string{"map.put.if-absent.race"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return tc.plant(plain{m}) }}
			r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(o), &conformance.Options{Seed: 5, Limit: 10 * time.Minute, Effort: conformance.Brief})
			concurrent := func(id string) bool {
				return strings.HasPrefix(id, "map.concurrent.") || strings.HasPrefix(id, "map.cancel.")
			}
			got := slices.DeleteFunc(r.Failed(), func(id string) bool { return len(tc.want) > 0 && concurrent(id) && !slices.Contains(tc.want, id) })
			slices.Sort(got)
			slices.Sort(tc.want)
			if !slices.Equal(got, tc.want) || r.Totals.Error > 0 {
				t.Errorf("want the failures %q\ngot  %q", tc.want, got)
				for _, x := range r.Results {
					if x.Status != conformance.StatusPass && !slices.Contains(tc.want, x.ID) {
						t.Logf("%s %s: %s", x.Status, x.ID, x.Message)
					}
				}
			}
		})
	}
}

// poor is a Map that declares no capabilities and implements only the required methods.
type poor struct {
	driver.Base
	m driver.Map
}

func (p poor) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if o.Range != nil {
		return nil, driver.Info{}, ncerr.ErrUnsupported
	}
	return p.m.Get(ctx, key, o, alloc)
}

func (p poor) Stat(ctx context.Context, key string) (driver.Info, error) { return p.m.Stat(ctx, key) }

// cut is an Opener that treats a path and the same path with the suffix ".ncz..." as
// one store.
type cut struct{ driver.Opener }

func (c cut) spec(spec driver.OpenSpec) driver.OpenSpec {
	spec.Path, _, _ = strings.Cut(spec.Path, ".ncz")
	return spec
}

func (c cut) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	return c.Opener.Open(ctx, c.spec(spec))
}

func (c cut) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return c.Opener.Remove(ctx, c.spec(spec))
}

// TestSiblings checks that the suite detects a driver that declares siblings without
// supporting them.
func TestSiblings(t *testing.T) {
	t.Parallel()
	r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(cut{memmap.NewOpener()}), &conformance.Options{Select: []string{"map.open.*"}, Limit: 10 * time.Minute})
	if want := []string{"map.open.siblings"}; !slices.Equal(r.Failed(), want) {
		t.Errorf("want %q, got %q", want, r.Failed())
	}
}

// TestUndeclared checks that no check fails for a read-only Map, whose clean refusals are
// reported as unsupported, and that a check fails for a Map that ignores an undeclared
// condition.
func TestUndeclared(t *testing.T) {
	t.Parallel()
	o := planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return poor{m: m} }}
	r := conformance.Run(t.Context(), mapsuite.Suite(), inMemory(o), &conformance.Options{Effort: conformance.Brief, Limit: 10 * time.Minute})
	if !r.OK() || r.Totals.Unsupported < 60 || len(slices.DeleteFunc(r.Capabilities, func(c string) bool { return c == mapsuite.Measured })) != 3 {
		t.Errorf("%+v, capabilities %q, failed %q", r.Totals, r.Capabilities, r.Failed())
	}
	liar := planted{memmap.NewOpener(), func(m driver.Map) driver.Map { return undeclaring{m} }}
	r = conformance.Run(t.Context(), mapsuite.Suite(), inMemory(liar), &conformance.Options{Effort: conformance.Brief, Limit: 10 * time.Minute})
	if want := []string{"map.put.if-absent"}; !slices.Equal(r.Failed(), want) {
		t.Errorf("a driver that ignores a condition: want %q, got %q", want, r.Failed())
	}
}

// undeclaring is a Map that does not declare IfAbsent and ignores it instead of refusing it.
type undeclaring struct{ driver.Map }

func (m undeclaring) Capabilities() driver.Capabilities {
	c := m.Map.Capabilities()
	c.IfAbsent = false
	return c
}

func (m undeclaring) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	return m.Map.Put(ctx, key, body, &driver.PutOptions{IfMatch: o.IfMatch})
}
