// Package wire converts between the types of this module and the messages of the plugin
// protocol in package pb. Both sides of the protocol use it:
// core/plugin/internal/server and core/plugin/host.
//
// Received messages are untrusted. The FromWire functions check the values that they
// convert.
package wire

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
)

// deadlineSlack is the maximum time by which the deadline of a call may be earlier in the
// plugin than in the host. The deadlines differ because gRPC sends a duration.
const deadlineSlack = 250 * time.Millisecond

// maxText is the maximum length of a string in a message, in bytes.
const maxText = 8 << 10

// ErrTransport is in the chain of an ncerr.ErrPlugin if the connection is lost or the
// process has exited.
var ErrTransport = errors.New("connection to the plugin lost")

// ToDetail returns the detail for err, which must not be nil. A context error becomes
// ncerr.ErrIO; see [Status] for errors of the caller's context.
func ToDetail(err error) *pb.ErrorDetail {
	d := &pb.ErrorDetail{Kind: uint32(ncerr.KindOf(err))}
	retryable, after := ncerr.Retry(err)
	d.Retryable, d.RetryAfterNanos = retryable, max(0, after.Nanoseconds())
	switch e := err.(type) { //nolint:errorlint // only the outermost error provides op and key
	case *ncerr.Error:
		d.Op, d.Key = Text(e.Op), []byte(e.Key)
		if e.Err != nil {
			d.Message = Text(e.Err.Error())
		}
	case ncerr.Kind:
	default:
		d.Message = Text(err.Error())
	}
	if d.Kind == 0 {
		d.Kind = uint32(ncerr.ErrIO)
	}
	return d
}

// FromDetail returns the error for d. An unknown kind becomes ncerr.ErrOther. For a nil
// d it returns ncerr.ErrPlugin.
func FromDetail(d *pb.ErrorDetail) error {
	if d == nil {
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin reported an error without details")
	}
	e := &ncerr.Error{
		Kind:       ncerr.ErrOther,
		Op:         Text(d.GetOp()),
		Key:        string(d.GetKey()),
		Retryable:  d.GetRetryable(),
		RetryAfter: time.Duration(max(0, d.GetRetryAfterNanos())),
	}
	if k := d.GetKind(); k <= 1<<16-1 && ncerr.Kind(k).Known() {
		e.Kind = ncerr.Kind(k)
	}
	if m := Text(d.GetMessage()); m != "" {
		e.Err = errors.New(m)
	}
	return e
}

// Status returns the gRPC error for err in a handler with the context ctx. If ctx has
// ended, a context error becomes a status without a detail. Otherwise the driver caused
// it, and it becomes ncerr.ErrIO.
func Status(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ncerr.IsContext(err) && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	d := ToDetail(err)
	st := status.New(codes.Code(ncerr.Kind(d.GetKind()).GRPC()), Text(err.Error()))
	if with, e := st.WithDetails(d); e == nil {
		st = with
	}
	return st.Err()
}

// FromStatus converts the error from a gRPC call made with ctx. If ctx is done, it
// returns ctx's error. A status without a detail becomes ncerr.ErrPlugin, which also
// matches [ErrTransport] if the connection is lost.
func FromStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	st, ok := status.FromError(err)
	if !ok {
		return ncerr.New(ncerr.ErrPlugin, "", "", errors.Join(err, ErrTransport))
	}
	for _, d := range st.Details() {
		if detail, ok := d.(*pb.ErrorDetail); ok {
			return FromDetail(detail)
		}
	}
	message := Text(st.Message())
	switch st.Code() {
	case codes.DeadlineExceeded:
		if end, ok := ctx.Deadline(); ok && time.Until(end) < deadlineSlack {
			return context.DeadlineExceeded
		}
		return ncerr.Errorf(ncerr.ErrIO, "", "", "a call timed out in the plugin: %s", message)
	case codes.Unavailable, codes.Canceled:
		return ncerr.New(ncerr.ErrPlugin, "", "", &transportError{message})
	case codes.Unimplemented:
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin does not implement a method of the protocol: %s", message)
	case codes.ResourceExhausted:
		return ncerr.Errorf(ncerr.ErrPlugin, "", "", "a message is longer than the protocol allows: %s", message)
	}
	return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin returned %s without details: %s", st.Code(), message)
}

// transportError matches ErrTransport and contains gRPC's message.
type transportError struct{ message string }

func (e *transportError) Error() string        { return ErrTransport.Error() + ": " + e.message }
func (e *transportError) Is(target error) bool { return target == ErrTransport }

// Text returns s as valid UTF-8 of limited length without control characters, as
// protobuf strings, logs and terminals require.
func Text(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + " ..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
