package writers

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// handle is a dataset that a writer has opened, in this process or in another one.
type handle interface {
	// read returns the shape and the values of a variable.
	read(ctx context.Context, path string) (shape []int64, values []int32, err error)
	shape(ctx context.Context, path string) ([]int64, error)
	write(ctx context.Context, path string, sel chunk.Selection, values []int32) error
	setAttr(ctx context.Context, name string) error
	refresh(ctx context.Context) error
	flush(ctx context.Context) error
	close(ctx context.Context) error
	abort(ctx context.Context) error
	// interrupt calls f before the given number of requests from now, counted from 1. Any
	// other number cancels that.
	interrupt(request int64, f func())
	// kill ends the process, if the writer has one of its own.
	kill()
}

// local is a dataset in this process.
type local struct {
	ds      *dataset.Dataset
	hook    *hook
	killing func(*dataset.Dataset)
}

func (l *local) read(ctx context.Context, path string) (shape []int64, values []int32, err error) {
	v, err := l.ds.Root().Var(path)
	if err != nil {
		return nil, nil, err
	}
	shape = v.Shape()
	values = make([]int32, chunk.Product(shape))
	return shape, values, v.Read(ctx, v.All(), values)
}

func (l *local) shape(_ context.Context, path string) ([]int64, error) {
	v, err := l.ds.Root().Var(path)
	if err != nil {
		return nil, err
	}
	return v.Shape(), nil
}

func (l *local) write(ctx context.Context, path string, sel chunk.Selection, values []int32) error {
	v, err := l.ds.Root().Var(path)
	if err != nil {
		return err
	}
	return v.Write(ctx, sel, values)
}

func (l *local) setAttr(_ context.Context, name string) error {
	return l.ds.Root().SetAttr(dataset.Attr{Name: name, Type: dtype.NCInt, Value: []int32{1}})
}

func (l *local) refresh(context.Context) error {
	l.ds.Refresh()
	return nil
}

func (l *local) flush(ctx context.Context) error { return l.ds.Flush(ctx) }
func (l *local) close(ctx context.Context) error { return l.ds.Close(ctx) }
func (l *local) abort(ctx context.Context) error { return l.ds.Abort(ctx) }

func (l *local) interrupt(request int64, f func()) {
	l.hook.f = f
	l.hook.in.Store(request)
}

func (l *local) kill() {
	if l.killing != nil {
		l.killing(l.ds)
	}
}
