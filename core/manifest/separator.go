package manifest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// separator records that dimension_separator was compared with the keys in the
// store. Writers are known that store chunks as "0/0" and leave the separator out
// of .zarray, which then means ".": all of the array would read as fill.
type separator struct {
	verified atomic.Bool
	mu       sync.Mutex // held while the store is asked
	tried    int        // number of chunks looked for, see findOther
}

// MissingMax is the largest number of chunks of an array that are looked for, one by
// one, in a store that does not list.
const MissingMax = 32

const (
	// keysListed is how many keys of an array are listed to see its separator:
	// those of one answer of S3.
	keysListed = 1000
)

// Settled implements Source.
func (c *Computed) Settled() bool { return c.rank < 2 || c.separator.verified.Load() }

// Found implements Source.
func (c *Computed) Found() {
	if !c.separator.verified.Load() { // many workers load for less than they store
		c.separator.verified.Store(true)
	}
}

// Missing implements Source. It fails with ncerr.ErrMetadata if chunks are stored
// under keys of the other dimension_separator, and none under those of the array's
// own. What one listing shows is verified for good. A store that cannot be listed is
// asked for single chunks; an error of the store is returned.
func (c *Computed) Missing(ctx context.Context, indexes [][]int64, grid []int64) error {
	s := &c.separator
	if len(indexes) == 0 || c.Settled() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Settled() {
		return nil
	}
	wanted := make([]string, min(len(indexes), MissingMax))
	for i := range wanted {
		wanted[i] = string(c.keys.Other().Append([]byte(c.prefix), indexes[i]))
	}
	key, err := c.listOther(ctx, wanted[0], grid)
	done := err == nil
	if ncerr.Lasting(err) {
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

// listOther lists the first keys of the array. It returns wanted if that is there,
// else one with the other separator if there is none with its own.
func (c *Computed) listOther(ctx context.Context, wanted string, grid []int64) (string, error) {
	if caps := c.m.Capabilities(); !caps.List || !caps.RecursiveList || !caps.OrderedList {
		return "", ncerr.ErrUnsupported // or one listing would be many requests
	}
	found, own, n := "", false, 0
	end := ":" // comes after all digits
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

// findOther returns the least of the wanted keys that are there. It tries
// MissingMax in all.
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

// wrongSeparator is the error of an array of which a chunk is stored under a key
// with the other separator.
func (c *Computed) wrongSeparator(key string) error {
	if c.keys.Prefix {
		return ncerr.Errorf(ncerr.ErrMetadata, "", "", "the separator of chunk_key_encoding is %q, but chunks are stored as %q: it should be %q", c.keys.Separator, zmap.Path(key), c.keys.Other().Separator)
	}
	return ncerr.Errorf(ncerr.ErrMetadata, "", "", "dimension_separator is %q, but chunks are stored as %q: it should be %q", c.keys.Separator, zmap.Path(key), c.keys.Other().Separator)
}
