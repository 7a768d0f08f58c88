package manifest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// separator records whether dimension_separator was verified against the keys in the
// store. Some writers store chunks as "0/0" but omit the separator from .zarray, so that
// the default "." applies. The whole array would then read as fill.
type separator struct {
	verified atomic.Bool
	mu       sync.Mutex // held while querying the store
	tried    int        // number of chunks that findOther has looked up
}

// MissingMax is the maximum number of chunks of an array that are looked up
// individually in a store that cannot be listed.
const MissingMax = 32

const (
	// keysListed is the number of keys of an array that are listed to determine its
	// separator. It is the maximum number of keys in one response of S3.
	keysListed = 1000
)

// SeparatorKnown implements Source.
func (c *Computed) SeparatorKnown() bool { return c.rank < 2 || c.separator.verified.Load() }

// Found implements Source.
func (c *Computed) Found() {
	if !c.separator.verified.Load() { // concurrent loads are cheaper than concurrent stores
		c.separator.verified.Store(true)
	}
}

// CheckMissing implements Source. It fails with ncerr.ErrMetadata if chunks are stored
// under keys with the other dimension_separator, and no chunks under keys with the
// array's own separator. The result of a listing is final. In a store that cannot be
// listed, CheckMissing looks up single chunks. It returns errors of the store.
func (c *Computed) CheckMissing(ctx context.Context, indexes [][]int64, grid []int64) error {
	s := &c.separator
	if len(indexes) == 0 || c.SeparatorKnown() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.SeparatorKnown() {
		return nil
	}
	wanted := make([]string, min(len(indexes), MissingMax))
	for i := range wanted {
		wanted[i] = string(c.keys.Other().Append([]byte(c.prefix), indexes[i]))
	}
	key, err := c.listOther(ctx, wanted[0], grid)
	done := err == nil
	if ncerr.IsPerObject(err) {
		key, err = c.findOther(ctx, wanted)
		done = s.tried >= MissingMax
	}
	if err != nil {
		return err
	}
	if key != "" {
		return c.wrongSeparator(key)
	}
	s.verified.Store(done)
	return nil
}

// listOther lists the first keys of the array. It returns wanted if that key exists. If
// it does not exist and no key has the array's own separator, listOther returns a key
// with the other separator, or "" if no such key exists.
func (c *Computed) listOther(ctx context.Context, wanted string, grid []int64) (string, error) {
	if caps := c.m.Capabilities(); !caps.List || !caps.RecursiveList || !caps.OrderedList {
		return "", ncerr.ErrUnsupported // a listing would take many requests
	}
	found, own, n := "", false, 0
	end := ":" // sorts after all digits
	if c.keys.Prefix {
		end = "c:"
	}
	for e, err := range c.m.List(ctx, c.prefix, &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return "", err
		}
		name := e.Key[len(c.prefix):]
		if n++; n > keysListed || name > end {
			break
		}
		switch {
		case e.Key == wanted:
			return wanted, nil
		case Within(c.keys.Parse(name, c.rank), grid):
			own = true
		case found == "" && Within(c.keys.Other().Parse(name, c.rank), grid):
			found = e.Key
		}
	}
	if own {
		return "", nil
	}
	return found, nil
}

// findOther returns the smallest of the wanted keys that exist, or "" if none exists. All
// calls together look up at most MissingMax keys.
func (c *Computed) findOther(ctx context.Context, wanted []string) (found string, err error) {
	s := &c.separator
	wanted = wanted[:min(len(wanted), MissingMax-s.tried)]
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	if !c.many {
		g.SetLimit(runtime.GOMAXPROCS(0))
	}
	for _, key := range wanted {
		g.Go(func() error {
			there, err := c.m.Exists(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			if there && (found == "" || key < found) {
				found = key
			}
			return err
		})
	}
	if err = g.Wait(); err == nil {
		s.tried += len(wanted)
	}
	return found, err
}

// wrongSeparator returns the error for an array with a chunk under a key with the other
// separator.
func (c *Computed) wrongSeparator(key string) error { return WrongSeparator(c.keys, key) }

// WrongSeparator returns the error for an array whose chunks have keys with the other
// separator than keys has, such as key.
func WrongSeparator(keys chunk.Keys, key string) error {
	name := "dimension_separator"
	if keys.Prefix {
		name = "the separator of chunk_key_encoding"
	}
	return ncerr.Errorf(ncerr.ErrMetadata, "", "", "%s is %q, but chunks are stored as %q: it should be %q", name, keys.Separator, zmap.Path(key), keys.Other().Separator)
}
