package server

import (
	"os"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
)

// shared is the shared memory of level 1. It has the lifetime of the process.
type shared struct {
	segments map[uint32]segment
	channel  *os.File
}

type segment struct {
	mem      []byte
	writable bool
}

// openShared maps the segments that the host passed to the process.
func openShared(list []*pb.Segment, channel *os.File) (*shared, error) {
	s := &shared{segments: map[uint32]segment{}, channel: channel}
	for _, m := range list {
		if _, twice := s.segments[m.GetId()]; twice || m.GetSize() > 1<<40 || m.GetFd() < 3 || m.GetFd() > 1<<20 {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "configure", "", "invalid segment %d with descriptor %d and %d bytes", m.GetId(), m.GetFd(), m.GetSize())
		}
		mem, err := shm.Map(int(m.GetFd()), int64(m.GetSize()), m.GetWritable())
		if err != nil {
			return nil, ncerr.New(ncerr.ErrIO, "configure", "", err)
		}
		s.segments[m.GetId()] = segment{mem, m.GetWritable()}
	}
	return s, nil
}

// region returns the memory of r, or nil if r is nil. It fails if r is not in a
// segment, or if write is set and the segment is read-only.
func (s *shared) region(r *pb.Region, write bool) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	if s == nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "regions are not allowed at level 0")
	}
	seg, ok := s.segments[r.GetSegment()]
	size := uint64(len(seg.mem))
	if !ok || r.GetOffset() > size || r.GetLength() > size-r.GetOffset() {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "a region of %d bytes at offset %d of segment %d does not exist", r.GetLength(), r.GetOffset(), r.GetSegment())
	}
	if write && !seg.writable {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "segment %d is read-only", r.GetSegment())
	}
	end := r.GetOffset() + r.GetLength()
	return seg.mem[r.GetOffset():end:end], nil
}

// withLength sets the length of r to n, the number of bytes written, and returns r.
func withLength(r *pb.Region, n int) *pb.Region {
	if r != nil {
		r.Length = uint64(n)
	}
	return r
}
