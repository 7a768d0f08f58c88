package host_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// hostile is a plugin that misbehaves in more ways than liar.
type hostile struct{ *liar }

func (l hostile) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	pb.RegisterPluginServer(s, l)
	pb.RegisterDriverServer(s, l)
	pb.RegisterCodecServer(s, l)
	return nil
}

func (l hostile) Describe(ctx context.Context, r *pb.DescribeRequest) (*pb.DescribeReply, error) {
	d, err := l.liar.Describe(ctx, r)
	d.Drivers[0].Grants = []string{"path:read", "path:write", "env:HOSTILE_SECRET"}
	return d, err
}

func (l hostile) Get(r *pb.GetRequest, s pb.Driver_GetServer) error {
	switch l.kind {
	case "hostile-drip":
		err := s.Send(&pb.GetReply{Head: zooHead(8, 8)})
		for err == nil {
			err = s.Send(&pb.GetReply{})
		}
		return err
	case "hostile-secret":
		text := []byte(os.Getenv("HOSTILE_SECRET") + "|")
		n := int64(len(text))
		return s.Send(&pb.GetReply{Head: zooHead(n, n), Payload: inline(text)})
	}
	return l.liar.Get(r, s)
}

func (l hostile) GetMany(_ *pb.GetManyRequest, s pb.Driver_GetManyServer) error {
	var err error
	for err == nil {
		err = s.Send(&pb.GetManyReply{Items: []*pb.GetItem{{}}})
	}
	return err
}

func (l hostile) List(_ *pb.ListRequest, s pb.Driver_ListServer) error {
	var err error
	for err == nil {
		err = s.Send(&pb.ListReply{})
	}
	return err
}

// Flush succeeds after one second.
func (l hostile) Flush(context.Context, *pb.FlushRequest) (*pb.FlushReply, error) {
	time.Sleep(time.Second)
	return &pb.FlushReply{}, nil
}

// TestEmptyMessages checks that calls fail if a plugin sends endless empty messages.
func TestEmptyMessages(t *testing.T) {
	t.Parallel()
	h := newHost(t, zooOptions(t, "hostile-drip", "nczarr-driver-zoo"))
	for what, call := range map[string]func(context.Context, driver.Map) error{
		"get": func(ctx context.Context, m driver.Map) error {
			_, err := get(ctx, m, "k")
			return err
		},
		"many": func(ctx context.Context, m driver.Map) error {
			return m.(driver.GetManyer).GetMany(ctx, make([]driver.GetRequest, 1), func(int, []byte, driver.Info, error) {})
		},
		"list": func(ctx context.Context, m driver.Map) error {
			for _, err := range m.List(ctx, "", &driver.ListOptions{}) {
				return err
			}
			return nil
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // ends the test if the call does not fail
		m := open(t, h, "zoo", driver.OpenSpec{Path: "x"})
		if err := call(ctx, m); !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "without content") {
			t.Errorf("%s: want ErrPlugin, got %v", what, err)
		}
		cancel()
	}
}

// TestNoSelfGrantedEnvironment checks that a plugin cannot grant itself environment
// variables.
func TestNoSelfGrantedEnvironment(t *testing.T) {
	t.Parallel()
	o := zooOptions(t, "hostile-secret", "nczarr-driver-zoo")
	zooVar := o.Getenv
	o.Getenv = func(name string) string {
		if name == "HOSTILE_SECRET" {
			return "secret"
		}
		return zooVar(name)
	}
	o.Environ = func() []string { return []string{"HOSTILE_SECRET=x"} }
	m := open(t, newHost(t, o), "zoo", driver.OpenSpec{Path: "x"})
	if got, err := get(t.Context(), m, "k"); err != nil || got != "|" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSlowFlush checks that a flush may take longer than CallTimeout while the process
// is alive.
func TestSlowFlush(t *testing.T) {
	t.Parallel()
	o := zooOptions(t, "hostile-slow", "nczarr-driver-zoo")
	h := newHost(t, o)
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
	host.SetCallTimeout(h, 200*time.Millisecond)
	if err := m.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	host.SetCallTimeout(h, 2*time.Minute)
}

// TestCloseWithDoneContext checks that Close succeeds even if its context is done.
func TestCloseWithDoneContext(t *testing.T) {
	t.Parallel()
	h := newHost(t, zooOptions(t, "hostile", "nczarr-driver-zoo"))
	m := open(t, h, "zoo", driver.OpenSpec{Path: "x", Mode: driver.Update})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Close(ctx); err != nil {
		t.Error(err)
	}
}
