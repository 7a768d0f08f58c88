package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// closeWait is how long Close waits for active calls to return.
const closeWait = 5 * time.Second

// maxMaps limits the number of open stores.
const maxMaps = 1 << 16

// driverService implements the driver service.
type driverService struct {
	pb.UnimplementedDriverServer
	s       *Server
	openers map[string]driver.Opener

	mu     sync.Mutex
	last   uint64
	maps   map[uint64]*openMap
	tokens tokens
	closed bool
}

// openMap is one open store with its active calls. A store is closed only after its
// calls have returned, because a driver need not support calls during or after Close.
type openMap struct {
	driver.Map
	lender  driver.FileLender // nil if the store does not implement the interface
	many    driver.GetManyer  // nil if the store does not implement the interface
	puts    driver.PutManyer  // nil if the store does not implement the interface
	caps    driver.Capabilities
	putting chan struct{} // limits the concurrent puts of all batches
	calls   sync.WaitGroup
	closing bool // the store accepts no new calls; guarded by driverService.mu
}

func newOpenMap(m driver.Map) *openMap {
	om := &openMap{Map: m, caps: m.Capabilities()}
	om.lender, _ = m.(driver.FileLender)
	om.many, _ = m.(driver.GetManyer)
	om.puts, _ = m.(driver.PutManyer)
	om.putting = make(chan struct{}, om.concurrency())
	return om
}

func (d *driverService) Open(ctx context.Context, r *pb.OpenRequest) (*pb.OpenReply, error) {
	o, spec, err := d.opener(r)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	m, err := o.Open(ctx, spec)
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	om := newOpenMap(m)
	handle, err := d.add(ctx, om, r.GetToken())
	if err != nil {
		return nil, wire.Status(ctx, errors.Join(err, m.Close(context.WithoutCancel(ctx))))
	}
	lends := om.lender != nil && d.s.shared.Load() != nil
	return &pb.OpenReply{Handle: handle, Capabilities: wire.CapabilitiesToWire(om.caps), Lends: lends, PutsMany: true}, nil
}

func (d *driverService) Remove(ctx context.Context, r *pb.OpenRequest) (*pb.RemoveReply, error) {
	o, spec, err := d.opener(r)
	if err == nil {
		err = o.Remove(ctx, spec)
	}
	return &pb.RemoveReply{}, wire.Status(ctx, err)
}

func (d *driverService) opener(r *pb.OpenRequest) (driver.Opener, driver.OpenSpec, error) {
	name, spec, err := wire.OpenFromWire(r)
	if err != nil {
		return nil, spec, err
	}
	o := d.openers[name]
	if o == nil {
		return nil, spec, ncerr.Errorf(ncerr.ErrUnsupported, "open", spec.Path, "this plugin has no driver %q", name)
	}
	return o, spec, nil
}

// add registers a store and returns its handle. It fails if ctx is done, because the
// host would not receive the handle. If ctx is done later, the host closes the store by
// its token.
func (d *driverService) add(ctx context.Context, m *openMap, token uint64) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if d.closed || len(d.maps) >= maxMaps {
		return 0, ncerr.Errorf(ncerr.ErrLimit, "open", "", "%d stores are open, and the plugin cannot open another", len(d.maps))
	}
	d.last++
	d.maps[d.last] = m
	d.tokens.add(token, d.last)
	return d.last, nil
}

// use returns the store of a handle for one call. The caller must call release when the
// call has returned.
func (d *driverService) use(handle uint64) (m *openMap, release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m = d.maps[handle]
	if m == nil || m.closing {
		return nil, nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "unknown store handle %d", handle)
	}
	m.calls.Add(1)
	return m, m.calls.Done, nil
}

func (d *driverService) Stat(ctx context.Context, r *pb.StatRequest) (*pb.StatReply, error) {
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	defer release()
	info, err := m.Stat(ctx, string(r.GetKey()))
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &pb.StatReply{Info: wire.InfoToWire(info)}, nil
}

func (d *driverService) Delete(ctx context.Context, r *pb.DeleteRequest) (*pb.DeleteReply, error) {
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	defer release()
	return &pb.DeleteReply{}, wire.Status(ctx, m.Delete(ctx, string(r.GetKey()), &driver.DeleteOptions{}))
}

func (d *driverService) Flush(ctx context.Context, r *pb.FlushRequest) (*pb.FlushReply, error) {
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return nil, wire.Status(ctx, err)
	}
	defer release()
	return &pb.FlushReply{}, wire.Status(ctx, m.Flush(ctx))
}

func (d *driverService) Close(ctx context.Context, r *pb.CloseRequest) (*pb.CloseReply, error) {
	handle := r.GetHandle()
	d.mu.Lock()
	if r.GetToken() != 0 {
		var ok bool
		if handle, ok = d.tokens.take(r.GetToken()); !ok {
			d.mu.Unlock()
			return &pb.CloseReply{}, nil // the store was never opened
		}
	}
	d.tokens.forget(handle)
	m := d.maps[handle]
	if m != nil {
		m.closing = true
	}
	delete(d.maps, handle)
	d.mu.Unlock()
	if m == nil {
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrInvalid, "close", "", "unknown store handle %d", handle))
	}
	wait, cancel := context.WithTimeout(ctx, closeWait)
	defer cancel()
	err := m.idle(wait)
	if err != nil { // another Close, or the end of the process, closes the store
		d.mu.Lock()
		d.maps[handle] = m
		d.mu.Unlock()
	}
	if err != nil && ctx.Err() == nil {
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrInternal, "close", "", "a call to the store has not returned"))
	} else if err != nil {
		return nil, wire.Status(ctx, err)
	}
	return &pb.CloseReply{}, wire.Status(ctx, m.Map.Close(ctx))
}

func (d *driverService) closeAll(ctx context.Context) error {
	d.mu.Lock()
	maps := d.maps
	d.maps, d.closed = map[uint64]*openMap{}, true
	d.mu.Unlock()
	var errs []error
	for _, m := range maps {
		if err := m.idle(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, m.Map.Close(ctx))
	}
	return errors.Join(errs...)
}

// idle waits until the store has no active calls, or ctx is done.
func (m *openMap) idle(ctx context.Context) error {
	done := make(chan struct{})
	go func() { // ends with the last call
		defer close(done)
		m.calls.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A page of a listing is sent after listPage entries or about listBytes bytes.
const (
	listPage  = handshake.MaxBatch
	listBytes = handshake.MaxPart / 2
)

func (d *driverService) List(r *pb.ListRequest, stream pb.Driver_ListServer) error {
	ctx := stream.Context()
	m, release, err := d.use(r.GetHandle())
	if err != nil {
		return wire.Status(ctx, err)
	}
	defer release()
	var page pb.ListReply
	size := 0
	opts := &driver.ListOptions{Recursive: r.GetRecursive(), StartAfter: string(r.GetStartAfter()), Info: r.GetInfo()}
	for e, err := range m.List(ctx, string(r.GetPrefix()), opts) {
		if err != nil {
			if len(page.Entries) > 0 {
				if e := stream.Send(&page); e != nil {
					return e
				}
			}
			return wire.Status(ctx, err)
		}
		page.Entries = append(page.Entries, wire.EntryToWire(e))
		if size += len(e.Key) + len(e.Info.Version) + 32; size < listBytes && len(page.Entries) < listPage {
			continue
		}
		if err := stream.Send(&page); err != nil {
			return err
		}
		page, size = pb.ListReply{}, 0
	}
	if len(page.Entries) == 0 {
		return nil
	}
	return stream.Send(&page)
}
