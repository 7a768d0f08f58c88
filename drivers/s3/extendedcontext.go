package s3

import (
	"context"
	"errors"
	"io"
	"time"
)

// extraTime limits how long a request that changes an object continues after its caller
// has canceled it. Only tests change it, before they start.
var extraTime = 10 * time.Second // changed only by tests

// extendedContext returns a context for a request that changes an object. A server that
// has received such a request carries it out even if the connection closes, possibly
// after the caller has started to write the object again. If ctx is canceled, the
// request therefore gets extraTime to complete. A deadline of ctx ends the request
// immediately, because a server that missed the request may take long to respond. The
// caller calls stop when the request is done.
func extendedContext(ctx context.Context) (late context.Context, stop func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
			return
		}
		timer := time.NewTimer(extraTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { unhook(); cancel() }
}

// contextBody is a body that cannot be read after ctx is done: the server does not
// carry out a request that was not sent completely.
type contextBody struct {
	io.ReadSeeker
	ctx context.Context //nolint:containedctx // the context has the lifetime of the request
}

// Read implements io.Reader.
func (u contextBody) Read(p []byte) (int, error) {
	n, err := u.ReadSeeker.Read(p)
	if ended := u.ctx.Err(); n > 0 && ended != nil {
		return 0, ended
	}
	return n, err
}
