package codec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// fakes provides codecs with one special behavior each.
type fakes struct{}

func (fakes) Describe() []driver.Description { return nil }

func (f fakes) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	out := in
	out.Kind = driver.Blob
	switch id {
	case "tag": // appends one byte when encoding, and checks the byte when decoding
		var p struct{ Byte byte }
		if err := json.Unmarshal(params, &p); err != nil {
			return nil, out, ncerr.New(ncerr.ErrInvalid, "", "", err)
		}
		out.MaxBytes++
		return tag(p.Byte), out, nil
	case "xor":
		out.Kind = in.Kind
		return xor{}, out, nil
	case "panic", "liar", "raw", "bomb", "late":
		return rogue(id), out, nil
	case "openpanic":
		panic("in open")
	case "nil":
		return nil, out, nil
	case "negative":
		out.MaxBytes = -1
		return xor{}, out, nil
	case "endless":
		out.MaxBytes = 1 << 62
		return xor{}, out, nil
	}
	return nil, out, ncerr.Errorf(ncerr.ErrNoFilter, "", "", "no such fake")
}

type tag byte

func (t tag) Encode(_ context.Context, dst, src []byte) (int, error) {
	if len(dst) < len(src)+1 {
		return 0, driver.ShortBuffer("", len(dst))
	}
	copy(dst, src)
	dst[len(src)] = byte(t)
	return len(src) + 1, nil
}

func (t tag) Decode(_ context.Context, dst, src []byte) (int, error) {
	if len(src) == 0 || src[len(src)-1] != byte(t) {
		return 0, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "tag %q is missing", byte(t))
	}
	if len(dst) < len(src)-1 {
		return 0, driver.ShortBuffer("", len(dst))
	}
	return copy(dst, src[:len(src)-1]), nil
}

type xor struct{}

func (xor) Encode(_ context.Context, dst, src []byte) (int, error) {
	if len(dst) < len(src) {
		return 0, driver.ShortBuffer("", len(dst))
	}
	for i, b := range src {
		dst[i] = b ^ 0x55
	}
	return len(src), nil
}

func (x xor) Decode(ctx context.Context, dst, src []byte) (int, error) {
	return x.Encode(ctx, dst, src)
}

type rogue string

var errRaw = errors.New("raw failure")

func (r rogue) do(dst []byte) (int, error) {
	switch r {
	case "panic":
		var a []int
		return a[len(dst)], nil
	case "liar":
		return len(dst) + 1, nil
	case "bomb":
		return 0, driver.ShortBuffer("", len(dst))
	case "late":
		return 0, context.DeadlineExceeded
	}
	return 0, errRaw
}

func (r rogue) Encode(_ context.Context, dst, _ []byte) (int, error) { return r.do(dst) }
func (r rogue) Decode(_ context.Context, dst, _ []byte) (int, error) { return r.do(dst) }

// runFakes provides the same codecs in runs. Their output is in memory that the run
// reuses.
type runFakes struct {
	name      string
	calls     *atomic.Int64
	dropsLast bool // does not report the last job
}

func (runFakes) Describe() []driver.Description { return nil }

func (f *runFakes) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	return nil, in, errors.New("OpenPipeline must be called instead of Open")
}

func (f *runFakes) OpenPipeline(ctx context.Context, steps []driver.Step, in driver.Spec) (driver.Pipeline, []driver.Spec, error) {
	p, err := codec.Open(ctx, steps, in, func(string) (driver.Provider, error) { return fakes{}, nil })
	if err != nil {
		return nil, nil, err
	}
	return &fakeRun{f, p, strings.Repeat(".", len(steps))}, p.Specs()[1:], nil
}

type fakeRun struct {
	f     *runFakes
	p     *codec.Pipeline
	steps string
}

func (r *fakeRun) DecodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return r.each(ctx, jobs, sink, r.p.DecodeMany)
}

func (r *fakeRun) EncodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return r.each(ctx, jobs, sink, r.p.EncodeMany)
}

func (r *fakeRun) each(ctx context.Context, jobs []driver.Job, sink driver.Sink, do func(context.Context, []driver.Job, driver.Sink) error) error {
	r.f.calls.Add(1)
	lent := make([]driver.Job, len(jobs))
	for i, j := range jobs {
		j.Dst = nil
		lent[i] = j
	}
	return do(ctx, lent, func(i int, out []byte, err error) {
		if r.f.dropsLast && i == len(jobs)-1 {
			return
		}
		out = bytes.Clone(out)
		sink(i, out, err)
		for k := range out { // the caller must no longer use out
			out[k] = 0xEE
		}
	})
}

func (r *fakeRun) Close() error { return r.p.Close() }

func tagStep(b byte) driver.Step {
	return driver.Step{ID: "tag", Params: json.RawMessage(fmt.Sprintf(`{"Byte": %d}`, b))}
}

func local(string) (driver.Provider, error) { return fakes{}, nil }
