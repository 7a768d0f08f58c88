package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// soakStore is a store under test. Reads go through the faulty proxy; writes may bypass
// it.
type soakStore struct {
	reader, writer *zmap.Map
	bucket         bool // the store supports listing and conditional writes
	stats          *layer.Stats
}

// soaker is a worker with its own keys. Its model holds their expected content.
type soaker struct {
	soakStore
	proxy *faulty
	id    string
	model map[string][]byte
	rng   *rand.Rand
	ops   *atomic.Int64
}

func (w *soaker) key() string { return fmt.Sprintf("%s/%d/k%d", w.id, w.rng.IntN(2), w.rng.IntN(8)) }

func (w *soaker) body() []byte {
	body := make([]byte, w.rng.IntN(30000))
	for i := range body {
		body[i] = byte(w.rng.Uint32())
	}
	return body
}

// step performs one operation and returns an error if the result is wrong.
func (w *soaker) step(ctx context.Context) error {
	w.ops.Add(1)
	key := w.key()
	switch n := w.rng.IntN(20); {
	case n < 4:
		body := w.body()
		if _, err := w.writer.Put(ctx, key, driver.Bytes(body), nil); err != nil {
			return fmt.Errorf("put %s: %w", key, err)
		}
		w.model[key] = body
	case n < 5:
		if err := w.writer.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
		delete(w.model, key)
	case n < 6:
		_, err := w.stat(ctx, key)
		return err
	case n < 7 && w.bucket:
		return w.list(ctx)
	case n < 8 && w.bucket:
		return w.search(ctx)
	case n < 10 && w.bucket:
		return w.putIf(ctx, key)
	case n < 12:
		return w.getVersion(ctx, key)
	default:
		return w.get(ctx, key, &driver.GetOptions{Range: w.part(key)})
	}
	return nil
}

// checkExists checks the error of an operation on a key. It accepts ErrNotFound only if
// exists is false, and success only if exists is true.
func checkExists(op, key string, exists bool, err error) error {
	switch {
	case !exists && ncerr.KindOf(err) == ncerr.ErrNotFound:
		return nil
	case !exists && err == nil:
		return fmt.Errorf("%s %s: found, although it does not exist", op, key)
	case err != nil:
		return fmt.Errorf("%s %s (exists: %v): %w", op, key, exists, err)
	}
	return nil
}

func (w *soaker) stat(ctx context.Context, key string) (driver.Info, error) {
	want, exists := w.model[key]
	info, err := w.reader.Stat(ctx, key)
	if err := checkExists("stat", key, exists, err); err != nil || !exists {
		return driver.Info{}, err
	}
	if info.Size != int64(len(want)) {
		return info, fmt.Errorf("stat %s: want %d bytes, got %d", key, len(want), info.Size)
	}
	return info, nil
}

// part chooses a random range of an object, or nil for the whole object.
func (w *soaker) part(key string) *driver.Range {
	n := len(w.model[key])
	if n == 0 || w.rng.IntN(2) == 0 {
		return nil
	}
	off := w.rng.IntN(n)
	return &driver.Range{Offset: int64(off), Length: int64(w.rng.IntN(n - off + 1))}
}

// get reads an object or a part of it. A conflict is accepted only if the proxy has
// lied about the object.
func (w *soaker) get(ctx context.Context, key string, opts *driver.GetOptions) error {
	want, exists := w.model[key]
	lies := w.proxy.lied(key)
	if r := opts.Range; r != nil {
		want = want[r.Offset : r.Offset+r.Length]
	}
	got, _, err := w.reader.Get(ctx, key, opts, nil)
	if ncerr.KindOf(err) == ncerr.ErrConflict && w.proxy.lied(key) > lies {
		return nil
	}
	return checkRead(fmt.Sprintf("get %+v", opts.Range), key, exists, want, got, err)
}

// checkRead compares the result of a read with the expected content.
func checkRead(op, key string, exists bool, want, got []byte, err error) error {
	if err := checkExists(op, key, exists, err); err != nil || !exists {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s %s: WRONG VALUE: want %d bytes, got %d", op, key, len(want), len(got))
	}
	return nil
}

// getVersion reads an object with the version returned by Stat.
func (w *soaker) getVersion(ctx context.Context, key string) error {
	lies := w.proxy.lied(key)
	info, err := w.stat(ctx, key)
	if err != nil {
		return err
	}
	err = w.get(ctx, key, &driver.GetOptions{Range: w.part(key), IfMatch: info.Version})
	if ncerr.KindOf(err) == ncerr.ErrConflict && w.proxy.lied(key) > lies {
		return nil
	}
	return err
}

// putIf writes under a condition that holds.
func (w *soaker) putIf(ctx context.Context, key string) error {
	_, exists := w.model[key]
	lies, opts, body := w.proxy.lied(key), driver.PutOptions{IfAbsent: !exists}, w.body()
	if exists {
		info, err := w.stat(ctx, key)
		if err != nil {
			return err
		}
		opts.IfMatch = info.Version
	}
	_, err := w.writer.Put(ctx, key, driver.Bytes(body), &opts)
	retryable, _ := ncerr.Retry(err)
	switch kind := ncerr.KindOf(err); {
	case err == nil:
		w.model[key] = body
		return nil
	case kind == ncerr.ErrAmbiguous: // the outcome of the write is unknown
		if wrong := w.resolveAmbiguous(ctx, key, body); wrong != nil {
			return wrong
		}
	case kind == ncerr.ErrIO && retryable: // the write was not done
	case kind == ncerr.ErrConflict && w.proxy.lied(key) > lies:
	default:
		return fmt.Errorf("put %s %+v: %w", key, opts, err)
	}
	if wrong := w.get(ctx, key, &driver.GetOptions{}); wrong != nil {
		return fmt.Errorf("after put %s %+v failed with %w: %w", key, opts, err, wrong)
	}
	return nil
}

// resolveAmbiguous determines whether body was written, and updates the model.
func (w *soaker) resolveAmbiguous(ctx context.Context, key string, body []byte) error {
	for {
		lies := w.proxy.lied(key)
		got, _, err := w.reader.Get(ctx, key, &driver.GetOptions{}, nil)
		switch {
		case err == nil && bytes.Equal(got, body):
			w.model[key] = body
			return nil
		case ncerr.KindOf(err) == ncerr.ErrConflict && w.proxy.lied(key) > lies:
			continue
		}
		want, exists := w.model[key]
		return checkRead("get after an ambiguous put", key, exists, want, got, err)
	}
}

// list lists all keys of the worker.
func (w *soaker) list(ctx context.Context) error {
	var want []string
	for k := range w.model {
		want = append(want, k)
	}
	return w.checkListing(want, w.id+"/", func(prefix string) (got []string, err error) {
		for e, err := range w.reader.List(ctx, prefix, &driver.ListOptions{Recursive: true}) {
			if err != nil {
				return nil, err
			}
			got = append(got, e.Key)
		}
		return got, nil
	})
}

// search lists one level of the worker's keys.
func (w *soaker) search(ctx context.Context) error {
	prefix := w.id + "/" + []string{"", "0/", "1/"}[w.rng.IntN(3)]
	var want []string
	for k := range w.model {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			first, _, _ := strings.Cut(rest, "/")
			want = append(want, first)
		}
	}
	return w.checkListing(want, prefix, func(prefix string) ([]string, error) { return w.reader.Search(ctx, prefix) })
}

// checkListing compares a listing with the expected one. If the proxy has lied about it, only
// its order is checked.
func (w *soaker) checkListing(want []string, prefix string, list func(prefix string) ([]string, error)) error {
	lies := w.proxy.lied(prefix)
	got, err := list(prefix)
	if err != nil {
		return fmt.Errorf("list %s: %w", prefix, err)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	inOrder := slices.IsSorted(got) && len(slices.Compact(slices.Clone(got))) == len(got)
	if !inOrder || w.proxy.lied(prefix) == lies && !slices.Equal(got, want) {
		return fmt.Errorf("list %s: want %q, got %q", prefix, want, got)
	}
	return nil
}
