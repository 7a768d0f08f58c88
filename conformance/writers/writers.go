// Package writers checks that several writers of one dataset lose nothing. It makes random
// changes through three handles and compares the dataset with a model that knows each
// write and whether it was acknowledged.
//
// The handles stand for processes: they share nothing but the store. With Config.Command each is
// in a process of its own, which can be killed before any of its requests. A step of one writer
// can run in the middle of a Flush of another one, before any of its requests.
//
// Only tests use this package.
package writers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Config describes a check.
type Config struct {
	// URL is the location of the dataset, which is created. Options must have a registry.
	URL     string
	Options dataset.Options
	// Steps is the number of steps, and Seed the seed of the random choices.
	Steps int
	Seed  uint64
	// Kill ends the process of a handle, if the test can do that. nil means that the handle is
	// just not used any more, like a process that was suspended.
	Kill func(*dataset.Dataset)
	// Command returns a command that calls Serve with its standard input and output. If it
	// is not nil, each writer is such a process, which is killed with SIGKILL, also in the
	// middle of an operation.
	Command func() *exec.Cmd
	// Faults is the fraction of puts that fail, before or after they were stored.
	Faults float64
	// MayFail is set if the store itself may fail.
	MayFail bool
}

const (
	writerCount = 3
	maxLength   = 60
	fill        = int32(-1)
)

// errFault is the injected failure.
var errFault = ncerr.New(ncerr.ErrIO, "", "", errors.New("injected failure"))

// write is a write of one element.
type write struct {
	path               string
	at                 [2]int64
	value              int32
	writer             *writer
	start, acked, died int  // ticks; 0 if not yet
	beyond             bool // beyond the length that was published at that time
}

// writer is a handle and what it has not flushed yet.
type writer struct {
	handle
	pending []*write
	attrs   []string
	busy    bool
	opened  int // tick
}

type model struct {
	t      *testing.T
	c      Config
	rng    *rand.Rand
	tick   int
	value  int32
	elems  map[string]map[[2]int64][]*write
	length map[string][]int64 // published shapes, as of the last check
	attrs  []string           // acknowledged attributes
	w      [writerCount]*writer
	log    *ticks
	trace  []string
}

func (m *model) advance() {
	m.tick++
	m.log.now.Store(int64(m.tick))
}

// ticks records when a warning was last logged for each variable.
type ticks struct {
	now   atomic.Int64 // the current tick
	mu    sync.Mutex
	paths map[string]int64
}

func (t *ticks) warned(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paths[path] = t.now.Load()
}

// warnings passes the paths in warnings about other writers to a function.
type warnings struct {
	slog.Handler
	warned func(path string)
}

func (w *warnings) Enabled(context.Context, slog.Level) bool { return true }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || !strings.Contains(r.Message, "a dimension grows over elements that another writer may have written") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "path" {
			w.warned(a.Value.String())
		}
		return true
	})
	return nil
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warnings) WithGroup(string) slog.Handler      { return w }

// hook is a store that calls a function before a request and makes puts fail.
type hook struct {
	driver.Map
	in     atomic.Int64 // number of requests until f is called; negative means never
	f      func()
	once   sync.Mutex
	faults func() (before, after bool)
}

func (h *hook) request() {
	if h.in.Add(-1) == 0 {
		h.once.Lock()
		defer h.once.Unlock()
		h.f()
	}
}

func (h *hook) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	h.request()
	return h.Map.Get(ctx, key, o, alloc)
}

func (h *hook) Stat(ctx context.Context, key string) (driver.Info, error) {
	h.request()
	return h.Map.Stat(ctx, key)
}

func (h *hook) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	h.request()
	before, after := h.faults()
	if before {
		return driver.Info{}, errFault
	}
	info, err := h.Map.Put(ctx, key, body, o)
	if after && err == nil {
		return driver.Info{}, errFault
	}
	return info, err
}

func (h *hook) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	h.request()
	return h.Map.Delete(ctx, key, o)
}

func (h *hook) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	h.request()
	return h.Map.List(ctx, prefix, o)
}

// Run makes the steps and fails the test if the dataset differs from the model.
func Run(t *testing.T, c Config) {
	t.Helper()
	m := &model{t: t, c: c, rng: rand.New(rand.NewPCG(c.Seed, 0)), elems: map[string]map[[2]int64][]*write{}, length: map[string][]int64{}, log: &ticks{paths: map[string]int64{}}}
	m.c.Options.Log = slog.New(&warnings{warned: m.log.warned})
	m.create()
	for i := range c.Steps {
		m.step(m.rng.IntN(writerCount), 0)
		if i%10 == 9 {
			m.check()
		}
		if t.Failed() {
			t.Fatalf("step %d; last steps:\n%s", i, strings.Join(m.trace[max(0, len(m.trace)-60):], "\n"))
		}
	}
	for i := range m.w {
		if m.w[i] != nil {
			m.close(i)
		}
	}
	m.check()
	if t.Failed() {
		t.Fatalf("at the end; last steps:\n%s", strings.Join(m.trace[max(0, len(m.trace)-60):], "\n"))
	}
}

func (m *model) note(format string, args ...any) {
	if m.trace = append(m.trace, fmt.Sprintf(format, args...)); len(m.trace) > 1000 {
		m.trace = m.trace[500:]
	}
}

func (m *model) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// create creates the dataset, with variables that grow along one and two dimensions and one
// that does not.
func (m *model) create() {
	ctx := m.t.Context()
	ds, err := open.Create(ctx, m.c.URL, &dataset.CreateOptions{Options: m.c.Options})
	m.must(err)
	tm, err := ds.Root().DefineDim("t", 0, true)
	m.must(err)
	x, err := ds.Root().DefineDim("x", 0, true)
	m.must(err)
	for name, spec := range map[string]dataset.VarSpec{
		"u": {Dims: []*dataset.Dim{tm}, Chunks: []int64{4}},
		"w": {Dims: []*dataset.Dim{tm, x}, Chunks: []int64{2, 3}},
		"s": {},
	} {
		spec.Type, spec.Fill = dtype.NCInt, []int32{fill}
		_, err := ds.Root().DefineVar(ctx, name, &spec)
		m.must(err)
		m.elems["/"+name] = map[[2]int64][]*write{}
	}
	m.must(ds.Close(ctx))
}

// step makes one step of a writer. depth is the number of steps in whose middle it runs.
func (m *model) step(i, depth int) {
	w := m.w[i]
	if w == nil {
		m.open(i)
		return
	}
	if w.busy {
		return
	}
	w.busy = true
	defer func() { w.busy = false }()
	if depth == 0 && m.rng.IntN(3) == 0 { // another writer acts in the middle
		other := (i + 1 + m.rng.IntN(writerCount-1)) % writerCount
		w.interrupt(1+m.rng.Int64N(16), func() {
			for range 1 + m.rng.IntN(4) {
				m.step(other, 1)
			}
		})
		defer w.interrupt(-1, nil)
	}
	switch n := m.rng.IntN(100); {
	case n < 55:
		m.write(i)
	case n < 78:
		m.flush(i)
	case n < 83:
		m.must(w.refresh(m.t.Context()))
	case n < 88:
		m.attr(i)
	case n < 91:
		m.read(i)
	case n < 94, n < 96 && m.c.Command == nil:
		m.close(i)
	case n < 96:
		m.kill(i)
	case n < 98:
		m.note("%d: abort", i)
		err := w.abort(m.t.Context())
		if err != nil && !m.mayFail(err) {
			m.t.Errorf("writer %d: abort: %v", i, err)
		}
		m.dead(i)
	default:
		m.kill(i)
	}
}

// kill kills a writer. If it is a process of its own, that happens in the middle of an operation
// if the operation sends enough requests.
func (m *model) kill(i int) {
	w := m.w[i]
	if m.c.Command != nil {
		if len(w.pending) == 0 {
			m.write(i) // so that there is something to flush
		}
		w.interrupt(1+m.rng.Int64N(12), func() {
			m.note("%d: killed before a request", i)
			w.kill()
		})
		switch m.rng.IntN(4) {
		case 0:
			m.write(i)
		case 1:
			m.close(i)
		default:
			m.flush(i)
		}
	}
	if m.w[i] == w {
		m.note("%d: killed", i)
		w.kill()
		m.dead(i)
	}
}

func (m *model) mayFail(err error) bool {
	return m.c.MayFail || m.c.Faults > 0 && (strings.Contains(err.Error(), "injected failure") || ncerr.KindOf(err) == ncerr.ErrConflict)
}

func (m *model) open(i int) {
	m.note("%d: open", i)
	var h handle
	var err error
	if seed := m.rng.Uint64(); m.c.Command == nil {
		var l *local
		if l, err = openLocal(m.t.Context(), m.c.URL, m.c.Options, m.c.Faults, seed); err == nil {
			l.killing = m.c.Kill
			h = l
		}
	} else {
		p, serr := startProcess(m.c.Command(), m.log.warned)
		m.must(serr)
		m.t.Cleanup(p.kill)
		if _, err = p.call(request{Op: opOpen, URL: m.c.URL, Faults: m.c.Faults, Seed: seed}); err == nil {
			h = p
		} else {
			p.kill()
		}
	}
	if err != nil {
		if !m.mayFail(err) {
			m.t.Errorf("writer %d: open: %v", i, err)
		}
		return
	}
	m.advance()
	m.w[i] = &writer{handle: h, opened: m.tick}
}

// openLocal opens the dataset in this process.
func openLocal(ctx context.Context, url string, o dataset.Options, fraction float64, seed uint64) (*local, error) {
	h := &hook{}
	h.in.Store(-1)
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(seed, 1))
	h.faults = func() (before, after bool) {
		mu.Lock()
		defer mu.Unlock()
		if faults.Float64() >= fraction {
			return false, false
		}
		before = faults.IntN(2) == 0
		return before, !before
	}
	o.Update = true
	inner := o.Wrap
	o.Wrap = func(s driver.Map) driver.Map {
		if inner != nil {
			s = inner(s)
		}
		if h.Map != nil { // Abort opens the dataset again
			return &hook{Map: s, faults: h.faults}
		}
		h.Map = s
		return h
	}
	ds, err := open.Open(ctx, url, &o)
	if err != nil {
		return nil, err
	}
	return &local{ds: ds, hook: h}, nil
}

// write writes a few elements.
func (m *model) write(i int) {
	w := m.w[i]
	path := []string{"/u", "/w", "/s"}[min(m.rng.IntN(7)/3, 2)]
	shape, err := w.shape(m.t.Context(), path)
	if errors.Is(err, errKilled) { // a step in the middle of another one
		m.dead(i)
		return
	}
	m.must(err)
	sel := chunk.Selection{Start: make([]int64, len(shape)), Count: make([]int64, len(shape))}
	for d, n := range shape {
		sel.Start[d] = min(m.rng.Int64N(n+5), maxLength-6)
		sel.Count[d] = 1 + m.rng.Int64N(4)
	}
	values := make([]int32, sel.Len())
	m.advance()
	var list []*write
	at := func(k int64) (e [2]int64) {
		for d := len(shape) - 1; d >= 0; d-- {
			e[d] = sel.Start[d] + k%sel.Count[d]
			k /= sel.Count[d]
		}
		return e
	}
	for k := range values {
		m.value++
		values[k] = m.value
		e := at(int64(k))
		wr := &write{path: path, at: e, value: m.value, writer: w, start: m.tick}
		for d := range shape {
			wr.beyond = wr.beyond || m.length[path] == nil || e[d] >= m.length[path][d]
		}
		m.elems[path][e] = append(m.elems[path][e], wr)
		list = append(list, wr)
	}
	m.note("%d: write %s %v %v from %d", i, path, sel.Start, sel.Count, values[0])
	err = w.handle.write(m.t.Context(), path, sel, values)
	switch {
	case errors.Is(err, errKilled):
		w.pending = append(w.pending, list...)
		m.dead(i)
	case err == nil:
		w.pending = append(w.pending, list...)
	case m.mayFail(err): // parts may have been stored, and nothing is acknowledged
		m.note("%d: write failed: %v", i, err)
		m.advance()
	default:
		m.t.Errorf("writer %d: write: %v", i, err)
	}
}

func (m *model) flush(i int) {
	m.note("%d: flush", i)
	w := m.w[i]
	pending, attrs := len(w.pending), len(w.attrs)
	err := w.handle.flush(m.t.Context())
	m.ended(i, pending, attrs, err, "flush")
	m.note("%d: flushed: %v", i, err)
	if errors.Is(err, errKilled) {
		m.dead(i)
	}
}

// ended records the end of a Flush or Close.
func (m *model) ended(i, pending, attrs int, err error, what string) {
	w := m.w[i]
	m.advance()
	if err != nil {
		if !errors.Is(err, errKilled) && !m.mayFail(err) {
			m.t.Errorf("writer %d: %s: %v", i, what, err)
		}
		m.notePublished(w.pending[:pending])
		return
	}
	for _, wr := range w.pending[:pending] {
		wr.acked = m.tick
	}
	w.pending = w.pending[pending:]
	m.attrs = append(m.attrs, w.attrs[:attrs]...)
	w.attrs = w.attrs[attrs:]
	m.advance()
}

// notePublished records which writes are within the shapes in the store, or may be, after a
// Flush or Close has failed, which may have stored shapes.
func (m *model) notePublished(list []*write) {
	o := m.c.Options
	o.UseConsolidated = dataset.ConsolidatedVerify
	ds, err := open.Open(m.t.Context(), m.c.URL, &o)
	if err == nil {
		defer ds.Close(m.t.Context()) //nolint:errcheck // the store is only read
	}
	for _, wr := range list {
		within := true
		if err == nil {
			v, verr := ds.Root().Var(wr.path)
			m.must(verr)
			for d, n := range v.Shape() {
				within = within && wr.at[d] < n
			}
		}
		wr.beyond = wr.beyond && !within
	}
}

func (m *model) close(i int) {
	m.note("%d: close", i)
	w := m.w[i]
	err := w.handle.close(m.t.Context())
	m.ended(i, len(w.pending), len(w.attrs), err, "close")
	m.note("%d: closed: %v", i, err)
	m.dead(i)
}

// dead records that a writer has ended.
func (m *model) dead(i int) {
	m.advance()
	for _, wr := range m.w[i].pending {
		wr.died = m.tick
	}
	m.w[i] = nil
}

func (m *model) attr(i int) {
	w := m.w[i]
	m.value++
	name := fmt.Sprintf("a%d", m.value)
	m.must(w.setAttr(m.t.Context(), name))
	w.attrs = append(w.attrs, name)
	m.note("%d: attribute %s", i, name)
}

// read compares what a writer sees with the model.
func (m *model) read(i int) {
	m.note("%d: read", i)
	m.compare(m.w[i], false)
}

// check compares the dataset with the model.
func (m *model) check() {
	o := m.c.Options
	o.UseConsolidated = dataset.ConsolidatedVerify
	ds, err := open.Open(m.t.Context(), m.c.URL, &o)
	if err != nil {
		if !m.mayFail(err) {
			m.t.Error(err)
		}
		return
	}
	defer ds.Close(m.t.Context()) //nolint:errcheck // the store is only read
	m.compare(&local{ds: ds}, true)
	for _, name := range m.attrs {
		if _, err := ds.Root().Attr(name); err != nil {
			m.t.Errorf("an acknowledged attribute is lost: %v", err)
		}
	}
}

// compare compares the values of all variables with the model. all is set if h has just been
// opened and so must have all acknowledged elements.
func (m *model) compare(h handle, all bool) {
	for _, path := range slices.Sorted(maps.Keys(m.elems)) {
		elems := m.elems[path]
		shape, got, err := h.read(m.t.Context(), path)
		if err != nil {
			if !m.mayFail(err) {
				m.t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if all {
			m.length[path] = shape
		}
		for k, value := range got {
			var e [2]int64
			for d, n := len(shape)-1, int64(k); d >= 0; d-- {
				e[d], n = n%shape[d], n/shape[d]
			}
			if why := m.wrong(elems[e], value, all); why != "" {
				m.t.Errorf("%s%v has the value %d of shape %v: %s", path, e[:len(shape)], value, shape, why)
			}
		}
		for e, list := range elems {
			for d, n := range shape {
				if e[d] < n || !all {
					continue
				}
				for _, wr := range list {
					if wr.acked > 0 {
						m.t.Errorf("%s%v is beyond shape %v, but its value %d was acknowledged", path, e[:len(shape)], shape, wr.value)
					}
				}
				break
			}
		}
	}
}

// wrong returns the reason why an element cannot have a value, or "".
func (m *model) wrong(list []*write, value int32, all bool) string {
	if value == fill {
		for _, wr := range list {
			if wr.acked > 0 && all {
				return fmt.Sprintf("the value %d was acknowledged", wr.value)
			}
		}
		return ""
	}
	var is *write
	for _, wr := range list {
		if wr.value == value {
			is = wr
		}
	}
	if is == nil {
		return "nobody has written it there"
	}
	end := max(is.acked, is.died)
	for _, wr := range list {
		if all && end > 0 && wr.acked > 0 && wr.start > end {
			return fmt.Sprintf("the value %d was written later and acknowledged", wr.value)
		}
	}
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	if is.died > 0 && is.beyond && max(m.log.paths["/u"], m.log.paths["/w"]) < int64(is.writer.opened) { // the variables share a dimension
		return "a writer that has died did not flush it, and no warning was logged"
	}
	return ""
}
