package codec_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// sizePanic is a codec whose DecodedSize panics.
type sizePanic struct{ driver.Codec }

func (sizePanic) DecodedSize([]byte) (int64, error) { panic("in size") }

type sizePanics struct{}

func (sizePanics) Describe() []driver.Description { return nil }

func (sizePanics) Open(_ string, _ json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	in.Kind = driver.Blob
	return sizePanic{xor{}}, in, nil
}

func TestPanicOfDecodedSize(t *testing.T) {
	t.Parallel()
	in := driver.Spec{Kind: driver.Blob, MaxBytes: 64 << 20}
	p, err := codec.Open(t.Context(), []driver.Step{{ID: "x"}}, in, func(string) (driver.Provider, error) { return sizePanics{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	called := p.DecodeMany(t.Context(), []driver.Job{{Src: []byte("abc")}}, func(_ int, _ []byte, e error) { err = e })
	if called != nil || ncerr.KindOf(err) != ncerr.ErrFilter {
		t.Errorf("want ErrFilter for the chunk, got %v, %v", err, called)
	}
}

// noRun is a provider whose OpenPipeline returns a nil Pipeline.
type noRun struct {
	sizePanics
	specs int
}

func (n noRun) OpenPipeline(_ context.Context, _ []driver.Step, in driver.Spec) (driver.Pipeline, []driver.Spec, error) {
	return nil, make([]driver.Spec, n.specs), nil
}

func TestNilRun(t *testing.T) {
	t.Parallel()
	for specs := range 2 {
		in := driver.Spec{Kind: driver.Blob, MaxBytes: 10}
		_, err := codec.Open(t.Context(), []driver.Step{{ID: "x"}}, in, func(string) (driver.Provider, error) { return noRun{specs: specs}, nil })
		if ncerr.KindOf(err) != ncerr.ErrFilter {
			t.Errorf("%d specs: want ErrFilter, got %v", specs, err)
		}
	}
}
