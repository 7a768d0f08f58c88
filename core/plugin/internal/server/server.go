// Package server implements the plugin's side of the protocol. It serves drivers and
// filters that implement the interfaces of this module. core/plugin runs it in a plugin
// process. For tests, core/plugin/host runs it over an in-memory connection. It uses
// core/plugin/internal/wire.
//
// If a codec panics, only its job fails. If a driver panics, the process exits, because
// the state of the store is unknown.
package server

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/shm"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Config describes what a plugin serves.
type Config struct {
	Name    string
	Version string
	BuildID string
	Drivers []driver.Opener
	Filters []codecdriver.Provider
	// OnDescribe, if not nil, is called at the first Describe.
	OnDescribe func()
	// Reconfigurable permits several hosts to use the process, one after the other.
	Reconfigurable bool
	// Channel is the inherited channel of level 1. If it is nil, the server offers only
	// level 0.
	Channel *os.File
}

// Server implements the services. It is safe for concurrent use.
type Server struct {
	cfg       Config
	maxObject atomic.Int64
	shared    atomic.Pointer[shared] // nil at level 0
	drivers   driverService
	codecs    codecService
	plugin    pluginService
}

// New returns a new Server for cfg.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg}
	s.maxObject.Store(handshake.MaxObject)
	s.plugin.s = s
	s.drivers = driverService{s: s, openers: map[string]driver.Opener{}, maps: map[uint64]*openMap{}, tokens: newTokens()}
	for _, o := range cfg.Drivers {
		s.drivers.openers[o.Describe().Name] = o
	}
	s.codecs = codecService{
		s: s, providers: map[string]codecdriver.Provider{}, pipelines: map[uint64]*pipeline{}, tokens: newTokens(),
		pool:  sync.Pool{New: func() any { return new(scratch) }},
		cores: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
	for _, p := range cfg.Filters {
		for _, d := range p.Describe() {
			for _, name := range d.Names() {
				s.codecs.providers[name] = p
			}
		}
	}
	return s
}

// Register adds the services to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	pb.RegisterPluginServer(r, &s.plugin)
	pb.RegisterDriverServer(r, &s.drivers)
	pb.RegisterCodecServer(r, &s.codecs)
}

// Close closes the open stores without flushing them.
func (s *Server) Close(ctx context.Context) error { return s.drivers.closeAll(ctx) }

// Options returns the options of a gRPC server for the protocol.
func Options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(handshake.MaxMessage),
		grpc.MaxSendMsgSize(handshake.MaxMessage),
		grpc.MaxConcurrentStreams(handshake.MaxStreams),
		grpc.InitialWindowSize(4 << 20),
		grpc.InitialConnWindowSize(16 << 20),
	}
}

type pluginService struct {
	pb.UnimplementedPluginServer
	s       *Server
	started sync.Once
	mu      sync.Mutex
	done    bool // Configure was called
}

func (p *pluginService) Describe(context.Context, *pb.DescribeRequest) (*pb.DescribeReply, error) {
	cfg := p.s.cfg
	if cfg.OnDescribe != nil {
		p.started.Do(cfg.OnDescribe)
	}
	r := &pb.DescribeReply{
		Name: cfg.Name, Version: cfg.Version, BuildId: cfg.BuildID,
		Major: handshake.Major, Minor: handshake.Minor, Levels: []uint32{0},
	}
	if cfg.Channel != nil && shm.Available {
		r.Levels = append(r.Levels, 1)
	}
	for _, o := range cfg.Drivers {
		r.Drivers = append(r.Drivers, wire.DriverToWire(o.Describe()))
	}
	for _, f := range cfg.Filters {
		for _, d := range f.Describe() {
			r.Codecs = append(r.Codecs, wire.CodecToWire(d))
		}
	}
	return r, nil
}

func (p *pluginService) Configure(ctx context.Context, r *pb.ConfigureRequest) (*pb.ConfigureReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.done && !p.s.cfg.Reconfigurable:
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrInvalid, "configure", "", "the plugin is already configured"))
	case r.GetLevel() > 1 || r.GetLevel() == 1 && p.s.cfg.Channel == nil || r.GetLevel() == 0 && len(r.GetSegments()) > 0:
		return nil, wire.Status(ctx, ncerr.Errorf(ncerr.ErrUnsupported, "configure", "", "level %d of the data plane is not supported", r.GetLevel()))
	case r.GetLevel() == 1:
		sh, err := openShared(r.GetSegments(), p.s.cfg.Channel)
		if err != nil {
			return nil, wire.Status(ctx, err)
		}
		p.s.shared.Store(sh)
	}
	p.done = true
	if n := r.GetMaxObject(); n > 0 {
		p.s.maxObject.Store(n)
	}
	return &pb.ConfigureReply{}, nil
}
