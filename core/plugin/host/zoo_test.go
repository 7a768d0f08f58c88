package host_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// zoo is the main function of a test plugin, which usually misbehaves. It never
// returns.
func zoo(kind string) {
	if where, ok := strings.CutPrefix(kind, "elsewhere:"); ok {
		fmt.Printf("1|%d|%s|grpc\n", handshake.Major, where)
		time.Sleep(time.Minute)
	}
	if path, ok := strings.CutPrefix(kind, "needs:"); ok { // like an interpreter that cannot start without its library
		if _, err := os.ReadFile(path); err != nil {
			fmt.Fprintln(os.Stderr, "no library found")
			os.Exit(1)
		}
		kind = "good"
	}
	if attack, ok := strings.CutPrefix(kind, "early:"); ok {
		fmt.Fprintln(os.Stderr, attempt(attack, ""))
		os.Exit(3)
	}
	switch kind {
	case "exits":
		fmt.Fprintln(os.Stderr, "no license found")
		os.Exit(3)
	case "sleeps":
		select {}
	case "garbage":
		fmt.Println("Welcome to the plugin!")
		time.Sleep(time.Minute)
	case "endless":
		for {
			fmt.Print(strings.Repeat("spam", 1024))
		}
	case "cookie":
		serveZoo(kind, goplugin.HandshakeConfig{ProtocolVersion: handshake.Major, MagicCookieKey: handshake.CookieKey, MagicCookieValue: "another"})
	case "version":
		serveZoo(kind, goplugin.HandshakeConfig{ProtocolVersion: 7, MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue})
	case "host":
		zooHost()
	case "supervised":
		supervised()
	case "good", "misnamed", "bare":
		if kind == "bare" { // like a plugin that cannot create certificates
			_ = os.Unsetenv("PLUGIN_CLIENT_CERT")
		}
		plugin.Serve(plugin.Name("good"), plugin.Version("1.2.3"), plugin.Driver(trouble{name: "good"}), plugin.Filter(filters{}))
	case "dir-writer": // writes to the directory that contains its store
		plugin.Serve(plugin.Name("good"), plugin.Version("1.2.3"), plugin.Driver(dirWriter{trouble{name: "good"}}))
	case "greedy": // claims another plugin's name
		plugin.Serve(plugin.Name("greedy"), plugin.Driver(trouble{name: "evil"}), plugin.Driver(trouble{name: "tape"}), plugin.Filter(filters{}))
	case "stubborn": // does not exit on request
		signal.Ignore(syscall.SIGTERM)
		serveZoo(kind, goplugin.HandshakeConfig{ProtocolVersion: handshake.Major, MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue})
		select {}
	default:
		serveZoo(kind, goplugin.HandshakeConfig{ProtocolVersion: handshake.Major, MagicCookieKey: handshake.CookieKey, MagicCookieValue: handshake.CookieValue})
	}
	os.Exit(0)
}

// zooHost runs a host, prints the ids of its processes and waits to be killed.
func zooHost() {
	h, err := host.New(&host.Options{Self: plugin.Main(builtins()), Sandbox: host.Sandbox(os.Getenv("ZOO_SANDBOX")), Dirs: []string{os.Getenv("ZOO_DIR")}, AllowUnpinned: true, Isolation: host.Process, StartTimeout: 2 * time.Minute, TempDir: os.Getenv("ZOO_TMP"), PassEnv: []string{zooEnv}, Getenv: func(name string) string {
		if name == zooEnv {
			return cmp.Or(os.Getenv("ZOO_KIND"), "good")
		}
		return ""
	}})
	if err == nil {
		var o driver.Opener
		if o, err = h.Driver(cmp.Or(os.Getenv("ZOO_DRIVER"), "good")); err == nil {
			_, err = o.Open(context.Background(), driver.OpenSpec{Path: os.Getenv("ZOO_DIR")})
		}
		if o, e := h.Driver("file"); e == nil && err == nil {
			_, err = o.Open(context.Background(), driver.OpenSpec{Path: os.Getenv("ZOO_TMP"), Mode: driver.Update})
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	var pids []any
	for _, p := range h.Plugins() {
		if p.PID != 0 {
			pids = append(pids, p.PID)
		}
	}
	fmt.Println(pids...)
	time.Sleep(time.Minute)
}

// serveZoo serves the misbehaving plugin of the given kind.
func serveZoo(kind string, config goplugin.HandshakeConfig) {
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: config,
		Plugins:         goplugin.PluginSet{handshake.PluginSetName: badPlugin(kind)},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.ChainStreamInterceptor(recordStream))...)
		},
	})
}

// opened lists the streams that the host has opened to this plugin.
var opened = struct { // a plugin process has one host
	mu    sync.Mutex
	names []string
}{}

func recordStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	opened.mu.Lock()
	opened.names = append(opened.names, info.FullMethod)
	opened.mu.Unlock()
	return handle(srv, s)
}

func badPlugin(kind string) goplugin.Plugin {
	if strings.HasPrefix(kind, "hostile") {
		return hostile{&liar{kind: kind}}
	}
	if strings.HasPrefix(kind, "plane-") || strings.HasPrefix(kind, "store-") {
		return &planeLiar{liar: &liar{kind: kind}, over: make(chan struct{})}
	}
	return &liar{kind: kind}
}

// liar is a plugin that violates the protocol in the way that its kind selects.
type liar struct {
	goplugin.NetRPCUnsupportedPlugin
	pb.UnimplementedPluginServer
	pb.UnimplementedDriverServer
	pb.UnimplementedCodecServer
	kind string

	mu     sync.Mutex
	stored []byte // last put, for kinds that store it
}

// storeLate stores a body. If the body starts with "slow", storeLate waits first and
// stores the body even if the call is canceled.
func (l *liar) storeLate(body []byte) error {
	if bytes.HasPrefix(body, []byte("slow")) {
		say("received a put")
		time.Sleep(300 * time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored = bytes.Clone(body)
	return nil
}

func (l *liar) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterPluginServer(s, l)
	pb.RegisterDriverServer(s, l)
	pb.RegisterCodecServer(s, l)
	return nil
}

func (l *liar) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.ErrUnsupported
}

func (l *liar) Describe(ctx context.Context, _ *pb.DescribeRequest) (*pb.DescribeReply, error) {
	r := &pb.DescribeReply{
		Name: "liar", Version: "1", Major: handshake.Major, Levels: []uint32{0},
		Drivers: []*pb.DriverDescription{{Name: "zoo"}}, Codecs: []*pb.CodecDescription{{Id: "zoo"}},
	}
	switch l.kind {
	case "describe-hangs":
		<-ctx.Done()
		select {}
	case "describe-dies":
		os.Exit(5)
	case "describe-major":
		r.Major = 2
	case "describe-levels":
		r.Levels = []uint32{1}
	case "describe-lines":
		r.Name, r.Version = "liar\nsandbox", "1\n  sandbox  all"
	}
	return r, nil
}

func (l *liar) Configure(context.Context, *pb.ConfigureRequest) (*pb.ConfigureReply, error) {
	return &pb.ConfigureReply{}, nil
}

func (l *liar) Open(context.Context, *pb.OpenRequest) (*pb.OpenReply, error) {
	caps := &pb.Capabilities{Ranges: true, List: true, OrderedList: true, Write: true}
	return &pb.OpenReply{Handle: 1, Capabilities: caps, PutsMany: strings.HasPrefix(l.kind, "puts-")}, nil
}

func (l *liar) Close(context.Context, *pb.CloseRequest) (*pb.CloseReply, error) {
	return &pb.CloseReply{}, nil
}

func (l *liar) Stat(context.Context, *pb.StatRequest) (*pb.StatReply, error) {
	if l.kind == "stat-nothing" {
		return &pb.StatReply{}, nil
	}
	return &pb.StatReply{Info: &pb.Info{Size: -5}}, nil
}

func inline(b []byte) *pb.Payload { return &pb.Payload{Content: &pb.Payload_Inline{Inline: b}} }

func zooHead(size, length int64) *pb.GetHead {
	return &pb.GetHead{Info: &pb.Info{Size: size}, Length: length}
}

func (l *liar) Get(_ *pb.GetRequest, s pb.Driver_GetServer) error {
	eight := inline([]byte("12345678"))
	switch l.kind {
	case "get-long": // longer than announced
		return errors.Join(s.Send(&pb.GetReply{Head: zooHead(8, 8), Payload: eight}), s.Send(&pb.GetReply{Payload: eight}))
	case "get-short":
		return s.Send(&pb.GetReply{Head: zooHead(9, 9), Payload: eight})
	case "get-other": // the announced length is not the size of the object
		return s.Send(&pb.GetReply{Head: zooHead(100, 8), Payload: eight})
	case "get-negative":
		return s.Send(&pb.GetReply{Head: zooHead(-8, -8), Payload: eight})
	case "get-twice":
		return errors.Join(s.Send(&pb.GetReply{Head: zooHead(16, 16), Payload: eight}), s.Send(&pb.GetReply{Head: zooHead(16, 16), Payload: eight}))
	case "get-headless":
		return s.Send(&pb.GetReply{Payload: eight})
	case "get-nothing":
		return nil
	case "get-region":
		return s.Send(&pb.GetReply{Head: zooHead(8, 8), Payload: &pb.Payload{Content: &pb.Payload_Region{Region: &pb.Region{Length: 8}}}})
	case "get-part": // a part above the limit in a message below the limit
		return s.Send(&pb.GetReply{Head: zooHead(2<<20, 2<<20), Payload: inline(make([]byte, 2<<20))})
	case "get-message": // a message above the limit
		return s.Send(&pb.GetReply{Head: zooHead(8<<20, 8<<20), Payload: inline(make([]byte, 8<<20))})
	case "streams":
		opened.mu.Lock()
		names := []byte(strings.Join(opened.names, " "))
		opened.mu.Unlock()
		return s.Send(&pb.GetReply{Head: zooHead(int64(len(names)), int64(len(names))), Payload: inline(names)})
	case "get-bare":
		return io.ErrClosedPipe
	case "get-trailer":
		s.SetTrailer(metadata.Pairs("x", strings.Repeat("x", 8<<20)))
	case "put-late", "store-put-late":
		l.mu.Lock()
		defer l.mu.Unlock()
		return s.Send(&pb.GetReply{Head: zooHead(int64(len(l.stored)), int64(len(l.stored))), Payload: inline(l.stored)})
	case "get-huge":
		return s.Send(&pb.GetReply{Head: zooHead(1<<30, 1<<30), Payload: eight})
	}
	return s.Send(&pb.GetReply{Head: zooHead(8, 8), Payload: eight})
}

func (l *liar) GetMany(r *pb.GetManyRequest, s pb.Driver_GetManyServer) error {
	item := func(i int, last bool) *pb.GetManyReply {
		return &pb.GetManyReply{Items: []*pb.GetItem{{Index: uint32(i), Head: zooHead(1, 1), Payload: inline([]byte("x")), Last: last}}}
	}
	switch l.kind {
	case "many-index":
		return s.Send(item(len(r.GetSpecs()), true))
	case "many-twice":
		return errors.Join(s.Send(item(0, true)), s.Send(item(0, true)))
	case "many-huge":
		for i := range r.GetSpecs() {
			if err := s.Send(&pb.GetManyReply{Items: []*pb.GetItem{{Index: uint32(i), Head: zooHead(1<<30, 1<<30), Payload: inline([]byte("x"))}}}); err != nil {
				return err
			}
		}
		return nil
	}
	return s.Send(item(0, true)) // many-missing: the other reads are never answered
}

func (l *liar) Put(s pb.Driver_PutServer) error {
	var body []byte
	for {
		r, err := s.Recv()
		body = append(body, r.GetPayload().GetInline()...)
		if errors.Is(err, io.EOF) && l.kind == "put-old" {
			return s.SendAndClose(&pb.PutReply{Info: &pb.Info{Size: int64(len(body))}})
		}
		if errors.Is(err, io.EOF) && l.kind == "put-late" {
			return errors.Join(l.storeLate(body), s.SendAndClose(&pb.PutReply{Info: &pb.Info{Size: int64(len(body))}}))
		}
		if err != nil {
			return s.SendAndClose(&pb.PutReply{Info: &pb.Info{Size: 1}})
		}
	}
}

func (l *liar) PutMany(_ context.Context, r *pb.PutManyRequest) (*pb.PutManyReply, error) {
	reply := &pb.PutManyReply{}
	for _, item := range r.GetItems() {
		reply.Results = append(reply.Results, &pb.PutResult{Info: &pb.Info{Size: item.GetHead().GetSize()}})
	}
	switch l.kind {
	case "puts-few":
		reply.Results = reply.Results[1:]
	case "puts-more":
		reply.Results = append(reply.Results, reply.Results[0])
	case "puts-size":
		reply.Results[1].Info.Size++
	case "puts-nothing":
		reply.Results[1] = &pb.PutResult{}
	}
	return reply, nil
}

func (l *liar) List(_ *pb.ListRequest, s pb.Driver_ListServer) error {
	keys := map[string][]string{"list-order": {"p/b", "p/a"}, "list-outside": {"q/a"}, "list-prefix": {"p/x/"}, "list-empty": {""}}[l.kind]
	r := &pb.ListReply{}
	for _, k := range keys {
		r.Entries = append(r.Entries, &pb.Entry{Key: []byte(k), Info: &pb.Info{Size: -1}})
	}
	return s.Send(r)
}

func (l *liar) OpenPipeline(_ context.Context, r *pb.OpenPipelineRequest) (*pb.OpenPipelineReply, error) {
	reply := &pb.OpenPipelineReply{Handle: 1}
	for range r.GetSteps() {
		reply.Outputs = append(reply.Outputs, &pb.Spec{Kind: pb.SpecKind_SPEC_KIND_BLOB, MaxBytes: 100})
	}
	switch l.kind {
	case "specs-count":
		reply.Outputs = append(reply.Outputs, reply.Outputs[0])
	case "specs-negative":
		reply.Outputs[0].MaxBytes = -1
	case "specs-endless":
		reply.Outputs[0].MaxBytes = 1 << 62
	case "specs-large":
		reply.Outputs[0].MaxBytes = 1 << 45
	}
	return reply, nil
}

func (l *liar) Exec(s pb.Codec_ExecServer) error {
	b, err := s.Recv()
	if err != nil {
		return err
	}
	id := b.GetJobs()[0].GetId()
	send := func(r ...*pb.Result) error { return s.Send(&pb.BatchReply{Results: r}) }
	whole := &pb.Result{Id: id, Size: 4, Payload: inline([]byte("abcd")), Last: true}
	switch l.kind {
	case "job-id":
		return send(&pb.Result{Id: id + 77, Size: 4, Payload: inline([]byte("abcd")), Last: true})
	case "job-twice":
		return send(whole, whole)
	case "job-limit":
		return send(&pb.Result{Id: id, Size: 1 << 40, Payload: inline([]byte("abcd"))})
	case "job-large":
		return send(&pb.Result{Id: id, Size: 1 << 36, Payload: inline([]byte("abcd"))}, &pb.Result{Id: id, Last: true})
	case "job-negative":
		return send(&pb.Result{Id: id, Size: -4, Payload: inline([]byte("abcd")), Last: true})
	case "job-long":
		return send(&pb.Result{Id: id, Size: 2, Payload: inline([]byte("abcd")), Last: true})
	case "job-short":
		return send(&pb.Result{Id: id, Size: 8, Payload: inline([]byte("abcd")), Last: true})
	}
	return nil // job-missing: the job is never answered
}

// plugins returns a new directory with links to this test binary under the given names.
func plugins(t *testing.T, names ...string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, n := range names {
		if err := os.Symlink(exe, filepath.Join(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// zooOptions returns the options of a host with test plugins of one kind under the
// given names. The host may run them unpinned.
func zooOptions(t *testing.T, kind string, names ...string) host.Options {
	t.Helper()
	return host.Options{
		Dirs: []string{plugins(t, names...)}, AllowUnpinned: true, PassEnv: []string{zooEnv}, StartTimeout: 2 * time.Minute,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Getenv: func(name string) string {
			if name == zooEnv {
				return kind
			}
			return ""
		},
	}
}

// TestZooStart checks the errors of plugins that fail to start.
func TestZooStart(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string][]string{
		"exits":           {"exited before it started to serve", "exit status 3", "no license found"},
		"sleeps":          {"did not start to serve within 2s"},
		"garbage":         {`printed "Welcome to the plugin!"`, "log to standard error"},
		"endless":         {"printed", "spam"},
		"cookie":          {"handshake cookie"},
		"version":         {"uses version 7", "this program uses version 1"},
		"misnamed":        {`serves no driver named "zoo"`},
		"describe-hangs":  {"did not respond to Describe within"},
		"describe-dies":   {"died (exit status 5) during Describe"},
		"describe-major":  {"version 2 of the plugin protocol"},
		"describe-levels": {"level 0"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			opts := zooOptions(t, kind, "nczarr-driver-zoo")
			switch kind { // these plugins do not start before the timeout
			case "sleeps":
				opts.StartTimeout = 2 * time.Second
			case "describe-hangs":
				opts.StartTimeout = 30 * time.Second // much longer than it takes to reach Describe
			}
			err := openZoo(t, opts)
			if !errors.Is(err, ncerr.ErrPlugin) {
				t.Fatalf("want ErrPlugin, got %v", err)
			}
			for _, part := range append(want, "nczarr-driver-zoo") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("want %q in %q", part, err)
				}
			}
		})
	}
}

// TestStartTooLate checks the error if the timeout passes before the process runs, which
// happens on a busy machine. The timeout is so short that this happens on any machine.
func TestStartTooLate(t *testing.T) {
	t.Parallel()
	for range 20 { // the timeout is noticed before, while or after go-plugin starts the process
		opts := zooOptions(t, "sleeps", "nczarr-driver-zoo")
		opts.StartTimeout = 1
		err := openZoo(t, opts)
		if want := "did not start to serve within 1ns"; !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestDescribedLines checks that line breaks are removed from a plugin's description.
func TestDescribedLines(t *testing.T) {
	t.Parallel()
	h := newHost(t, zooOptions(t, "describe-lines", "nczarr-driver-zoo"))
	if err := h.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := h.Plugins()[0].Version; strings.Contains(got, "\n") || !strings.HasPrefix(got, "1") {
		t.Errorf("version %q", got)
	}
}

// openZoo opens a store of a test plugin, which must fail, and returns the error.
func openZoo(t *testing.T, opts host.Options) error {
	t.Helper()
	o, err := newHost(t, opts).Driver("zoo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = o.Open(t.Context(), driver.OpenSpec{Path: "x"}); err == nil {
		t.Fatal("no error")
	}
	return err
}

// TestOwnAddress checks that the host does not connect to an address outside the
// plugin's private directory. Otherwise a plugin could make the host connect to a server
// to which the plugin itself must not connect.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", path}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		called := make(chan struct{})
		go func() {
			if _, err := l.Accept(); err == nil {
				close(called)
			}
		}()
		opts := zooOptions(t, "elsewhere:"+at[0]+"|"+l.Addr().String(), "nczarr-driver-zoo")
		o, err := newHost(t, opts).Driver("zoo")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = o.Open(t.Context(), driver.OpenSpec{Path: "x"}); !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "not a socket in its private directory") {
			t.Errorf("%s: want ErrPlugin, got %v", at[0], err)
		}
		select {
		case <-called:
			t.Errorf("%s: the host connected to the address", at[0])
		default:
		}
		_ = l.Close()
	}
}

// TestZooStore checks the errors of calls to drivers that violate the protocol.
func TestZooStore(t *testing.T) {
	t.Parallel()
	read := func(ctx context.Context, m driver.Map) error {
		buf := []byte("--------________") // 8 bytes that may be written, and canaries
		_, _, err := m.Get(ctx, "k", &driver.GetOptions{}, driver.Into(buf[:8:8]))
		if string(buf[8:]) != "________" {
			return errors.New("the host wrote past the destination")
		}
		return err
	}
	many := func(ctx context.Context, m driver.Map) error {
		return m.(driver.GetManyer).GetMany(ctx, make([]driver.GetRequest, 3), func(int, []byte, driver.Info, error) {})
	}
	list := func(ctx context.Context, m driver.Map) error {
		for _, err := range m.List(ctx, "p/", &driver.ListOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	stat := func(ctx context.Context, m driver.Map) error {
		_, err := m.Stat(ctx, "k")
		return err
	}
	put := func(ctx context.Context, m driver.Map) error {
		_, err := m.Put(ctx, "k", driver.Bytes("1234"), &driver.PutOptions{})
		return err
	}
	puts := func(ctx context.Context, m driver.Map) error {
		reqs := []driver.PutRequest{{Key: "k", Body: driver.Bytes("1")}, {Key: "l", Body: driver.Bytes("2")}, {Key: "m", Body: driver.Bytes("3")}}
		last, calls := error(nil), 0
		err := m.(driver.PutManyer).PutMany(ctx, reqs, func(_ int, _ driver.Info, err error) {
			calls++
			if err != nil {
				last = err
			}
		})
		if err != nil || calls != len(reqs) {
			return fmt.Errorf("%d of 3 answers, %w", calls, err)
		}
		return last
	}
	for kind, call := range map[string]func(context.Context, driver.Map) error{
		"get-long": read, "get-short": nil, "get-other": read, "get-negative": read, "get-twice": nil, "get-headless": read,
		"get-nothing": read, "get-region": read, "get-part": nil, "get-message": read, "get-bare": read, "get-trailer": read,
		"many-index": many, "many-twice": many, "many-missing": many,
		"list-order": list, "list-outside": list, "list-prefix": list, "list-empty": list,
		"stat-nothing": stat, "stat-negative": stat, "put-size": put,
		"puts-few": puts, "puts-more": puts, "puts-size": puts, "puts-nothing": puts,
	} {
		if call == nil { // the object is larger than the buffer of read
			call = func(ctx context.Context, m driver.Map) error {
				_, err := get(ctx, m, "k")
				return err
			}
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, zooOptions(t, kind, "nczarr-driver-zoo"))
			m := open(t, h, "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
			want := ncerr.ErrPlugin
			if strings.HasPrefix(kind, "put") {
				want = ncerr.ErrAmbiguous // the plugin may have stored the object
			}
			if err := call(t.Context(), m); !errors.Is(err, want) || !strings.Contains(err.Error(), "nczarr-driver-zoo") {
				t.Errorf("want %v with the plugin's name, got %v", want, err)
			}
		})
	}
}

// TestZooCodec checks the errors of calls to filters that violate the protocol.
func TestZooCodec(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"job-id", "job-twice", "job-limit", "job-negative", "job-long", "job-short", "job-missing", "specs-count", "specs-negative", "specs-endless", "specs-large"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, zooOptions(t, kind, "nczarr-filter-zoo"))
			p, err := h.Filter("zoo")
			if err != nil {
				t.Fatal(err)
			}
			c, _, err := p.Open("zoo", nil, codecdriver.Spec{Kind: codecdriver.Blob, MaxBytes: 10})
			if err == nil {
				if strings.HasPrefix(kind, "specs") {
					t.Error("invalid specs were accepted")
				}
				buf := []byte("--------________")
				_, err = c.Decode(t.Context(), buf[:8:8], []byte("src"))
				if string(buf[8:]) != "________" {
					t.Error("the host wrote past the destination")
				}
			}
			if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "nczarr-filter-zoo") {
				t.Errorf("want ErrPlugin with the plugin's name, got %v", err)
			}
		})
	}
}

// TestStreams checks that the host opens only the streams of the protocol, and not
// those of go-plugin.
func TestStreams(t *testing.T) {
	t.Parallel()
	h := newHost(t, zooOptions(t, "streams", "nczarr-driver-zoo"))
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x"})
	for range 2 { // go-plugin opens its streams in goroutines
		if got, err := get(t.Context(), m, "k"); err != nil || strings.Contains(got, "/plugin.") || !strings.Contains(got, "Driver/Get") {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

// TestClaimedOutput checks that the host does not immediately allocate memory for a
// large output that a plugin announces.
func TestClaimedOutput(t *testing.T) { //nolint:paralleltest // the test measures the allocations of the process
	h := newHost(t, zooOptions(t, "job-large", "nczarr-filter-zoo"))
	p, err := h.Filter("zoo")
	if err != nil {
		t.Fatal(err)
	}
	pl, _, err := p.(codecdriver.PipelineOpener).OpenPipeline(t.Context(), []codecdriver.Step{{ID: "zoo"}}, codecdriver.Spec{MaxBytes: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pl.Close() }()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte("src"), Limit: 1 << 40}}, func(int, []byte, error) {})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ncerr.ErrPlugin) {
		t.Errorf("want ErrPlugin, got %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<30 {
		t.Errorf("the host allocated %d bytes", n)
	}
}

// TestNoOrphan kills a host and checks that its plugins exit, and that the next host
// removes its files.
func TestNoOrphan(t *testing.T) {
	t.Parallel()
	for _, mode := range []host.Sandbox{host.SandboxAuto, host.SandboxOff} { //nolint:paralleltest // the subtests run in sequence
		t.Run(string(mode), func(t *testing.T) { testNoOrphan(t, mode, "good") })
	}
}

func testNoOrphan(t *testing.T, mode host.Sandbox, kind string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tmp, name := t.TempDir(), kind
	if kind != "good" {
		name = "zoo"
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), zooEnv+"=host", "ZOO_DIR="+plugins(t, "nczarr-driver-"+name), "ZOO_TMP="+tmp, "ZOO_KIND="+kind, "ZOO_DRIVER="+name, "ZOO_SANDBOX="+string(mode))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids [2]int
	if _, err := fmt.Fscan(out, &pids[0], &pids[1]); err != nil || !running(pids[0]) || !running(pids[1]) {
		_ = cmd.Process.Kill()
		t.Fatalf("want two running plugin processes, got %d, %v", pids, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Minute); running(pids[0]) || running(pids[1]); {
		if time.Now().After(deadline) {
			t.Fatalf("one of the processes %d still runs after its host", pids)
		}
		time.Sleep(10 * time.Millisecond)
	}
	left := func() []string { dirs, _ := filepath.Glob(filepath.Join(tmp, "*")); return dirs }
	if len(left()) != 1 {
		t.Fatalf("want one directory of the dead host, got %q", left())
	}
	h, err := host.New(&host.Options{Self: self, Isolation: host.Process, TempDir: tmp, StartTimeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	open(t, h, "file", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(left()) != 0 {
		t.Errorf("the next host did not remove %q", left())
	}
}

// TestNoLeak checks that goroutines and descriptors are released after Close.
func TestNoLeak(t *testing.T) { //nolint:paralleltest // the test counts resources of the process
	count := func() (goroutines, files int) {
		fds, _ := os.ReadDir("/proc/self/fd")
		return runtime.NumGoroutine(), len(fds)
	}
	once := func() {
		h, err := host.New(&host.Options{Self: self, Isolation: host.Process, TempDir: t.TempDir(), StartTimeout: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		o, _ := h.Driver("trouble")
		m, err := o.Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = get(t.Context(), m, "die-once")
		_, _ = get(t.Context(), m, "kind")
		if err := errors.Join(m.Close(t.Context()), h.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	once()
	g0, f0 := count()
	for range 5 {
		once()
	}
	var g, f int
	for range 6000 { // two minutes
		if g, f = count(); g <= g0 && f <= f0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	buf := make([]byte, 1<<20)
	t.Errorf("want %d goroutines and %d descriptors, got %d and %d\n%s", g0, f0, g, f, buf[:runtime.Stack(buf, true)])
}
