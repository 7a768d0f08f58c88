//go:build linux

package server_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

const segmentBytes = 1 << 20

// dup returns a duplicate of f's descriptor. The server closes the duplicate.
func dup(t *testing.T, f *os.File) uint32 {
	t.Helper()
	fd, err := shm.Dup(f)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(fd)
}

// sharedPeer returns a client at level 1 and the memory of the two segments.
func sharedPeer(t *testing.T, s *store) (p peer, request, response []byte) {
	t.Helper()
	hostEnd, pluginEnd, err := shm.Pair()
	if err != nil {
		t.Fatal(err)
	}
	p = dialWith(t, s, pluginEnd)
	request, req, err := shm.Create("request", segmentBytes, true)
	if err != nil {
		t.Fatal(err)
	}
	response, resp, err := shm.Create("response", segmentBytes, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.plugin.Configure(t.Context(), &pb.ConfigureRequest{Level: 1, Segments: []*pb.Segment{
		{Id: 1, Fd: dup(t, req), Size: segmentBytes}, {Id: 2, Fd: dup(t, resp), Size: segmentBytes, Writable: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(req.Close(), resp.Close(), hostEnd.Close(), pluginEnd.Close(), shm.Unmap(request), shm.Unmap(response)); err != nil {
			t.Error(err)
		}
	})
	return p, request, response
}

func region(segment uint32, off, n uint64) *pb.Region {
	return &pb.Region{Segment: segment, Offset: off, Length: n, Generation: 7}
}

// TestCanaries checks that a job writes only to its output region.
func TestCanaries(t *testing.T) {
	t.Parallel()
	p, request, response := sharedPeer(t, &store{})
	copy(request[100:], "hello, region")
	for i := range response {
		response[i] = 0xC5
	}
	open, err := p.codec.OpenPipeline(t.Context(), &pb.OpenPipelineRequest{Steps: []*pb.Step{{Id: "copy"}}, Input: &pb.Spec{Kind: 1, MaxBytes: 100}})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := p.codec.Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	job := func(id uint64, in, out *pb.Region, limit int64) *pb.Job {
		return &pb.Job{
			Id: id, Op: pb.Op_OP_DECODE, Pipeline: open.GetHandle(), Size: int64(in.GetLength()), Limit: limit, Last: true,
			Payload: &pb.Payload{Content: &pb.Payload_Region{Region: in}}, Output: out,
		}
	}
	jobs := []*pb.Job{
		job(1, region(1, 100, 13), region(2, 4096, 13), 13),
		job(2, region(1, 100, 13), region(2, 8192, 12), 12),                // region too small
		job(3, region(1, 100, 13), region(2, segmentBytes-5, 13), 13),      // beyond the end
		job(4, region(1, 1<<63, 1<<63), region(2, 0, 13), 13),              // wraps around
		job(5, region(1, 100, 13), region(1, 0, 13), 13),                   // not writable
		job(6, region(3, 100, 13), region(2, 0, 13), 13),                   // no such segment
		job(7, region(1, 100, 13), region(2, 16384, 13), -1),               // invalid limit
		job(8, region(2, 4096, 13), region(2, segmentBytes-13, 13), 1<<40), // up to the end
	}
	if err := stream.Send(&pb.Batch{Jobs: jobs, Cancel: []uint64{99}}); err != nil {
		t.Fatal(err)
	}
	reply, err := stream.Recv()
	if err != nil || len(reply.GetResults()) != len(jobs) {
		t.Fatalf("got %v, %v", reply, err)
	}
	for i, r := range reply.GetResults() {
		good := i == 0 || i == 7
		if r.GetId() != uint64(i+1) || !r.GetLast() || (r.GetError() == nil) != good || good && r.GetPayload().GetRegion().GetLength() != 13 {
			t.Errorf("job %d: %v", i+1, r)
		}
	}
	if string(response[4096:4109]) != "hello, region" || string(response[segmentBytes-13:]) != "hello, region" {
		t.Error("an output is not in its region")
	}
	for i, b := range response {
		if b != 0xC5 && (i < 4096 || i >= 4109) && i < segmentBytes-13 {
			t.Fatalf("the plugin wrote byte %d, which is outside the regions", i)
		}
	}
}

// TestTransfer checks puts, reads, requests for larger regions, and cancellation at level
// 1.
func TestTransfer(t *testing.T) {
	t.Parallel()
	s := &store{}
	p, request, response := sharedPeer(t, s)
	open, err := p.driver.Open(t.Context(), &pb.OpenRequest{Driver: "mem", Path: []byte("x"), Mode: pb.Mode_MODE_CREATE})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := p.driver.Transfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(b *pb.StoreBatch) *pb.StoreResult {
		t.Helper()
		if err := stream.Send(b); err != nil {
			t.Fatal(err)
		}
		r, err := stream.Recv()
		if err != nil || len(r.GetResults()) != 1 {
			t.Fatalf("got %v, %v", r, err)
		}
		return r.GetResults()[0]
	}
	get := func(id uint64, n uint64) *pb.StoreBatch {
		return &pb.StoreBatch{Jobs: []*pb.StoreJob{{Id: id, Handle: open.GetHandle(), Operation: &pb.StoreJob_Get{Get: &pb.GetSpec{Key: []byte("k"), Output: region(2, 0, n)}}}}}
	}
	body := bytes.Repeat([]byte("0123456789"), 20)
	copy(request[64:], body)
	put := &pb.StoreJob{Id: 1, Handle: open.GetHandle(), Operation: &pb.StoreJob_Put{Put: &pb.PutHead{Key: []byte("k"), Size: 200}}, Body: region(1, 64, 200)}
	if r := ask(&pb.StoreBatch{Jobs: []*pb.StoreJob{put}}); r.GetInfo().GetSize() != 200 {
		t.Fatalf("put: %v", r)
	}
	if r := ask(get(2, 4096)); r.GetHead().GetLength() != 200 || r.GetOutput().GetLength() != 200 || !bytes.Equal(response[:200], body) {
		t.Errorf("get: %v", r)
	}
	if r := ask(get(3, 100)); r.GetNeed() != 200 {
		t.Errorf("get with a small region: %v", r)
	}
	r := ask(&pb.StoreBatch{Grants: []*pb.Grant{{Id: 3, Output: region(2, 65536, 200)}}})
	if r.GetOutput().GetOffset() != 65536 || !bytes.Equal(response[65536:65736], body) {
		t.Errorf("get with a grant: %v", r)
	}
	if r := ask(get(4, 100)); r.GetNeed() != 200 {
		t.Errorf("get with a small region: %v", r)
	}
	if r := ask(&pb.StoreBatch{Cancel: []uint64{4, 77}}); r.GetId() != 4 || r.GetError() == nil {
		t.Errorf("canceled: %v", r)
	}
	if r := ask(&pb.StoreBatch{Jobs: []*pb.StoreJob{{Id: 5, Handle: 99, Operation: &pb.StoreJob_Get{Get: &pb.GetSpec{}}}}}); ncerr.KindOf(wire.FromDetail(r.GetError())) != ncerr.ErrInvalid {
		t.Errorf("no such store: %v", r)
	}
}

// TestTokens checks that a host can close a store or a pipeline by the token of the
// call that opened it.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := &store{}
	p := dial(t, s)
	if _, err := p.driver.Open(t.Context(), &pb.OpenRequest{Driver: "mem", Path: []byte("x"), Mode: pb.Mode_MODE_CREATE, Token: 5}); err != nil {
		t.Fatal(err)
	}
	for _, token := range []uint64{5, 5, 6} { // repeated and unknown tokens are harmless
		if _, err := p.driver.Close(t.Context(), &pb.CloseRequest{Token: token}); err != nil {
			t.Error(err)
		}
	}
	if n := s.closed.Load(); n != 1 {
		t.Errorf("the store was closed %d times, want 1", n)
	}
	open, err := p.codec.OpenPipeline(t.Context(), &pb.OpenPipelineRequest{Steps: []*pb.Step{{Id: "copy"}}, Input: &pb.Spec{Kind: 1, MaxBytes: 10}, Token: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.codec.ClosePipeline(t.Context(), &pb.ClosePipelineRequest{Tokens: []uint64{9, 10}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := p.codec.Exec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&pb.Batch{Jobs: []*pb.Job{{Id: 1, Op: pb.Op_OP_DECODE, Pipeline: open.GetHandle(), Last: true}}}); err != nil {
		t.Fatal(err)
	}
	if r, err := stream.Recv(); err != nil || r.GetResults()[0].GetError() == nil {
		t.Errorf("the pipeline is still open: %v, %v", r, err)
	}
}

var _ driver.Opener = (*store)(nil)
