package mapsuite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// fresh opens the store, which is empty with mode Create. With Target.OpenWriter,
// objects are stored through the writer and read through the driver.
func (e *Env) fresh(ctx context.Context, mode driver.Mode) (driver.Map, error) {
	if e.openWriter == nil || mode != driver.Create {
		return e.open(ctx, mode)
	}
	w, err := e.openWriter(ctx, e.spec)
	if err != nil {
		return nil, err
	}
	r, err := e.open(ctx, driver.Read)
	if err != nil {
		_ = w.Close(ctx) // the first error is more useful
		return nil, err
	}
	p := splitMap{Map: r, writer: w}
	if many, ok := r.(driver.GetManyer); ok {
		return splitManyMap{p, many}, nil
	}
	return p, nil
}

// splitMap is a read-only Map with a separate writer.
type splitMap struct {
	driver.Map
	writer driver.Map
}

// splitManyMap is a splitMap with the GetMany of the reading Map.
type splitManyMap struct {
	splitMap
	driver.GetManyer
}

// Put stores the object through the writer and returns what the driver sees.
func (p splitMap) Put(ctx context.Context, key string, body driver.Body, opts *driver.PutOptions) (driver.Info, error) {
	if _, err := p.writer.Put(ctx, key, body, opts); err != nil {
		return driver.Info{}, err
	}
	if err := p.writer.Flush(ctx); err != nil {
		return driver.Info{}, err
	}
	return p.Map.Stat(ctx, key)
}

// Delete deletes the object through the writer.
func (p splitMap) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	return p.writer.Delete(ctx, key, opts)
}

// Flush does nothing, because Put flushes.
func (p splitMap) Flush(context.Context) error { return nil }

// Close closes both Maps.
func (p splitMap) Close(ctx context.Context) error {
	return errors.Join(p.Map.Close(ctx), p.writer.Close(ctx))
}

// open opens the store of the environment. The context of the call ends with the call, as
// in a plugin.
func (e *Env) open(ctx context.Context, mode driver.Mode) (driver.Map, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	spec := e.spec
	spec.Mode = mode
	return e.opener.Open(ctx, spec)
}

// store is an open Map with helpers that fail the check on errors.
type store struct {
	t conformance.T
	m driver.Map
}

// create opens an empty store. It is closed when the check ends.
func (e *Env) create(t conformance.T) *store { return e.mustOpen(t, driver.Create) }

func (e *Env) mustOpen(t conformance.T, mode driver.Mode) *store {
	t.Step("open in mode", modeName(mode))
	m, err := e.fresh(t.Context(), mode)
	if err != nil {
		t.Fatalf("open in mode %s: %v", modeName(mode), err)
	}
	s := &store{t: t, m: m}
	t.Cleanup(func() { s.close() })
	return s
}

func modeName(m driver.Mode) string {
	return []string{"read", "update", "create", "create-exclusive"}[m]
}

// close closes the Map once.
func (s *store) close() {
	if s.m == nil {
		return
	}
	m := s.m
	s.m = nil
	s.t.Step("close")
	if err := m.Close(context.WithoutCancel(s.t.Context())); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

func (s *store) flush() {
	s.t.Step("flush")
	if err := s.m.Flush(s.t.Context()); err != nil {
		s.t.Fatalf("flush: %v", err)
	}
}

// put stores content and fails the check on an error.
func (s *store) put(key, content string) driver.Info {
	info, err := s.tryPut(key, content)
	if err != nil {
		s.t.Fatalf("put %q: %v", key, err)
	}
	if info.Size != int64(len(content)) {
		s.t.Errorf("put %q: want size %d, got %d", key, len(content), info.Size)
	}
	return info
}

func (s *store) tryPut(key, content string) (driver.Info, error) {
	s.t.Step("put", key)
	return s.m.Put(s.t.Context(), key, driver.Bytes(content), &driver.PutOptions{})
}

// putAll stores each key with its own name as content.
func (s *store) putAll(keys ...string) {
	for _, k := range keys {
		s.put(k, k)
	}
}

func (s *store) delete(key string) {
	s.t.Step("delete", key)
	if err := s.m.Delete(s.t.Context(), key, &driver.DeleteOptions{}); err != nil {
		s.t.Fatalf("delete %q: %v", key, err)
	}
}

func (s *store) stat(key string) (driver.Info, error) {
	s.t.Step("stat", key)
	return s.m.Stat(s.t.Context(), key)
}

// tryGet reads into newly allocated memory.
func (s *store) tryGet(key string, opts driver.GetOptions) ([]byte, driver.Info, error) {
	s.t.Step("get", key)
	return s.m.Get(s.t.Context(), key, &opts, driver.Heap)
}

func (s *store) tryRange(key string, offset, length int64) ([]byte, driver.Info, error) {
	return s.tryGet(key, driver.GetOptions{Range: &driver.Range{Offset: offset, Length: length}})
}

// want checks the content of key.
func (s *store) want(key, content string) {
	got, info, err := s.tryGet(key, driver.GetOptions{})
	if err != nil {
		s.t.Errorf("get %s: %v", show(key), err)
		return
	}
	if !bytes.Equal(got, []byte(content)) {
		s.t.Errorf("get %s: want %s, got %s%s", show(key), show(content), show(string(got)), firstDifference(content, string(got)))
	}
	if info.Size != int64(len(content)) {
		s.t.Errorf("get %s: want size %d, got %d", show(key), len(content), info.Size)
	}
}

// firstDifference describes the lengths of two contents or, if these are equal, where long
// contents first differ. It returns "" for short contents, which show prints whole.
func firstDifference(want, got string) string {
	if len(want) != len(got) {
		return fmt.Sprintf("; want %d bytes, got %d", len(want), len(got))
	}
	for i := 0; i < len(want) && len(want) > 80; i++ {
		if want[i] != got[i] {
			return fmt.Sprintf("; the first of %d bytes to differ is at %d: want %#02x, got %#02x", len(want), i, want[i], got[i])
		}
	}
	return ""
}

// wantOwn checks that each key has its own name as content.
func (s *store) wantOwn(keys ...string) {
	for _, k := range keys {
		s.want(k, k)
	}
}

// wantAbsent checks that Get and Stat of key fail with ErrNotFound.
func (s *store) wantAbsent(key string) {
	_, _, err := s.tryGet(key, driver.GetOptions{})
	wantKind(s.t, "get "+key, err, ncerr.ErrNotFound)
	_, err = s.stat(key)
	wantKind(s.t, "stat "+key, err, ncerr.ErrNotFound)
}

// keys returns the keys that a listing of prefix contains, in the driver's order.
func (s *store) keys(prefix string, opts driver.ListOptions) []string {
	var keys []string
	s.t.Step("list", prefix)
	for e, err := range s.m.List(s.t.Context(), prefix, &opts) {
		if err != nil {
			s.t.Errorf("list %q: %v", prefix, err)
			return keys
		}
		s.t.Step("list", prefix, "after", e.Key)
		if e.Prefix != strings.HasSuffix(e.Key, "/") {
			s.t.Errorf("list %q: the Prefix field does not match the key %q", prefix, e.Key)
		}
		keys = append(keys, e.Key)
	}
	return keys
}

// wantList compares a listing with want. It ignores the order unless the driver declares
// OrderedList.
func (s *store) wantList(prefix string, opts driver.ListOptions, want ...string) {
	got := s.keys(prefix, opts)
	if !s.m.Capabilities().OrderedList {
		slices.Sort(got)
	}
	if len(want)+len(got) > 60 {
		s.wantEqual(prefix, opts, want, got)
	} else if !slices.Equal(got, want) {
		s.t.Errorf("list %q %+v:\nwant %q\ngot  %q", prefix, opts, want, got)
	}
}

// wantMany is like wantList for listings that are too long to print.
func (s *store) wantMany(prefix string, opts driver.ListOptions, want []string) {
	got := s.keys(prefix, opts)
	if !s.m.Capabilities().OrderedList {
		slices.Sort(got)
	}
	s.wantEqual(prefix, opts, want, got)
}

// wantEqual fails the check if two long listings differ, and reports the first
// difference.
func (s *store) wantEqual(prefix string, opts driver.ListOptions, want, got []string) {
	at := func(list []string, i int) string {
		if i < len(list) {
			return show(list[i])
		}
		return "the end of the listing"
	}
	for i := range max(len(got), len(want)) {
		if w, g := at(want, i), at(got, i); i >= len(got) || i >= len(want) || got[i] != want[i] {
			s.t.Errorf("list %s %+v: want %d entries, got %d; entry %d is %s, want %s", show(prefix), opts, len(want), len(got), i, g, w)
			return
		}
	}
}

// numAbandoned is the number of listings abandoned at their first entry. It is enough to
// exhaust a resource that each of them leaks.
const numAbandoned = 70

// abandonListings starts numAbandoned listings and abandons each at its first entry.
func (s *store) abandonListings(prefix string) {
	for range numAbandoned {
		s.t.Step("list", prefix)
		for _, err := range s.m.List(s.t.Context(), prefix, &driver.ListOptions{}) {
			if err != nil {
				s.t.Fatalf("list: %v", err)
			}
			break
		}
	}
}

// cancelListing cancels a listing of n entries at the first entry. If it is long, the driver
// must stop before the end.
func (s *store) cancelListing(prefix string, n int, long bool) {
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	seen := 0
	var last error
	s.t.Step("list", prefix)
	for _, err := range s.m.List(ctx, prefix, &driver.ListOptions{}) {
		if last = err; err != nil {
			break
		}
		if seen++; seen == 1 {
			cancel()
		}
	}
	switch {
	case last == nil && seen < n:
		s.t.Errorf("the canceled listing ended without an error after %d of %d entries", seen, n)
	case last == nil && long:
		s.t.Errorf("the canceled listing continued and returned all %d entries", n)
	case last != nil:
		ended(ctx, s.t, "list", last)
	}
}

// wantKind checks the outermost kind of an error.
func wantKind(t conformance.T, what string, err error, want ...ncerr.Kind) {
	if err == nil {
		t.Errorf("%s: want %s, got no error", what, want[0].Name())
	} else if got := ncerr.KindOf(err); !slices.Contains(want, got) {
		t.Errorf("%s: want %s, got %s: %v", what, want[0].Name(), got.Name(), err)
	}
}

// show quotes content, abbreviated if it is long.
func show(s string) string {
	if len(s) > 80 {
		return fmt.Sprintf("%q...%q", s[:40], s[len(s)-20:])
	}
	return strconv.Quote(s)
}

// mix64 returns 8 bytes, each bit of which depends on i (the finalizer of SplitMix64).
func mix64(i uint64) uint64 {
	i += 0x9E3779B97F4A7C15
	i = (i ^ i>>30) * 0xBF58476D1CE4E5B9
	i = (i ^ i>>27) * 0x94D049BB133111EB
	return i ^ i>>31
}

// pattern returns n bytes that depend on their position. Patterns of two tags differ in
// every byte.
func pattern(tag byte, n int) string {
	var p strings.Builder
	p.Grow(n + 7)
	tags := uint64(tag) * 0x0101010101010101
	for i := 0; i < n; i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], mix64(uint64(i))^tags)
		p.Write(word[:])
	}
	return p.String()[:n]
}

// readerBody is a Body that is not driver.Bytes, so that drivers cannot use the slice.
type readerBody struct{ *strings.Reader }

func (b readerBody) Size() int64 { return b.Reader.Size() }

// badBody is a Body of size bytes. Reading beyond the first readable bytes returns err.
type badBody struct {
	size, readable int64
	err            error
}

func (b badBody) Size() int64 { return b.size }

func (b badBody) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.readable {
		return 0, b.err
	}
	n := int(min(int64(len(p)), b.readable-off))
	for i := range p[:n] {
		p[i] = 'N'
	}
	if n < len(p) {
		return n, b.err
	}
	return n, nil
}

var errBody = errors.New("body cannot be read")
