package mapsuite

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func modelChecks() []Check {
	return []Check{
		{ID: "map.model.random", Doc: "Random sequences of operations have the same results as on a Go map from keys to contents.", Needs: []string{Write, Delete}, Run: func(t conformance.T, e *Env) {
			for run := range uint64(6) {
				if m := newModel(t, e, run); !m.run(120) {
					t.Errorf("seed %d, sequence %d; the last operations were:\n%s", t.Seed(), run, strings.Join(m.log[max(0, len(m.log)-12):], "\n"))
					return
				}
				if err := e.opener.Remove(t.Context(), e.spec); err != nil {
					t.Fatalf("remove: %v", err)
				}
			}
		}},
	}
}

// model runs the same operations on a store and on a Go map, and compares the results.
type model struct {
	t     conformance.T
	e     *Env
	s     *store
	rng   *rand.Rand
	table map[string]string
	keys  []string
	log   []string
}

func newModel(t conformance.T, e *Env, run uint64) *model {
	m := &model{t: t, e: e, rng: rand.New(rand.NewPCG(t.Seed(), run)), table: map[string]string{}}
	segments := []string{"a", "b", "ab", "a.b", ".zarray", "0", "10"}
	for range 12 {
		var parts []string
		for range 1 + m.rng.IntN(3) {
			parts = append(parts, segments[m.rng.IntN(len(segments))])
		}
		m.keys = append(m.keys, strings.Join(parts, "/"))
	}
	m.s = e.create(t)
	return m
}

// run performs n random operations and reports whether all results were correct.
func (m *model) run(n int) bool {
	ops := []func(key string){m.put, m.put, m.put, m.get, m.get, m.getRange, m.del, m.list, m.listAll, m.reopen}
	for range n {
		ops[m.rng.IntN(len(ops))](m.keys[m.rng.IntN(len(m.keys))])
		if m.t.Failed() {
			return false
		}
	}
	for _, k := range m.keys {
		m.get(k)
	}
	m.s.close()
	return !m.t.Failed()
}

func (m *model) note(format string, args ...any) { m.log = append(m.log, fmt.Sprintf(format, args...)) }

// clash reports whether key is a prefix of a stored key or a stored key is a prefix of key.
func (m *model) clash(key string) bool {
	for k := range m.table {
		if strings.HasPrefix(k, key+"/") || strings.HasPrefix(key, k+"/") {
			return true
		}
	}
	return false
}

func (m *model) put(key string) {
	content := pattern(byte(m.rng.IntN(256)), []int{0, 1, 10, 5000, 70000}[m.rng.IntN(5)])
	m.note("put %q, %d bytes", key, len(content))
	caps := m.s.m.Capabilities()
	if m.clash(key) {
		if caps.PrefixExclusive {
			_, err := m.s.tryPut(key, content)
			wantKind(m.t, "put "+key, err, ncerr.ErrObjectExists)
		}
		return
	}
	opts := &driver.PutOptions{}
	_, exists := m.table[key]
	if caps.IfAbsent && m.rng.IntN(4) == 0 {
		opts.IfAbsent = true
	}
	_, err := m.s.m.Put(m.t.Context(), key, driver.Bytes(content), opts)
	if opts.IfAbsent && exists {
		wantKind(m.t, "put if absent "+key, err, ncerr.ErrObjectExists)
		return
	}
	if err != nil {
		m.t.Errorf("put %q: %v", key, err)
		return
	}
	m.table[key] = content
}

func (m *model) get(key string) {
	m.note("get %q", key)
	if content, ok := m.table[key]; ok {
		m.s.want(key, content)
	} else {
		m.s.wantAbsent(key)
	}
}

func (m *model) getRange(key string) {
	if !m.s.m.Capabilities().Ranges {
		return
	}
	r := driver.Range{Offset: int64(m.rng.IntN(60) - 20), Length: int64(m.rng.IntN(40) - 1)}
	if r.Offset < 0 {
		r.Length = -1
	}
	m.note("get %q, range %+v", key, r)
	got, _, err := m.s.tryRange(key, r.Offset, r.Length)
	content, ok := m.table[key]
	n := int64(len(content))
	end := r.Offset + r.Length
	if r.Length < 0 {
		end = n
	}
	start := r.Offset
	if start < 0 {
		start = max(0, n+start)
	}
	switch {
	case !ok:
		wantKind(m.t, "range of "+key, err, ncerr.ErrNotFound)
	case start > n || end > n:
		wantKind(m.t, "range of "+key, err, ncerr.ErrRange)
	case err != nil || string(got) != content[start:end]:
		m.t.Errorf("range %+v of %q: want %s, got %s, %v", r, key, show(content[start:end]), show(string(got)), err)
	}
}

func (m *model) del(key string) {
	m.note("delete %q", key)
	if err := m.s.m.Delete(m.t.Context(), key, &driver.DeleteOptions{}); err != nil {
		m.t.Errorf("delete %q: %v", key, err)
	}
	delete(m.table, key)
}

func (m *model) list(key string) {
	if !m.s.m.Capabilities().List {
		return
	}
	prefix := key[:strings.LastIndexByte(key, '/')+1]
	m.note("list %q", prefix)
	set := map[string]bool{}
	for k := range m.table {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			if i := strings.IndexByte(rest, '/'); i >= 0 {
				k = prefix + rest[:i+1]
			}
			set[k] = true
		}
	}
	m.s.wantList(prefix, driver.ListOptions{}, slices.Sorted(maps.Keys(set))...)
}

func (m *model) listAll(after string) {
	if !m.s.m.Capabilities().RecursiveList {
		return
	}
	m.note("list all after %q", after)
	var want []string
	for k := range m.table {
		if k > after {
			want = append(want, k)
		}
	}
	slices.Sort(want)
	m.s.wantList("", driver.ListOptions{Recursive: true, StartAfter: after}, want...)
}

func (m *model) reopen(string) {
	m.note("flush, close, open")
	m.s.flush()
	m.s.close()
	m.s = m.e.mustOpen(m.t, driver.Update)
}
