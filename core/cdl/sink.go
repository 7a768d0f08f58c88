package cdl

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// sink is a buffered writer with a sticky error. After an error all output is discarded,
// and err and flush return the error.
type sink struct{ w *bufio.Writer }

// newSink returns a sink that fails when ctx is done.
func newSink(ctx context.Context, w io.Writer) sink {
	return sink{bufio.NewWriterSize(&interruptible{ctx, w}, 64<<10)}
}

// interruptible is a writer that fails when its context is done.
type interruptible struct {
	ctx context.Context //nolint:containedctx // the context has the lifetime of one Write
	w   io.Writer
}

func (i *interruptible) Write(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.w.Write(p)
}

func (s sink) str(text string) { _, _ = s.w.WriteString(text) } // the error is sticky

func (s sink) raw(text []byte) { _, _ = s.w.Write(text) } // the error is sticky

func (s sink) char(c byte) { _ = s.w.WriteByte(c) } // the error is sticky

func (s sink) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.w, format, args...) // the error is sticky
}

// pad writes n spaces.
func (s sink) pad(n int) {
	for range n {
		s.char(' ')
	}
}

// err returns the first error from the writer.
func (s sink) err() error {
	_, err := s.w.Write(nil)
	return ncerr.Wrap("write cdl", "", err)
}

// flush writes the buffered text.
func (s sink) flush() error { return ncerr.Wrap("write cdl", "", s.w.Flush()) }
