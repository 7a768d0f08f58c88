package codec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// sizeRecorder provides the codec xor and records the size of the last buffer passed to
// Decode.
type sizeRecorder struct{ length, capacity int }

func (*sizeRecorder) Describe() []driver.Description { return nil }

func (r *sizeRecorder) Open(_ string, _ json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	in.Kind = driver.Blob
	return recordingCodec{r: r}, in, nil
}

type recordingCodec struct {
	xor
	r *sizeRecorder
}

func (c recordingCodec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	c.r.length, c.r.capacity = len(dst), cap(dst)
	return c.xor.Decode(ctx, dst, src)
}

// runSizeRecorder provides the codec of sizeRecorder as a run of one step.
type runSizeRecorder struct{ *sizeRecorder }

func (f runSizeRecorder) OpenPipeline(_ context.Context, _ []driver.Step, in driver.Spec) (driver.Pipeline, []driver.Spec, error) {
	in.Kind = driver.Blob
	return f, []driver.Spec{in}, nil
}

func (f runSizeRecorder) DecodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	for i, j := range jobs {
		dst := make([]byte, j.Limit)
		n, err := recordingCodec{r: f.sizeRecorder}.Decode(ctx, dst, j.Src)
		sink(i, dst[:n], err)
	}
	return nil
}

func (f runSizeRecorder) EncodeMany(ctx context.Context, jobs []driver.Job, sink driver.Sink) error {
	return f.DecodeMany(ctx, jobs, sink)
}

func (runSizeRecorder) Close() error { return nil }

// TestRoomBetweenSteps checks that, for elements of variable length, Job.Limit also
// limits the buffers between steps in proportion, and that the pipeline keeps only small
// buffers after a large chunk.
func TestRoomBetweenSteps(t *testing.T) {
	t.Parallel()
	const size, limit = 1 << 20, 1 << 10
	var local, staged sizeRecorder
	for name, last := range map[string]struct {
		driver.Provider
		*sizeRecorder
	}{"local": {&local, &local}, "staged": {runSizeRecorder{&staged}, &staged}} {
		in := driver.Spec{Kind: driver.Array, DType: dtype.Type{Kind: dtype.VlenBytes}, MaxBytes: size}
		p, err := codec.Open(t.Context(), []driver.Step{{ID: "xor"}, {ID: "last"}}, in, func(id string) (driver.Provider, error) {
			if id == "last" {
				return last.Provider, nil
			}
			return fakes{}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.Close() }()
		for _, c := range []struct{ limit, least, most int }{{0, size, size + size/8}, {limit, limit, limit + limit/8 + 64<<10}} {
			src := noise(limit)
			err := p.DecodeMany(t.Context(), []driver.Job{{Src: src, Limit: int64(c.limit)}}, func(_ int, out []byte, e error) {
				if e != nil || !bytes.Equal(out, src) {
					t.Errorf("%s: decoded %d bytes, %v, or wrong bytes", name, len(out), e)
				}
			})
			if err != nil {
				t.Fatal(name, err)
			}
			if last.length < c.least || last.length > c.most {
				t.Errorf("%s: buffer of %d bytes with the limit %d, want %d to %d", name, last.length, c.limit, c.least, c.most)
			}
		}
		if n := last.capacity; n > size/runtime.GOMAXPROCS(0) && n > limit+limit/8+64<<10 {
			t.Errorf("%s: the pipeline kept a buffer of %d bytes", name, n)
		}
	}
}
