package server

import (
	"errors"
	"io"
	"os"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// spoolMemory is how much of one Put is kept in memory; the rest goes to a
// temporary file, which on Unix has no name from the moment it exists and
// elsewhere lies in the private directory that the host removes.
const spoolMemory = 64 << 20

func (d *driverService) Put(stream pb.Driver_PutServer) error {
	ctx := stream.Context()
	body := &spool{}
	defer body.close()
	head, err := d.receive(stream, body)
	if err != nil {
		return wire.Status(ctx, err)
	}
	m, release, err := d.use(head.GetHandle())
	if err != nil {
		return wire.Status(ctx, err)
	}
	defer release()
	opts := &driver.PutOptions{IfAbsent: head.GetIfAbsent(), IfMatch: string(head.GetIfMatch())}
	info, err := m.Put(ctx, string(head.GetKey()), body.body(), opts)
	if err != nil {
		return wire.Status(ctx, err)
	}
	return stream.SendAndClose(&pb.PutReply{Info: wire.InfoToWire(info)})
}

// receive reads the whole body, and fails unless it has the announced size.
func (d *driverService) receive(stream pb.Driver_PutServer, body *spool) (*pb.PutHead, error) {
	var head *pb.PutHead
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) && head != nil {
			break
		}
		if err != nil {
			if ctxErr := stream.Context().Err(); ctxErr != nil {
				return nil, ctxErr
			}
			return nil, err
		}
		if head == nil {
			head = r.GetHead()
			if limit := d.s.maxObject.Load(); head == nil || head.GetSize() < 0 || head.GetSize() > limit {
				return nil, ncerr.Errorf(ncerr.ErrLimit, "put", string(head.GetKey()), "an object of %d bytes; the limit is %d", head.GetSize(), limit)
			}
		}
		part, err := wire.Inline(r.GetPayload(), handshake.MaxPart)
		if err != nil {
			return nil, err
		}
		if int64(len(part)) > head.GetSize()-body.size {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "put", string(head.GetKey()), "more than the announced %d bytes came", head.GetSize())
		}
		if err := body.write(part); err != nil {
			return nil, err
		}
	}
	if body.size != head.GetSize() {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "put", string(head.GetKey()), "%d of the announced %d bytes came", body.size, head.GetSize())
	}
	return head, nil
}

// spool keeps the body of a Put: full parts in memory, then a file.
type spool struct {
	size  int64
	parts [][]byte // all but the last are MaxPart long
	file  *os.File
	held  int64 // bytes in parts
}

func (s *spool) write(p []byte) error {
	for len(p) > 0 {
		if s.file != nil || s.held == spoolMemory {
			return s.spill(p)
		}
		last := len(s.parts) - 1
		switch {
		case last >= 0 && len(s.parts[last]) < handshake.MaxPart:
			n := min(len(p), handshake.MaxPart-len(s.parts[last]))
			s.parts[last] = append(s.parts[last], p[:n]...)
			s.count(n)
			p = p[n:]
		default: // a message's payload is ours: keep it
			s.parts = append(s.parts, p[:len(p):len(p)])
			s.count(len(p))
			p = nil
		}
	}
	return nil
}

func (s *spool) count(n int) { s.held += int64(n); s.size += int64(n) }

func (s *spool) spill(p []byte) error {
	if s.file == nil {
		f, err := os.CreateTemp("", "nczarr-put-*")
		if err != nil {
			return err
		}
		_ = os.Remove(f.Name()) // where an open file may go nameless; else close does it
		s.file = f
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return err
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

// body gives what was received; a single part passes without a copy.
func (s *spool) body() driver.Body {
	switch {
	case len(s.parts) == 0:
		return driver.Bytes{}
	case len(s.parts) == 1 && s.file == nil:
		return driver.Bytes(s.parts[0])
	}
	return s
}

// Size implements driver.Body.
func (s *spool) Size() int64 { return s.size }

// ReadAt implements driver.Body.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > s.size {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && off < s.held {
		part := s.parts[off/handshake.MaxPart]
		k := copy(p[n:], part[off%handshake.MaxPart:])
		n, off = n+k, off+int64(k)
	}
	if n < len(p) && s.file != nil {
		k, err := s.file.ReadAt(p[n:], off-s.held)
		return n + k, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
