package server

import (
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

// lend sends the descriptor of the file that contains the requested bytes through the
// channel, and sets the head and the position in r. It fails with ncerr.ErrUnsupported
// if the driver cannot lend a file for this object.
func (x *storeExec) lend(j *storeJob, m *openMap, r *pb.StoreResult) error {
	key, opts, err := wire.GetFromWire(j.m.GetGet())
	if err != nil {
		return err
	}
	f, offset, info, err := m.lender.LendFile(j.ctx, key)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the host has its own descriptor
	start, n := int64(0), info.Size
	if opts.Range != nil {
		if start, n, err = opts.Range.Resolve(info.Size); err != nil {
			return err
		}
	}
	switch {
	case opts.IfMatch != "" && opts.IfMatch != info.Version:
		return ncerr.Errorf(ncerr.ErrConflict, "", "", "the object has version %q, not %q", info.Version, opts.IfMatch)
	case opts.Limit > 0 && n > opts.Limit:
		return ncerr.Errorf(ncerr.ErrLimit, "", "", "the result has %d bytes, more than the limit of %d", n, opts.Limit)
	}
	if err := shm.Send(x.sh.channel, j.m.GetLend(), f); err != nil {
		return err
	}
	r.Head = &pb.GetHead{Info: wire.InfoToWire(info), Length: n}
	r.Lent = &pb.Lent{Offset: offset + start}
	return nil
}
