package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// planeLiar is a level 1 plugin that violates the protocol in the way that its kind selects.
type planeLiar struct {
	*liar
	request, response []byte
	over              chan struct{} // closed when the plugin must answer the jobs that it delays
}

func (l *planeLiar) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterPluginServer(s, l)
	pb.RegisterDriverServer(s, l)
	pb.RegisterCodecServer(s, l)
	return nil
}

func (l *planeLiar) Describe(ctx context.Context, r *pb.DescribeRequest) (*pb.DescribeReply, error) {
	d, err := l.liar.Describe(ctx, r)
	d.Levels = []uint32{0, 1}
	return d, err
}

func (l *planeLiar) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.ConfigureReply, error) {
	for _, s := range r.GetSegments() {
		mem, err := mapSegment(int(s.GetFd()), int(s.GetSize()), s.GetWritable())
		if err != nil {
			return nil, err
		}
		if s.GetWritable() {
			l.response = mem
		} else {
			l.request = mem
		}
	}
	return &pb.ConfigureReply{}, nil
}

// Open always announces that it lends files.
func (l *planeLiar) Open(ctx context.Context, r *pb.OpenRequest) (*pb.OpenReply, error) {
	o, err := l.liar.Open(ctx, r)
	o.Lends = true
	return o, err
}

// Exec answers each job with the input of the job, or violates the protocol.
func (l *planeLiar) Exec(s pb.Codec_ExecServer) error {
	for {
		b, err := s.Recv()
		if err != nil {
			return nil
		}
		if l.kind == "plane-hangup" && len(b.GetJobs()) > 0 {
			return ncerr.ErrLimit
		}
		if len(b.GetCancel()) > 0 && l.kind == "plane-late" {
			l.answerLate(s, b.GetCancel())
			continue
		}
		if len(b.GetCancel()) > 0 && l.kind == "plane-held" {
			<-l.over // closed by a job on another stream
			answerCanceled(s, b.GetCancel())
			continue
		}
		var rs []*pb.Result
		for _, j := range b.GetJobs() {
			rs = append(rs, l.jobResults(j)...)
		}
		if len(rs) > 0 {
			if err := s.Send(&pb.BatchReply{Results: rs}); err != nil {
				return nil
			}
		}
		for range 2000 {
			if l.kind != "plane-flood" || s.Send(&pb.BatchReply{Results: []*pb.Result{{Id: 1 << 60, Payload: inline(l.request[:1<<20])}}}) != nil {
				break
			}
		}
		if l.kind == "plane-flip" {
			go flip(l.response)
		}
	}
}

// answerLate answers canceled jobs after a delay, during which it overwrites the regions.
func (l *planeLiar) answerLate(s pb.Codec_ExecServer, ids []uint64) {
	for range 20 {
		fill(l.response[:1<<20], 0x66)
		time.Sleep(10 * time.Millisecond)
	}
	answerCanceled(s, ids)
}

// answerCanceled answers each canceled job with an error.
func answerCanceled(s pb.Codec_ExecServer, ids []uint64) {
	for _, id := range ids {
		_ = s.Send(&pb.BatchReply{Results: []*pb.Result{{Id: id, Last: true, Error: &pb.ErrorDetail{Kind: 1}}}})
	}
}

func fill(mem []byte, b byte) {
	for i := range mem {
		mem[i] = b
	}
}

// flip continuously changes the data of answers.
func flip(mem []byte) {
	for b := byte(0); ; b++ {
		fill(mem[:4096], b)
	}
}

func (l *planeLiar) jobResults(j *pb.Job) []*pb.Result {
	in, out := j.GetPayload().GetRegion(), j.GetOutput()
	src := l.request[in.GetOffset() : in.GetOffset()+in.GetLength()]
	if l.kind == "plane-attack" {
		src = []byte(attack(l.request))
	}
	if l.kind == "plane-input" {
		src[0]++ // causes a fault that kills the process
	}
	n := copy(l.response[out.GetOffset():out.GetOffset()+out.GetLength()], src)
	out.Length = uint64(n)
	r := &pb.Result{Id: j.GetId(), Size: int64(n), Last: true, Payload: &pb.Payload{Content: &pb.Payload_Region{Region: out}}}
	switch l.kind {
	case "plane-length":
		r.Size, out.Length = 1<<20, 1<<20
	case "plane-wrap":
		r.Size, out.Length = -1, 1<<64-1
	case "plane-size":
		r.Size++
	case "plane-offset":
		out.Offset += 4096
	case "plane-outside":
		out.Offset = 1 << 40
	case "plane-segment":
		out.Segment = in.GetSegment()
	case "plane-generation":
		out.Generation++
	case "plane-inline":
		r.Payload = inline(src)
	case "plane-nothing":
		r.Payload = nil
	case "plane-part":
		r.Last = false
	case "plane-unrequested":
		r.Id += 77
	case "plane-twice":
		return []*pb.Result{r, r}
	case "plane-never":
		say("received a job and does not answer")
		return nil
	case "plane-late", "plane-held":
		if bytes.Equal(src, []byte("wait")) {
			say("received a job and does not answer")
			return nil
		}
		if bytes.Equal(src, []byte("over")) {
			close(l.over)
		}
	}
	return []*pb.Result{r}
}

// Transfer answers reads and writes incorrectly.
func (l *planeLiar) Transfer(s pb.Driver_TransferServer) error {
	var sent []*pb.StoreJob
	for {
		b, err := s.Recv()
		if err != nil {
			return nil
		}
		if l.kind == "store-put-drip" {
			if len(b.GetJobs()) > 0 {
				say("received puts")
				sent = append(sent, b.GetJobs()...)
				continue
			}
			for _, j := range sent { // the host has canceled the jobs
				time.Sleep(100 * time.Millisecond)
				if s.Send(&pb.StoreBatchReply{Results: []*pb.StoreResult{{Id: j.GetId(), Info: &pb.Info{Size: j.GetPut().GetSize()}}}}) != nil {
					return nil
				}
			}
			sent = nil
		}
		for l.kind == "store-put-empty" && len(b.GetJobs()) > 0 {
			if s.Send(&pb.StoreBatchReply{}) != nil {
				return nil
			}
		}
		for _, j := range b.GetJobs() {
			if put := j.GetPut(); put != nil && l.kind == "store-put-late" {
				_ = l.storeLate(l.request[j.GetBody().GetOffset():][:j.GetBody().GetLength()])
				if err := s.Send(&pb.StoreBatchReply{Results: []*pb.StoreResult{{Id: j.GetId(), Info: &pb.Info{Size: put.GetSize()}}}}); err != nil {
					return nil
				}
				continue
			}
			if l.kind == "store-put-late" {
				_ = s.Send(&pb.StoreBatchReply{Results: []*pb.StoreResult{l.readStored(j)}})
				continue
			}
			if l.kind == "store-deaf" && len(j.GetGet().GetKey()) > 100 {
				<-s.Context().Done() // stop reading
			}
			results := l.storeResults(j)
			if len(results) == 0 {
				continue
			}
			if err := s.Send(&pb.StoreBatchReply{Results: results}); err != nil {
				return nil
			}
		}
	}
}

// readStored answers a read with the data of the last put.
func (l *planeLiar) readStored(j *pb.StoreJob) *pb.StoreResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, n := j.GetGet().GetOutput(), int64(len(l.stored))
	copy(l.response[out.GetOffset():], l.stored)
	out.Length = uint64(n)
	return &pb.StoreResult{Id: j.GetId(), Head: zooHead(n, n), Output: out}
}

func (l *planeLiar) storeResults(j *pb.StoreJob) []*pb.StoreResult {
	out := j.GetGet().GetOutput()
	r := &pb.StoreResult{Id: j.GetId(), Head: zooHead(8, 8), Output: out}
	if out != nil {
		copy(l.response[out.GetOffset():], "12345678")
		out.Length = 8
	}
	switch l.kind {
	case "store-length":
		out.Length = 1 << 20
	case "store-short":
		out.Length = 7
	case "store-head":
		r.Head = zooHead(8, 9)
	case "store-huge", "store-huge-many":
		r.Head = zooHead(1<<30, 1<<30)
	case "store-huge-error": // the read failed after the header
		r.Head, r.Error = zooHead(1<<30, 1<<30), &pb.ErrorDetail{Kind: uint32(ncerr.ErrIO), Message: "gone"}
	case "store-headless":
		r.Head = nil
	case "store-offset":
		out.Offset += 64
	case "store-segment":
		out.Segment = 1
	case "store-regionless":
		r.Output = nil
	case "store-unrequested":
		r.Id += 77
	case "store-twice":
		return []*pb.StoreResult{r, r}
	case "store-lent":
		r.Output, r.Lent = nil, &pb.Lent{}
	case "store-need-small":
		return []*pb.StoreResult{{Id: j.GetId(), Need: 1}}
	case "store-need-negative":
		return []*pb.StoreResult{{Id: j.GetId(), Need: -1}}
	case "store-need-huge":
		return []*pb.StoreResult{{Id: j.GetId(), Need: 1 << 60}}
	case "store-need-twice":
		return []*pb.StoreResult{{Id: j.GetId(), Need: 1 << 20}, {Id: j.GetId(), Need: 2 << 20}}
	case "store-put-never":
		say("received a job and does not answer")
		return nil
	case "store-put":
		return []*pb.StoreResult{{Id: j.GetId(), Need: 5}}
	case "store-put-size":
		r.Info = &pb.Info{Size: 3}
	}
	return []*pb.StoreResult{r}
}

// needSharedMemory skips a test of level 1 of the plugin protocol on systems other than
// Linux. There every plugin uses level 0, because memory that a host shares with a plugin
// must be sealed against changes of its size. On Linux no test is skipped.
func needSharedMemory(t *testing.T) {
	t.Helper()
	if sharedLevel() == 0 {
		t.Skip("level 1 of the plugin protocol needs sealed shared memory, which only Linux has")
	}
}

// planeOptions returns the options of a host with a planeLiar of the given kind. It
// disables the sandbox, which does not restrict access to shared memory.
func planeOptions(t *testing.T, kind string) host.Options {
	t.Helper()
	needSharedMemory(t)
	o := zooOptions(t, kind, "nczarr-filter-zoo", "nczarr-driver-zoo")
	o.Sandbox = host.SandboxOff
	return o
}

// zooCodec opens the codec of the planeLiar.
func zooCodec(t *testing.T, o host.Options) (*host.Host, codecdriver.Codec) {
	t.Helper()
	h := newHost(t, o)
	p, err := h.Filter("zoo")
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := p.Open("zoo", nil, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	return h, c
}

// TestPlaneLies checks that a call fails if the plugin's answer describes the output in
// shared memory incorrectly, and that the error contains the plugin's name. The host must
// not write outside the destination.
func TestPlaneLies(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"plane-length", "plane-wrap", "plane-size", "plane-offset", "plane-outside", "plane-segment", "plane-generation",
		"plane-inline", "plane-nothing", "plane-part", "plane-unrequested", "plane-twice", "plane-input",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			_, c := zooCodec(t, planeOptions(t, kind))
			buf := []byte("--------________")
			n, err := c.Decode(t.Context(), buf[:8:8], []byte("12345678"))
			if kind == "plane-twice" && err == nil { // the host detects surplus answers in the next call
				_, err = c.Decode(t.Context(), buf[:8:8], []byte("12345678"))
			}
			if string(buf[8:]) != "________" {
				t.Error("the host wrote past the destination")
			}
			if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "nczarr-filter-zoo") {
				t.Errorf("want ErrPlugin with the plugin's name, got %d, %v", n, err)
			}
		})
	}
}

// TestPlaneStoreLies is like TestPlaneLies, but tests drivers.
func TestPlaneStoreLies(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"store-length", "store-short", "store-head", "store-headless", "store-offset", "store-segment", "store-regionless",
		"store-unrequested", "store-twice", "store-lent", "store-need-small", "store-need-negative", "store-need-huge", "store-need-twice",
		"store-put", "store-put-size",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := open(t, newHost(t, planeOptions(t, kind)), "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
			call := func() error {
				if strings.HasPrefix(kind, "store-put") {
					_, err := m.Put(t.Context(), "k", driver.Bytes("1234"), &driver.PutOptions{})
					return err
				}
				buf := []byte("--------________")
				_, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Into(buf[:8:8]))
				if string(buf[8:]) != "________" {
					t.Error("the host wrote past the destination")
				}
				return err
			}
			err := call()
			if kind == "store-twice" && err == nil {
				err = call()
			}
			want := ncerr.ErrPlugin
			if strings.HasPrefix(kind, "store-put") {
				want = ncerr.ErrAmbiguous // the plugin may have stored the object
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "nczarr-driver-zoo") {
				t.Errorf("want %v with the plugin's name, got %v", want, err)
			}
		})
	}
}

// TestPlaneAttacks checks that a plugin cannot truncate, grow or seal the segments, or
// write to the read-only one.
func TestPlaneAttacks(t *testing.T) {
	t.Parallel()
	_, c := zooCodec(t, planeOptions(t, "plane-attack"))
	dst := make([]byte, 4096)
	n, err := c.Decode(t.Context(), dst, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(dst[:n]); got != wantAttacks {
		t.Errorf("got\n%swant\n%s", got, wantAttacks)
	}
}

// TestPlaneFlip checks that the output passed to the sink does not change while the
// plugin changes the segment.
func TestPlaneFlip(t *testing.T) {
	t.Parallel()
	h := newHost(t, planeOptions(t, "plane-flip"))
	p, err := h.Filter("zoo")
	if err != nil {
		t.Fatal(err)
	}
	pl, _, err := p.(codecdriver.PipelineOpener).OpenPipeline(t.Context(), []codecdriver.Step{{ID: "zoo"}}, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err = pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: bytes.Repeat([]byte("a"), 4096), Limit: 4096}}, func(_ int, out []byte, err error) {
			before := string(out)
			for range 20 {
				time.Sleep(time.Millisecond)
				if err != nil || string(out) != before {
					t.Errorf("the output changed while the sink read it: %v", err)
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuarantine checks that a canceled call returns, and that later calls succeed while
// the plugin still writes to the region of the canceled job. The host must not kill the
// plugin.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	o := planeOptions(t, "plane-late")
	ctx := cancelOnLog(t, &o, "received a job and does not answer")
	h, c := zooCodec(t, o)
	dst := make([]byte, 4)
	if _, err := c.Decode(ctx, dst, []byte("wait")); err != context.Canceled { //nolint:errorlint // the host must return it unchanged
		t.Fatalf("want the caller's cancellation, got %v", err)
	}
	for i := range 200 {
		src := fmt.Appendf(nil, "%04d", i)
		if n, err := c.Decode(t.Context(), dst, src); err != nil || n != 4 {
			t.Fatalf("call %d: %d bytes, %v", i, n, err)
		}
		time.Sleep(time.Millisecond)
	}
	if i := h.Plugins()[0]; i.Restarts != 0 {
		t.Errorf("want no restart, got %+v", i)
	}
}

// TestNeverAnswered checks that the host kills a plugin that does not answer a canceled
// job.
func TestNeverAnswered(t *testing.T) {
	t.Parallel()
	o := planeOptions(t, "plane-never")
	ctx := cancelOnLog(t, &o, "received a job and does not answer")
	h, c := zooCodec(t, o)
	host.SetCallTimeout(h, 10*time.Second)                                                 // much longer than the plugin takes to announce the call
	if _, err := c.Decode(ctx, make([]byte, 4), []byte("wait")); err != context.Canceled { //nolint:errorlint // the host must return it unchanged
		t.Fatalf("want the caller's cancellation, got %v", err)
	}
	awaitEnd(t, h)
}

// TestHangup checks that the host kills a plugin that ends a stream with unanswered
// jobs, because the plugin may still write to their regions.
func TestHangup(t *testing.T) {
	t.Parallel()
	h, c := zooCodec(t, planeOptions(t, "plane-hangup"))
	if _, err := c.Decode(t.Context(), make([]byte, 4), []byte("abcd")); err == nil {
		t.Fatal("want an error")
	}
	awaitEnd(t, h)
}

// awaitEnd waits until no process of h runs.
func awaitEnd(t *testing.T, h *host.Host) {
	t.Helper()
	for range 6000 {
		alive := false
		for _, p := range h.Plugins() {
			alive = alive || p.PID != 0
		}
		if !alive {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the host did not kill the process")
}

// TestPluginStopsReading checks that the host kills a plugin that stops reading while
// the host sends.
func TestPluginStopsReading(t *testing.T) {
	t.Parallel()
	h := newHost(t, planeOptions(t, "store-deaf"))
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x"})
	reqs := make([]driver.GetRequest, 176)
	for i := range reqs {
		reqs[i].Key = strings.Repeat("k", 10)
		if i >= 128 { // these requests exceed the buffers of a connection
			reqs[i].Key = strings.Repeat("k", 16<<10)
		}
	}
	host.SetCallTimeout(h, time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // ends the test if the host does not kill the plugin
	defer cancel()
	err := m.(driver.GetManyer).GetMany(ctx, reqs, func(int, []byte, driver.Info, error) {})
	if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "did not respond for 1s") {
		t.Errorf("want ErrPlugin, got %v", err)
	}
}

// TestFloodedStream checks that unexpected answers do not exhaust the host's memory.
func TestFloodedStream(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	o := planeOptions(t, "plane-flood")
	o.Logger = textLog(log)
	h := newHost(t, o)
	p, err := h.Filter("zoo")
	if err != nil {
		t.Fatal(err)
	}
	pl, _, err := p.(codecdriver.PipelineOpener).OpenPipeline(t.Context(), []codecdriver.Step{{ID: "zoo"}}, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	_ = pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte("a"), Limit: 100}}, func(int, []byte, error) {
		for range 6000 { // block the sink while the plugin sends answers
			if strings.Contains(log.String(), "bytes of unexpected results") {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("the host did not kill the plugin: %s", log.String())
	})
}

// TestFallback checks that a plugin without level 1 works at level 0, and that Plugins
// reports level 0.
func TestFallback(t *testing.T) {
	t.Parallel()
	h := newHost(t, zooOptions(t, "stat-zero", "nczarr-driver-zoo"))
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x"})
	if got, err := get(t.Context(), m, "k"); err != nil || got != "12345678" {
		t.Errorf("got %q, %v", got, err)
	}
	if i := h.Plugins()[0]; i.Level != 0 {
		t.Errorf("want level 0, got %+v", i)
	}
}

// TestNoSegmentLeft checks that shared memory, descriptors and goroutines are released
// after canceled calls, a crash and Close.
func TestNoSegmentLeft(t *testing.T) { //nolint:paralleltest // the test counts resources of the process
	maps := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip("this system has no /proc/self/maps")
		}
		return strings.Count(string(text), "memfd:nczarr-re")
	}
	files := func() int {
		fds, _ := os.ReadDir("/proc/self/fd")
		return len(fds)
	}
	once := func() {
		h, err := host.New(&host.Options{Self: self, Isolation: host.Process, TempDir: t.TempDir(), Sandbox: host.SandboxOff, StartTimeout: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		o, _ := h.Driver("trouble")
		m, err := o.Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		if err != nil {
			t.Fatal(err)
		}
		if maps() == 0 && sharedLevel() > 0 {
			t.Fatal("no segment is mapped, so the test could not find one")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, _ = get(ctx, m, "kind")
		cancel()
		_, _ = get(t.Context(), m, "die-once")
		_, _ = get(t.Context(), m, "kind")
		p, err := h.Filter("trouble")
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := p.Open("trouble", []byte(`{"mode":"wait"}`), codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 100})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, _ = c.Decode(ctx, make([]byte, 10), []byte("X"))
		cancel()
		if err := errors.Join(m.Close(t.Context()), h.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	once()
	f, g := files(), runtime.NumGoroutine()
	for range 4 {
		once()
	}
	for range 6000 { // two minutes
		if maps() == 0 && files() <= f && runtime.NumGoroutine() <= g {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("got %d mappings, want 0; %d descriptors, want %d; %d goroutines, want %d", maps(), files(), f, runtime.NumGoroutine(), g)
}
