package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// tracing returns the dial options that log each call and its duration at level debug.
// It returns nil if log does not log that level.
func tracing(log *slog.Logger) []grpc.DialOption {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return nil
	}
	t := tracer{log}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(t.unary), grpc.WithChainStreamInterceptor(t.stream)}
}

// tracer logs the calls to one process.
type tracer struct{ log *slog.Logger }

func (t tracer) done(method string, began time.Time, err error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	attrs := []any{"call", method, "took", time.Since(began)}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	t.log.Debug("plugin call", attrs...)
}

func (t tracer) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	began := time.Now()
	err := invoke(ctx, method, req, reply, cc, opts...)
	t.done(method, began, err)
	return err
}

func (t tracer) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	began := time.Now()
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		t.done(method, began, err)
		return nil, err
	}
	if desc.ServerStreams && desc.ClientStreams {
		return &tracedJobs{ClientStream: s, t: t, method: method}, nil
	}
	return &tracedStream{ClientStream: s, single: !desc.ServerStreams, done: func(err error) { t.done(method, began, err) }}, nil
}

// tracedStream logs the call when the stream ends.
type tracedStream struct {
	grpc.ClientStream
	single bool // the stream has only one answer
	once   sync.Once
	done   func(error)
}

// RecvMsg implements grpc.ClientStream.
func (s *tracedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.once.Do(func() { s.done(err) })
	}
	return err
}

// tracedJobs logs each message received on a long-lived stream, with the time since the
// last message was sent.
type tracedJobs struct {
	grpc.ClientStream
	t      tracer
	method string

	mu   sync.Mutex
	what string    // operation of the last message sent
	sent time.Time // time when the last message was sent
}

// SendMsg implements grpc.ClientStream.
func (l *tracedJobs) SendMsg(m any) error {
	l.mu.Lock()
	l.what, l.sent = jobs(m), time.Now()
	l.mu.Unlock()
	return l.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (l *tracedJobs) RecvMsg(m any) error {
	err := l.ClientStream.RecvMsg(m)
	l.mu.Lock()
	what, sent := l.what, l.sent
	l.mu.Unlock()
	if err == nil {
		l.t.done(l.method+what, sent, nil)
	}
	return err
}

// jobs returns the operation of the first job in a message, for the log. It returns ""
// if the message is not a StoreBatch or has no jobs.
func jobs(m any) string {
	b, ok := m.(*pb.StoreBatch)
	if !ok || len(b.GetJobs()) == 0 {
		return ""
	}
	what := fmt.Sprintf("%T", b.GetJobs()[0].GetOperation())
	return " " + strings.TrimPrefix(what, "*pb.StoreJob_")
}
