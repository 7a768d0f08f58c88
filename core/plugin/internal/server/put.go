package server

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// spoolMemory limits the bytes of one Put that are stored in memory. The rest is stored
// in a temporary file. On Unix the file is unlinked immediately. On other systems it is
// in the private directory, which the host removes.
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
	r := putRequest(head, body.body())
	info, err := m.Put(ctx, r.Key, r.Body, &r.Opts)
	if err != nil {
		return wire.Status(ctx, err)
	}
	return stream.SendAndClose(&pb.PutReply{Info: wire.InfoToWire(info)})
}

// putRequest returns the put described by head.
func putRequest(head *pb.PutHead, body driver.Body) driver.PutRequest {
	return driver.PutRequest{
		Key: string(head.GetKey()), Body: body,
		Opts: driver.PutOptions{IfAbsent: head.GetIfAbsent(), IfMatch: string(head.GetIfMatch())},
	}
}

// PutMany implements pb.DriverServer.
func (d *driverService) PutMany(ctx context.Context, r *pb.PutManyRequest) (*pb.PutManyReply, error) {
	if n := len(r.GetItems()); n > handshake.MaxPuts {
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrLimit, "put", "", "the call has %d puts, more than the limit of %d", n, handshake.MaxPuts))
	}
	reqs := make([]driver.PutRequest, len(r.GetItems()))
	for i, item := range r.GetItems() {
		body, err := wire.Inline(item.GetPayload(), handshake.MaxPart)
		if n := item.GetHead().GetSize(); err == nil && int64(len(body)) != n {
			err = ncerr.Errorf(ncerr.ErrInvalid, "put", string(item.GetHead().GetKey()), "the object has %d bytes, not the announced %d", len(body), n)
		}
		if err != nil {
			return nil, wire.Status(ctx, err)
		}
		reqs[i] = putRequest(item.GetHead(), driver.Bytes(body))
	}
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	defer release()
	reply := &pb.PutManyReply{Results: make([]*pb.PutResult, len(reqs))}
	m.putMany(ctx, reqs, func(i int, info driver.Info, err error) {
		reply.Results[i] = &pb.PutResult{}
		reply.Results[i].Info, reply.Results[i].Error = putAnswer(info, err)
	})
	if proto.Size(reply) > handshake.MaxMessage {
		for _, r := range reply.GetResults() {
			r.Info, r.Error = shorten(r.GetInfo(), r.GetError(), handshake.MaxMessage/len(reply.GetResults())-itemCost)
		}
	}
	return reply, nil
}

// putAnswer returns the messages for the result of a put, which have at most MaxPart
// bytes.
func putAnswer(info driver.Info, err error) (*pb.Info, *pb.ErrorDetail) {
	if err != nil {
		return shorten(nil, wire.ToDetail(err), handshake.MaxPart)
	}
	return shorten(wire.InfoToWire(info), nil, handshake.MaxPart)
}

// shorten shortens an answer to a put if the answer has more than limit bytes. It removes
// the key of an error. It replaces an info whose version is too long with ErrAmbiguous.
func shorten(info *pb.Info, failed *pb.ErrorDetail, limit int) (*pb.Info, *pb.ErrorDetail) {
	if proto.Size(info) > limit {
		err := ncerr.Errorf(ncerr.ErrAmbiguous, "put", "", "the version has %d bytes, more than the limit of %d in a response", len(info.GetVersion()), limit)
		return nil, wire.ToDetail(err)
	}
	if proto.Size(failed) > limit {
		failed.Key = nil
	}
	return info, failed
}

// putMany performs all puts. It calls answer once for each put, never concurrently. It
// uses the driver's PutMany if the driver implements it, and concurrent calls of Put
// otherwise.
func (m *openMap) putMany(ctx context.Context, reqs []driver.PutRequest, answer driver.PutSink) {
	var mu sync.Mutex
	done := make([]bool, len(reqs))
	sink := func(i int, info driver.Info, err error) {
		mu.Lock()
		defer mu.Unlock()
		if i >= 0 && i < len(reqs) && !done[i] {
			done[i] = true
			answer(i, info, err)
		}
	}
	var err error
	if m.puts != nil {
		err = m.puts.PutMany(ctx, reqs, sink)
	} else {
		m.putEach(ctx, reqs, sink)
	}
	if err == nil {
		err = ncerr.Errorf(ncerr.ErrInternal, "put", "", "the driver returned no result for a request of a batch")
	}
	for i := range reqs {
		sink(i, driver.Info{}, err)
	}
}

// putEach performs the puts with concurrent calls of Put. The limit on their number
// applies to all batches together, because each put may open a file.
func (m *openMap) putEach(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) {
	var wg sync.WaitGroup
	for i := range reqs {
		m.putting <- struct{}{}
		wg.Go(func() {
			info, err := m.Put(ctx, reqs[i].Key, reqs[i].Body, &reqs[i].Opts)
			<-m.putting
			sink(i, info, err)
		})
	}
	wg.Wait()
}

// receive reads all messages of a put into body and returns the head. It fails if the
// body does not have the announced size.
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
				return nil, ncerr.Errorf(ncerr.ErrLimit, "put", string(head.GetKey()), "the object has %d bytes, more than the limit of %d", head.GetSize(), limit)
			}
		}
		part, err := wire.Inline(r.GetPayload(), handshake.MaxPart)
		if err != nil {
			return nil, err
		}
		if int64(len(part)) > head.GetSize()-body.size {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "put", string(head.GetKey()), "the object has more than the announced %d bytes", head.GetSize())
		}
		if err := body.write(part); err != nil {
			return nil, err
		}
	}
	if body.size != head.GetSize() {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "put", string(head.GetKey()), "the object has %d bytes, not the announced %d", body.size, head.GetSize())
	}
	return head, nil
}

// spool stores the body of a Put: up to spoolMemory bytes in memory, the rest in a
// file.
type spool struct {
	size  int64
	parts [][]byte // all but the last have MaxPart bytes
	file  *os.File
	held  int64 // total size of parts
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
		default: // keep the payload without a copy, because the caller does not use it again
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
		_ = os.Remove(f.Name()) // succeeds on Unix; on other systems close removes the file
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

// body returns the received data. It does not copy the data.
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
