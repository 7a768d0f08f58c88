package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Base implements every method of Map by returning ncerr.ErrUnsupported, except that
// Flush and Close do nothing. Drivers embed Base to omit methods that they do not
// support, and to compile unchanged when Map gains methods.
type Base struct{}

var _ Map = Base{}

func unsupported(op, key string) error {
	return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the store does not support %s", op)
}

// Capabilities returns the zero value, which declares no capability.
func (Base) Capabilities() Capabilities { return Capabilities{} }

// Get returns ncerr.ErrUnsupported.
func (Base) Get(_ context.Context, key string, _ *GetOptions, _ Alloc) ([]byte, Info, error) {
	return nil, Info{}, unsupported("get", key)
}

// Stat returns ncerr.ErrUnsupported.
func (Base) Stat(_ context.Context, key string) (Info, error) {
	return Info{}, unsupported("stat", key)
}

// Put returns ncerr.ErrUnsupported.
func (Base) Put(_ context.Context, key string, _ Body, _ *PutOptions) (Info, error) {
	return Info{}, unsupported("put", key)
}

// Delete returns ncerr.ErrUnsupported.
func (Base) Delete(_ context.Context, key string, _ *DeleteOptions) error {
	return unsupported("delete", key)
}

// List yields ncerr.ErrUnsupported.
func (Base) List(_ context.Context, prefix string, _ *ListOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) { yield(Entry{}, unsupported("list", prefix)) }
}

// Flush does nothing.
func (Base) Flush(context.Context) error { return nil }

// Close does nothing.
func (Base) Close(context.Context) error { return nil }

// DecodeOptions decodes a driver's options into cfg, a pointer to a struct with json
// tags. It fails with ncerr.ErrInvalid for an unknown key or a wrong type. Empty options
// leave cfg unchanged.
func DecodeOptions(options []byte, cfg any) error {
	if len(bytes.TrimSpace(options)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(options))
	d.DisallowUnknownFields()
	if err := d.Decode(cfg); err != nil {
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "driver options: %w", err)
	}
	return nil
}

// ReadBody returns the whole content of body. For Bytes it returns the slice itself,
// otherwise a copy.
func ReadBody(body Body) ([]byte, error) {
	if b, ok := body.(Bytes); ok {
		return b, nil
	}
	p := make([]byte, body.Size())
	_, err := io.ReadFull(io.NewSectionReader(body, 0, body.Size()), p)
	return p, err
}
