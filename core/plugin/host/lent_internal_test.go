//go:build linux

package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
)

// newTestPlane returns the shared memory of a process that is never started.
func newTestPlane(t *testing.T) *plane {
	t.Helper()
	p, err := newPlane()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.closeSent()
		p.close()
	})
	return p
}

// TestLentFiles reads from files sent over the channel. A read must fail if the file is
// not a regular file, was not requested or was not sent.
func TestLentFiles(t *testing.T) {
	t.Parallel()
	p := newTestPlane(t)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	pipe, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(pipe.Close(), writer.Close()) }()
	read := func(lent *os.File, tag uint64, offset int64, n int) (string, error) {
		t.Helper()
		requested := p.tag.Add(1)
		if tag == 0 {
			tag = requested
		}
		if lent != nil {
			if err := shm.Send(p.files[1], tag, lent); err != nil {
				t.Fatal(err)
			}
		}
		l := &objectRead{dst: make([]byte, n), allocated: true}
		err := p.readLent(context.Background(), l, &pb.StoreResult{Lent: &pb.Lent{Offset: offset}}, &pendingJob{lend: requested})
		return string(l.data()), err
	}
	if got, err := read(file, 0, 3, 4); err != nil || got != "3456" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := read(file, 0, 8, 4); ncerr.KindOf(err) != ncerr.ErrIO || got != "89" {
		t.Errorf("past the end: got %q, %v", got, err)
	}
	for what, call := range map[string]func() (string, error){
		"pipe":            func() (string, error) { return read(pipe, 0, 0, 1) },
		"negative offset": func() (string, error) { return read(file, 0, -1, 1) },
		"beyond the end":  func() (string, error) { return read(file, 0, 11, 1) },
		"not sent":        func() (string, error) { return read(nil, 0, 0, 1) },
		"not requested":   func() (string, error) { return read(file, 1<<40, 0, 1) },
	} {
		if got, err := call(); ncerr.KindOf(err) != ncerr.ErrPlugin || got != "" {
			t.Errorf("%s: want ErrPlugin, got %q, %v", what, got, err)
		}
	}
	huge := &objectRead{want: 1 << 30, trust: trusted, alloc: func(n int64) ([]byte, error) {
		t.Errorf("%d bytes were allocated before data was read", n)
		return nil, errors.New("no memory")
	}}
	if err := huge.fill(context.Background(), file, 0); ncerr.KindOf(err) != ncerr.ErrIO || huge.n != 10 || huge.data() != nil {
		t.Errorf("a short file announced as large: got %d bytes, %q, %v", huge.n, huge.data(), err)
	}
	first, second := p.tag.Add(1), p.tag.Add(1)
	if err := errors.Join(shm.Send(p.files[1], second, file), shm.Send(p.files[1], first, file)); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []uint64{first, second} { // in any order
		f, err := p.takeLent(tag)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	if len(p.lent) != 0 {
		t.Errorf("%d files are still open, want 0", len(p.lent))
	}
}

// TestChannelRoom checks that the channel has room for all files that may be in
// transit, so that lending never blocks.
func TestChannelRoom(t *testing.T) {
	t.Parallel()
	p := newTestPlane(t)
	fd, err := shm.Dup(p.files[1])
	if err != nil {
		t.Fatal(err)
	}
	childEnd, err := shm.Inherit(fd) // as the plugin does
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = childEnd.Close() }()
	if err := childEnd.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for n := range maxLent {
		if err := shm.Send(childEnd, p.tag.Add(1), childEnd); err != nil {
			t.Fatalf("send file %d of %d: %v", n+1, maxLent, err)
		}
	}
}

// TestLentUnrequested checks that a plugin cannot exhaust the host's descriptors with files
// that no answer announces.
func TestLentUnrequested(t *testing.T) {
	t.Parallel()
	p := newTestPlane(t)
	p.lendMax = 2
	for range 4 {
		if err := shm.Send(p.files[1], p.tag.Add(1), p.files[1]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.takeLent(4); ncerr.KindOf(err) != ncerr.ErrPlugin || len(p.lent) > 2 {
		t.Errorf("want at most 2 open files, got %d, %v", len(p.lent), err)
	}
}

// endRecorder is an io.ReaderAt that records the offset up to which it was read.
type endRecorder struct{ end int64 }

func (r *endRecorder) ReadAt(p []byte, off int64) (int, error) {
	r.end = max(r.end, off+int64(len(p)))
	return len(p), nil
}

// TestFillShare checks that fill reads only 1/provenShare of a large file before it
// calls alloc.
func TestFillShare(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	r := &endRecorder{}
	l := &objectRead{want: size, trust: size - 1, alloc: func(n int64) ([]byte, error) {
		if r.end != size/provenShare {
			t.Errorf("%d bytes were read before alloc was called, want %d", r.end, size/provenShare)
		}
		return make([]byte, n), nil
	}}
	if err := l.fill(t.Context(), r, 0); err != nil || l.n != size || r.end != size {
		t.Errorf("want %d bytes, got %d, %v", size, l.n, err)
	}
}
