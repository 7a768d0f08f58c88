//go:build linux

package server_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// permitWrite records a region to which a request permits the plugin to write. It ignores
// regions outside the response segment.
func (f *fuzzed) permitWrite(r *pb.Region) {
	off, n := r.GetOffset(), r.GetLength()
	if r.GetSegment() == 2 && off <= segmentBytes && n <= segmentBytes-off {
		f.writable = append(f.writable, f.response[off:off+n])
	}
}

// decodeRegion decodes two bytes into a region, which may be invalid.
func decodeRegion(segment uint32, how, by byte) *pb.Region {
	m := region(segment, uint64(by)<<12, 16)
	switch how % 12 {
	case 0:
		m.Offset = 1<<64 - 8
	case 1:
		m.Length = ^uint64(0) - uint64(by)
	case 2:
		m.Offset = segmentBytes - uint64(by)
	case 3:
		m.Segment = uint32(by)
	case 4:
		m.Length = uint64(by)
	case 5:
		m.Length = segmentBytes + uint64(by)
	case 6:
		return nil
	}
	return m
}

// untouched is the value of all bytes of the response segment before the test.
const untouched = 0xC5

// fuzzed records the requests to a plugin at level 1 and its answers.
type fuzzed struct {
	t                 *testing.T
	request, response []byte
	writable          [][]byte       // memory that the plugin may write
	sent              map[uint64]int // how often each id was sent
	answered          map[uint64]int // how often each id was answered
}

func newFuzzed(t *testing.T) (*fuzzed, peer, context.Context) {
	t.Helper()
	p, request, response := sharedPeer(t, &store{})
	copy(request, bytes.Repeat([]byte("0123456789abcdef"), 4096))
	copy(response, bytes.Repeat([]byte{untouched}, segmentBytes))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &fuzzed{t: t, request: request, response: response, sent: map[uint64]int{}, answered: map[uint64]int{}}, p, ctx
}

// check checks the invariants after the plugin's stream has ended.
func (f *fuzzed) check(ctx context.Context) {
	f.t.Helper()
	if ctx.Err() != nil {
		f.t.Error("the plugin did not end the stream")
	}
	for id, n := range f.answered {
		if n > f.sent[id] {
			f.t.Errorf("job %d was sent %d times and answered %d times", id, f.sent[id], n)
		}
	}
	for _, mem := range f.writable {
		copy(mem, bytes.Repeat([]byte{untouched}, len(mem)))
	}
	if n := bytes.Count(f.response, []byte{untouched}); n != segmentBytes {
		f.t.Errorf("the plugin wrote %d bytes outside all requested regions", segmentBytes-n)
	}
	if !bytes.Equal(f.request[:16], []byte("0123456789abcdef")) {
		f.t.Error("the plugin wrote to the request segment")
	}
}

// FuzzStoreRequests sends a plugin reads, writes, grants and cancellations with unusual
// ids, handles, regions and sizes. It checks that the plugin writes only to the requested
// regions and does not answer a job more often than it was sent. Six bytes of the input
// encode one request.
func FuzzStoreRequests(f *testing.F) {
	f.Add([]byte("\x01\x00\x07\x00\x10\x00\x02\x01\x07\x01\x10\x00"))
	f.Add([]byte("\x01\x00\x07\x00\x10\x00\x02\x01\x04\x01\x02\x00\x02\x02\x07\x02\x10\x00\x02\x03\x00\x00\x00\x00"))
	f.Add([]byte("\x01\x00\x00\x00\x10\x00\x01\x00\x01\x09\x10\x01\x01\x01\x03\x09\x10\x00\x09\x02\x05\x09\x10\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, p, ctx := newFuzzed(t)
		open, err := p.driver.Open(ctx, &pb.OpenRequest{Driver: "mem", Path: []byte("x"), Mode: pb.Mode_MODE_CREATE})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := p.driver.Transfer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(data) >= 6 && len(x.sent) < 32; data = data[6:] {
			if stream.Send(x.store(data[:6], open.GetHandle())) != nil {
				break // the plugin refused a request and ends the stream
			}
		}
		last := &pb.StoreBatch{}
		for id := range x.sent {
			last.Cancel = append(last.Cancel, id)
		}
		_ = stream.Send(last) // ends the jobs that still wait for a region
		_ = stream.CloseSend()
		for {
			r, err := stream.Recv()
			if err != nil {
				break
			}
			for _, m := range r.GetResults() {
				if m.GetNeed() == 0 {
					x.answered[m.GetId()]++
				}
			}
		}
		x.check(ctx)
	})
}

// store decodes six bytes into a message: id, kind, two bytes for the region, size,
// handle.
func (f *fuzzed) store(b []byte, handle uint64) *pb.StoreBatch {
	id := uint64(b[0])
	if b[5]%4 == 1 {
		handle += uint64(b[5])
	}
	job := &pb.StoreJob{Id: id, Handle: handle, Lend: uint64(b[5] / 64)}
	switch b[1] % 4 {
	case 0:
		job.Body = decodeRegion(1, b[2], b[3])
		job.Operation = &pb.StoreJob_Put{Put: &pb.PutHead{Handle: handle, Key: []byte("k"), Size: int64(int8(b[4]))}}
	case 1:
		out := decodeRegion(2, b[2], b[3])
		f.permitWrite(out)
		job.Operation = &pb.StoreJob_Get{Get: &pb.GetSpec{Key: []byte("k"), Output: out, Limit: int64(int8(b[4]))}}
	case 2:
		out := decodeRegion(2, b[2], b[3])
		f.permitWrite(out)
		return &pb.StoreBatch{Grants: []*pb.Grant{{Id: id, Output: out}}}
	default:
		return &pb.StoreBatch{Cancel: []uint64{id}}
	}
	f.sent[id]++
	return &pb.StoreBatch{Jobs: []*pb.StoreJob{job}}
}

// FuzzCodecRequests is like FuzzStoreRequests, but tests filters.
func FuzzCodecRequests(f *testing.F) {
	f.Add([]byte("\x01\x07\x00\x07\x00\x10\x02\x07\x01\x07\x01\x10"))
	f.Add([]byte("\x01\x00\x00\x07\x00\x10\x01\x07\x01\x01\x01\x10\x03\x04\x03\x05\x09\x90"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, p, ctx := newFuzzed(t)
		open, err := p.codec.OpenPipeline(ctx, &pb.OpenPipelineRequest{Steps: []*pb.Step{{Id: "copy"}}, Input: &pb.Spec{Kind: 1, MaxBytes: 100}})
		if err != nil {
			t.Fatal(err)
		}
		stream, err := p.codec.Exec(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for ; len(data) >= 6 && len(x.sent) < 32; data = data[6:] {
			id, in, out := uint64(data[0]), decodeRegion(1, data[1], data[2]), decodeRegion(2, data[3], data[4])
			x.permitWrite(out)
			x.sent[id]++
			batch := &pb.Batch{Jobs: []*pb.Job{{
				Id: id, Op: pb.Op(data[5] >> 6), Pipeline: open.GetHandle() + uint64(data[5]>>5&1), Size: int64(in.GetLength()), Limit: int64(int8(data[5] & 0x1f)), Last: data[5]&0x10 != 0,
				Payload: &pb.Payload{Content: &pb.Payload_Region{Region: in}}, Output: out,
			}}}
			if data[2]%16 == 15 {
				batch.Cancel = []uint64{id}
			}
			if stream.Send(batch) != nil {
				break
			}
		}
		_ = stream.CloseSend()
		for {
			r, err := stream.Recv()
			if err != nil {
				break
			}
			for _, m := range r.GetResults() {
				x.answered[m.GetId()]++
			}
		}
		x.check(ctx)
	})
}
