package nczarr

import (
	"context"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// keyed says that it is settled whether the chunks of a variable stand under
// the keys that its dimension_separator makes. Writers are known that store
// chunks as "0/0" and leave the separator out of .zarray, which then means ".":
// all of the array would read as fill.
type keyed struct{ settled atomic.Bool }

// checkKeys settles it after a read: a chunk that was found has done that, and
// where none was, one under the key that the other separator makes is asked for,
// once for the variable.
func (t *transfer) checkKeys(ctx context.Context) error {
	if t.plan.Rank() < 2 || t.plan.Len() == 0 || t.e.keyed.settled.Load() {
		return nil
	}
	first := make(chunk.Projection, t.plan.Rank())
	t.plan.At(0, first)
	index := make([]int64, len(first))
	for d, s := range first {
		index[d] = s.Index
	}
	return t.v.checkKey(ctx, index)
}

// checkKey looks for the chunk at index, which was not found, under its other
// key, unless that is settled. That nothing is there settles it; a store that
// does not say fails the call, and is asked again by the next.
func (v *Var) checkKey(ctx context.Context, index []int64) error {
	k := &v.data.keyed
	if len(index) < 2 || k.settled.Load() {
		return nil
	}
	sep, other := v.meta.Separator, byte('/')
	if sep == other {
		other = '.'
	}
	key := string(chunk.AppendKey([]byte(v.key()), index, other))
	there, err := v.group.ds.m.Exists(ctx, key)
	if err != nil {
		return err
	}
	if there {
		return ncerr.Errorf(ncerr.ErrMetadata, "", "", "dimension_separator is %q, by which the chunk is not there, but %q is: it should be %q", sep, zmap.Path(key), other)
	}
	k.settled.Store(true)
	return nil
}
