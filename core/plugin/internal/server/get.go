package server

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// remoteConcurrency limits the concurrent calls to a store with the latency
// driver.Remote.
const remoteConcurrency = 32

// concurrency returns the number of concurrent reads of a GetMany, or writes of a
// PutMany, if the driver does not implement the batch operation.
func (m *openMap) concurrency() int {
	if m.caps.Latency == driver.Remote {
		return remoteConcurrency
	}
	return max(4, runtime.GOMAXPROCS(0))
}

// alloc allocates n bytes. It fails with ncerr.ErrLimit if n exceeds the maximum object
// size.
func (s *Server) alloc(n int64) ([]byte, error) {
	if limit := s.maxObject.Load(); n < 0 || n > limit {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "", "", "the object has %d bytes, more than the limit of %d", n, limit)
	}
	return make([]byte, n), nil
}

// read performs one Get. If head is nil, the caller must send only err. Otherwise it
// must send head and data, followed by err unless err is nil.
func (s *Server) read(ctx context.Context, m driver.Map, spec *pb.GetSpec) (data []byte, head *pb.GetHead, err error) {
	key, opts, err := wire.GetFromWire(spec)
	if err != nil {
		return nil, nil, err
	}
	length := int64(-1)
	data, info, err := m.Get(ctx, key, &opts, func(n int64) ([]byte, error) {
		length = n
		return s.alloc(n)
	})
	if length < 0 || err != nil && len(data) == 0 {
		if err == nil {
			err = ncerr.Errorf(ncerr.ErrInternal, "get", key, "the driver returned data without calling alloc")
		}
		return nil, nil, err
	}
	return data, &pb.GetHead{Info: wire.InfoToWire(info), Length: length}, err
}

func (d *driverService) Get(r *pb.GetRequest, stream pb.Driver_GetServer) error {
	ctx := stream.Context()
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return wire.Status(ctx, err)
	}
	defer release()
	data, head, err := d.s.read(ctx, m, r.GetSpec())
	if head == nil {
		return wire.Status(ctx, err)
	}
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), handshake.MaxPart)]
		data = data[len(part):]
		reply := &pb.GetReply{Payload: wire.Bytes(part)}
		if first {
			reply.Head = head
		}
		if e := stream.Send(reply); e != nil {
			return e
		}
	}
	return wire.Status(ctx, err)
}

// manySender combines the items of a GetMany into messages.
type manySender struct {
	stream grpc.ServerStreamingServer[pb.GetManyReply]
	mu     sync.Mutex
	page   pb.GetManyReply
	size   int
}

// itemCost is the approximate encoded size of an item without its data, in bytes.
const itemCost = 256

// add adds the result of read i to the message, and sends each full message.
func (s *manySender) add(i int, data []byte, head *pb.GetHead, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		if s.size+itemCost >= handshake.MaxPart {
			if e := s.flush(); e != nil {
				return e
			}
		}
		n := min(len(data), handshake.MaxPart-s.size)
		item := &pb.GetItem{Index: uint32(i), Payload: wire.Bytes(data[:n])}
		data = data[n:]
		if first {
			item.Head = head
		}
		if item.Last = len(data) == 0; item.Last && err != nil {
			item.Error = wire.ToDetail(err)
			s.size += len(item.Error.GetMessage())
		}
		s.page.Items = append(s.page.Items, item)
		s.size += n + itemCost
	}
	return nil
}

// flush sends the items that were added. The caller holds mu, or no other goroutine
// uses s.
func (s *manySender) flush() error {
	if len(s.page.Items) == 0 {
		return nil
	}
	err := s.stream.Send(&s.page)
	s.page, s.size = pb.GetManyReply{}, 0
	return err
}

func (d *driverService) GetMany(r *pb.GetManyRequest, stream pb.Driver_GetManyServer) error {
	ctx := stream.Context()
	if n := len(r.GetSpecs()); n > handshake.MaxBatch {
		return wire.Status(ctx, ncerr.Errorf(ncerr.ErrLimit, "get", "", "the call has %d reads, more than the limit of %d", n, handshake.MaxBatch))
	}
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return wire.Status(ctx, err)
	}
	defer release()
	out := &manySender{stream: stream}
	if m.many != nil {
		err = d.getManyFast(ctx, m.many, r.GetSpecs(), out)
	} else {
		err = d.getManyEach(ctx, m, r.GetSpecs(), out)
	}
	if err == nil {
		err = out.flush()
	}
	return wire.Status(ctx, err)
}

// getManyFast calls the driver's own GetMany. It sends each result immediately, because
// the data is valid only until the sink returns.
func (d *driverService) getManyFast(ctx context.Context, m driver.GetManyer, specs []*pb.GetSpec, out *manySender) error {
	reqs := make([]driver.GetRequest, len(specs))
	lengths := make([]int64, len(specs))
	for i, spec := range specs {
		var err error
		if reqs[i].Key, reqs[i].Opts, err = wire.GetFromWire(spec); err != nil {
			return err
		}
		reqs[i].Alloc = func(n int64) ([]byte, error) {
			lengths[i] = n
			return d.s.alloc(n)
		}
	}
	var sendErr error
	err := m.GetMany(ctx, reqs, func(i int, data []byte, info driver.Info, err error) {
		if sendErr != nil {
			return
		}
		var head *pb.GetHead
		if err == nil || len(data) > 0 {
			head = &pb.GetHead{Info: wire.InfoToWire(info), Length: max(lengths[i], int64(len(data)))}
		}
		if sendErr = out.add(i, data, head, err); sendErr == nil {
			sendErr = out.flush()
		}
	})
	return errors.Join(sendErr, err)
}

// getManyEach performs the reads with concurrent calls of Get.
func (d *driverService) getManyEach(ctx context.Context, m *openMap, specs []*pb.GetSpec, out *manySender) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	sem := make(chan struct{}, m.concurrency())
	for i, spec := range specs {
		sem <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-sem }()
			data, head, err := d.s.read(ctx, m, spec)
			if err := out.add(i, data, head, err); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
