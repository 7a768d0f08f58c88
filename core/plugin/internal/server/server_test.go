package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// store is an in-memory driver whose calls can be blocked.
type store struct {
	driver.Opener
	opening chan struct{} // if not nil, Open sends to the channel, and then waits until its context is done
	getting chan struct{} // if not nil, Get sends to the channel when it begins, and then receives from it
	closed  atomic.Int64
}

func (s *store) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	if s.opening != nil {
		s.opening <- struct{}{}
		<-ctx.Done() // Open succeeds although ctx is done
	}
	m, err := s.Opener.Open(context.WithoutCancel(ctx), spec)
	return &held{m, s}, err
}

type held struct {
	driver.Map
	s *store
}

func (m *held) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if m.s.getting != nil {
		m.s.getting <- struct{}{}
		<-m.s.getting
	}
	return m.Map.Get(ctx, key, o, alloc)
}

func (m *held) Close(ctx context.Context) error {
	m.s.closed.Add(1)
	return m.Map.Close(ctx)
}

// filter is a codec that copies its input. It panics if the input is "panic".
type filter struct{}

func (filter) Describe() []codecdriver.Description {
	return []codecdriver.Description{{ID: "copy", V3: "test.copy", Aliases: []string{"copied"}, Encode: true, Decode: true}}
}

func (f filter) Open(_ string, _ json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return f, in, nil
}

func (f filter) Encode(ctx context.Context, dst, src []byte) (int, error) {
	return f.Decode(ctx, dst, src)
}

func (filter) Decode(_ context.Context, dst, src []byte) (int, error) {
	if string(src) == "panic" {
		panic("the input is \"panic\"")
	}
	if len(dst) < len(src) {
		return 0, codecdriver.ShortBuffer("copy", len(dst))
	}
	return copy(dst, src), nil
}

// peer is a client that makes single calls of the protocol.
type peer struct {
	plugin pb.PluginClient
	driver pb.DriverClient
	codec  pb.CodecClient
	srv    *server.Server
}

func dial(t *testing.T, s *store) peer {
	t.Helper()
	return dialWith(t, s, nil)
}

// dialWith is like dial. channel is the plugin's end of a level 1 channel, or nil.
func dialWith(t *testing.T, s *store, channel *os.File) peer {
	t.Helper()
	if s.Opener == nil {
		s.Opener = memmap.NewOpener()
	}
	srv := server.New(server.Config{Name: "test", Version: "1", Drivers: []driver.Opener{s}, Filters: []codecdriver.Provider{filter{}}, Channel: channel})
	g := grpc.NewServer(server.Options()...)
	srv.Register(g)
	lis := bufconn.Listen(1 << 20)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Stop()
		if err := errors.Join(conn.Close(), <-done, srv.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return peer{pb.NewPluginClient(conn), pb.NewDriverClient(conn), pb.NewCodecClient(conn), srv}
}

func (p peer) open(t *testing.T) uint64 {
	t.Helper()
	r, err := p.driver.Open(t.Context(), wire.OpenToWire(memmap.NewOpener().Describe().Name, driver.OpenSpec{Path: "x", Mode: driver.Create}))
	if err != nil {
		t.Fatal(err)
	}
	return r.GetHandle()
}

// put sends the messages as one Put.
func (p peer) put(t *testing.T, msgs ...*pb.PutRequest) error {
	t.Helper()
	stream, err := p.driver.Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if stream.Send(m) != nil {
			break // the response contains the error
		}
	}
	_, err = stream.CloseAndRecv()
	return wire.FromStatus(t.Context(), err)
}

func wantKind(t *testing.T, what string, err error, want ncerr.Kind) {
	t.Helper()
	if ncerr.KindOf(err) != want {
		t.Errorf("%s: want %v, got %v", what, want, err)
	}
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	p := dial(t, &store{})
	d, err := p.plugin.Describe(t.Context(), &pb.DescribeRequest{})
	if err != nil || d.GetName() != "test" || d.GetMajor() != handshake.Major || len(d.GetLevels()) != 1 || d.GetLevels()[0] != 0 || len(d.GetDrivers()) != 1 || len(d.GetCodecs()) != 1 {
		t.Errorf("got %v, %v", d, err)
	}
	_, err = p.plugin.Configure(t.Context(), &pb.ConfigureRequest{Level: 1})
	wantKind(t, "level 1", wire.FromStatus(t.Context(), err), ncerr.ErrUnsupported)
	if _, err = p.plugin.Configure(t.Context(), &pb.ConfigureRequest{MaxObject: 10}); err != nil {
		t.Fatal(err)
	}
	_, err = p.plugin.Configure(t.Context(), &pb.ConfigureRequest{MaxObject: 100})
	wantKind(t, "a second time", wire.FromStatus(t.Context(), err), ncerr.ErrInvalid)

	h := p.open(t)
	head := func(n int64) *pb.PutRequest {
		return &pb.PutRequest{Head: &pb.PutHead{Handle: h, Key: []byte("k"), Size: n}, Payload: wire.Bytes(make([]byte, n))}
	}
	wantKind(t, "an object above the limit", p.put(t, head(11)), ncerr.ErrLimit)
	if err := p.put(t, head(10)); err != nil {
		t.Error(err)
	}
	_, err = p.codec.OpenPipeline(t.Context(), &pb.OpenPipelineRequest{
		Steps: wire.StepsToWire([]codecdriver.Step{{ID: "copy"}}), Input: wire.SpecToWire(codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 11}),
	})
	wantKind(t, "a chunk above the limit", wire.FromStatus(t.Context(), err), ncerr.ErrLimit)
}

// TestBrokenPut checks that a put stores nothing if its body does not have the
// announced size, or if the put violates the protocol.
func TestBrokenPut(t *testing.T) {
	t.Parallel()
	p := dial(t, &store{})
	h := p.open(t)
	head := func(n int64) *pb.PutHead { return &pb.PutHead{Handle: h, Key: []byte("k"), Size: n} }
	three := wire.Bytes([]byte("123"))
	for what, msgs := range map[string][]*pb.PutRequest{
		"more":      {{Head: head(5), Payload: three}, {Payload: three}},
		"less":      {{Head: head(5), Payload: three}},
		"negative":  {{Head: head(-1)}},
		"no head":   {{Payload: three}},
		"nothing":   {},
		"too large": {{Head: head(2 << 20), Payload: wire.Bytes(make([]byte, handshake.MaxPart+1))}},
		"a region":  {{Head: head(3), Payload: &pb.Payload{Content: &pb.Payload_Region{Region: &pb.Region{Length: 3}}}}},
		"no store":  {{Head: &pb.PutHead{Handle: h + 1, Key: []byte("k"), Size: 3}, Payload: three}},
	} {
		if err := p.put(t, msgs...); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := p.driver.Put(ctx)
	if err == nil {
		err = stream.Send(&pb.PutRequest{Head: head(3), Payload: three}) // complete, but not closed
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := stream.RecvMsg(&pb.PutReply{}); err == nil { // closing would race with the cancellation
		t.Error("canceled: no error")
	}
	_, err = p.driver.Stat(t.Context(), &pb.StatRequest{Handle: h, Key: []byte("k")})
	wantKind(t, "after broken puts", wire.FromStatus(t.Context(), err), ncerr.ErrNotFound)
}

// TestAbandonedOpen checks that the plugin closes a store if the call that opened it
// was canceled, because the host does not know the handle.
func TestAbandonedOpen(t *testing.T) {
	t.Parallel()
	s := &store{opening: make(chan struct{})}
	p := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.opening
		cancel()
	}()
	if _, err := p.driver.Open(ctx, wire.OpenToWire(memmap.NewOpener().Describe().Name, driver.OpenSpec{Path: "x", Mode: driver.Create})); err == nil {
		t.Error("no error")
	}
	for end := time.Now().Add(2 * time.Minute); s.closed.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the plugin did not close the store")
		}
	}
}

// TestCloseWaits checks that Close waits for active calls and that later calls fail.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	s := &store{}
	p := dial(t, s)
	h := p.open(t)
	if err := p.put(t, &pb.PutRequest{Head: &pb.PutHead{Handle: h, Key: []byte("k"), Size: 1}, Payload: wire.Bytes([]byte("1"))}); err != nil {
		t.Fatal(err)
	}
	s.getting = make(chan struct{})
	read := make(chan error, 1)
	go func() {
		stream, err := p.driver.Get(t.Context(), &pb.GetRequest{Handle: h, Spec: &pb.GetSpec{Key: []byte("k")}})
		for err == nil {
			_, err = stream.Recv()
		}
		read <- err
	}()
	<-s.getting

	// After a Close that times out, another Close can close the store.
	short, cancel := context.WithTimeout(t.Context(), 10*time.Second) // much longer than it takes to reach the plugin
	defer cancel()
	if _, err := p.driver.Close(short, &pb.CloseRequest{Handle: h}); err == nil || s.closed.Load() != 0 {
		t.Errorf("the store was closed during a read: %v", err)
	}
	_, err := p.driver.Stat(t.Context(), &pb.StatRequest{Handle: h, Key: []byte("k")})
	wantKind(t, "a call after Close", wire.FromStatus(t.Context(), err), ncerr.ErrInvalid)

	closed := make(chan error, 1)
	go func() {
		for { // the store can be closed again shortly after the first Close times out
			_, err := p.driver.Close(t.Context(), &pb.CloseRequest{Handle: h})
			if err == nil || t.Context().Err() != nil {
				closed <- err
				return
			}
		}
	}()
	s.getting <- struct{}{}
	if err := <-read; !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := <-closed; err != nil || s.closed.Load() != 1 {
		t.Errorf("want one close, got %d, %v", s.closed.Load(), err)
	}
}

func TestGetMany(t *testing.T) {
	t.Parallel()
	p := dial(t, &store{})
	h := p.open(t)
	large := bytes.Repeat([]byte("0123456789"), 250_000)
	stored := map[string][]byte{"empty": {}, "small": []byte("abc"), "large": large}
	for key, b := range stored {
		msgs := []*pb.PutRequest{{Head: &pb.PutHead{Handle: h, Key: []byte(key), Size: int64(len(b))}}}
		for rest := b; len(rest) > 0; {
			n := min(len(rest), handshake.MaxPart)
			msgs = append(msgs, &pb.PutRequest{Payload: wire.Bytes(rest[:n])})
			rest = rest[n:]
		}
		if err := p.put(t, msgs...); err != nil {
			t.Fatal(err)
		}
	}
	keys := []string{"large", "absent", "small", "empty", "large"}
	req := &pb.GetManyRequest{Handle: h}
	for _, k := range keys {
		req.Specs = append(req.Specs, &pb.GetSpec{Key: []byte(k)})
	}
	stream, err := p.driver.GetMany(t.Context(), req)
	got, last := make([][]byte, len(keys)), make([]int, len(keys))
	for err == nil {
		var r *pb.GetManyReply
		if r, err = stream.Recv(); err != nil {
			break
		}
		for _, it := range r.GetItems() {
			i := it.GetIndex()
			got[i] = append(got[i], it.GetPayload().GetInline()...)
			if it.GetLast() {
				last[i]++
			}
			if keys[i] == "absent" {
				wantKind(t, "absent", wire.FromDetail(it.GetError()), ncerr.ErrNotFound)
			} else if it.GetError() != nil {
				t.Errorf("%s: %v", keys[i], it.GetError())
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	for i, k := range keys {
		if last[i] != 1 || !bytes.Equal(got[i], stored[k]) {
			t.Errorf("%s: want one end and %d bytes, got %d and %d", k, len(stored[k]), last[i], len(got[i]))
		}
	}
	req.Specs = make([]*pb.GetSpec, handshake.MaxBatch+1)
	for i := range req.Specs {
		req.Specs[i] = &pb.GetSpec{}
	}
	if stream, err = p.driver.GetMany(t.Context(), req); err == nil {
		_, err = stream.Recv()
	}
	wantKind(t, "a batch that is too large", wire.FromStatus(t.Context(), err), ncerr.ErrLimit)
}

// TestExec checks that the result of each job is independent of the other jobs.
func TestExec(t *testing.T) {
	t.Parallel()
	p := dial(t, &store{})
	r, err := p.codec.OpenPipeline(t.Context(), &pb.OpenPipelineRequest{ // the codec once under each of its names
		Steps: wire.StepsToWire([]codecdriver.Step{{ID: "test.copy"}, {ID: "copied"}, {ID: "copy"}}), Input: wire.SpecToWire(codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 100}),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := r.GetHandle()
	job := func(id uint64, src string, limit int64) *pb.Job {
		return &pb.Job{Id: id, Op: pb.Op_OP_DECODE, Pipeline: h, Size: int64(len(src)), Limit: limit, Payload: wire.Bytes([]byte(src)), Last: true}
	}
	begun, rest := job(5, "in two parts", 100), &pb.Job{Id: 5, Payload: wire.Bytes([]byte("parts")), Last: true}
	begun.Payload, begun.Last = wire.Bytes([]byte("in two ")), false
	lost := job(6, "x", 100)
	lost.Pipeline = h + 1
	stream, err := p.codec.Exec(t.Context())
	if err == nil {
		err = stream.Send(&pb.Batch{Jobs: []*pb.Job{begun, job(1, "one", 100), job(2, "panic", 100), job(3, "short", 4), job(4, "", 0), lost, rest}})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	kinds := map[uint64]ncerr.Kind{2: ncerr.ErrFilter, 3: ncerr.ErrShortBuffer, 6: ncerr.ErrInvalid}
	want, n := map[uint64]string{1: "one", 4: "", 5: "in two parts"}, 0
	for err == nil {
		var b *pb.BatchReply
		if b, err = stream.Recv(); err != nil {
			break
		}
		for _, r := range b.GetResults() {
			n++
			if k, bad := kinds[r.GetId()]; bad {
				wantKind(t, "job", wire.FromDetail(r.GetError()), k)
			} else if r.GetError() != nil || string(r.GetPayload().GetInline()) != want[r.GetId()] || !r.GetLast() {
				t.Errorf("job %d: %v", r.GetId(), r)
			}
		}
	}
	if !errors.Is(err, io.EOF) || n != 6 {
		t.Errorf("want 6 results, got %d, %v", n, err)
	}
}

// TestBrokenExec checks that a stream that violates the protocol ends with an error.
func TestBrokenExec(t *testing.T) {
	t.Parallel()
	p := dial(t, &store{})
	x := wire.Bytes([]byte("x"))
	for what, j := range map[string]*pb.Job{
		"no end":       {Id: 1, Op: pb.Op_OP_DECODE, Size: 2, Payload: x},
		"more":         {Id: 1, Op: pb.Op_OP_DECODE, Size: 0, Payload: x, Last: true},
		"less":         {Id: 1, Op: pb.Op_OP_DECODE, Size: 2, Payload: x, Last: true},
		"negative":     {Id: 1, Op: pb.Op_OP_DECODE, Size: -1, Last: true},
		"no limit":     {Id: 1, Op: pb.Op_OP_DECODE, Size: 1, Limit: -1, Payload: x, Last: true},
		"no operation": {Id: 1, Size: 1, Payload: x, Last: true},
		"endless":      {Id: 1, Op: pb.Op_OP_DECODE, Size: 1 << 60, Payload: x},
	} {
		stream, err := p.codec.Exec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = stream.Send(&pb.Batch{Jobs: []*pb.Job{j}}), stream.CloseSend()
		if _, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
