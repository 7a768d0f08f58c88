package s3

import (
	"context"
	"errors"
	"io"
	"time"
)

// lateTime is how long a request that changes an object is waited for after
// its caller has cancelled it. Tests change it before they begin.
var lateTime = 10 * time.Second // constant

// outlasting returns a context for a request that changes an object. A server
// that has been sent such a request carries it out even if the connection is
// closed meanwhile, and that may be after the caller has gone on to write the
// object again. So when ctx is cancelled the request gets lateTime to be
// answered. A deadline ends it at once: a server that did not answer before
// it need not answer soon. The caller calls stop when the request is over.
func outlasting(ctx context.Context) (late context.Context, stop func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel()
			return
		}
		timer := time.NewTimer(lateTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { unhook(); cancel() }
}

// untilEnd is a body of which no byte can be read after ctx has ended: a
// request that was not sent whole by then is not carried out.
type untilEnd struct {
	io.ReadSeeker
	ctx context.Context //nolint:containedctx // that of the request
}

// Read implements io.Reader.
func (u untilEnd) Read(p []byte) (int, error) {
	n, err := u.ReadSeeker.Read(p)
	if ended := u.ctx.Err(); n > 0 && ended != nil {
		return 0, ended
	}
	return n, err
}
