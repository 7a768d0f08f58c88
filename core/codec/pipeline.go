package codec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"sync"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Lookup returns the provider of the codec with the given id. If no provider has the
// codec, the error is of kind ncerr.ErrNoFilter and contains the name of the plugin that
// would provide it.
type Lookup func(id string) (driver.Provider, error)

// MaxSteps is the maximum number of steps of a chain. A filter mask has one bit per
// step.
const MaxSteps = 32

// Pipeline is the opened chain of one array. It is safe for concurrent use, except that
// callers must make no call during or after Close.
type Pipeline struct {
	ids     []string
	specs   []driver.Spec // specs[i] is the input of step i; the last element is the output of the chain
	widest  int64         // largest MaxBytes of specs
	stages  []stage       // stages in encode order
	workers sync.Pool     // elements are *worker
}

// stage is a run of steps [lo, hi) that consists either of codecs in this process or
// of one driver.Pipeline.
type stage struct {
	lo, hi int
	codecs []driver.Codec
	run    driver.Pipeline
}

// Open opens and validates steps, which are in encode order, for chunks described by
// in. For an array of fixed-size elements in.MaxBytes may be 0; Open then computes it
// from the shape and the element size.
//
// Consecutive steps with the same provider value are opened as one run if the
// provider implements driver.PipelineOpener.
//
// The error is of kind ncerr.ErrNoFilter if lookup or a provider does not have a
// codec, ErrInvalid for invalid parameters or specs, and ErrUnsupported if a codec
// does not accept its input. It contains the id and the position of the step.
func Open(ctx context.Context, steps []driver.Step, in driver.Spec, lookup Lookup) (*Pipeline, error) {
	if len(steps) > MaxSteps {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "open codecs", "", "the chain has %d steps, more than the limit of %d", len(steps), MaxSteps)
	}
	if err := complete(&in); err != nil {
		return nil, err
	}
	p := &Pipeline{specs: append(make([]driver.Spec, 0, len(steps)+1), in), widest: in.MaxBytes}
	providers := make([]driver.Provider, len(steps))
	for i, s := range steps {
		pr, err := lookup(s.ID)
		if err == nil && pr == nil {
			err = ncerr.ErrNoFilter
		}
		if reason, ok := Refused(s.ID); ok && ncerr.KindOf(err) == ncerr.ErrNoFilter {
			err = ncerr.Errorf(ncerr.ErrNoFilter, "", "", "the codec is not supported: %s", reason)
		}
		if err != nil {
			return nil, openError(err, s.ID, i, len(steps))
		}
		providers[i] = pr
		p.ids = append(p.ids, s.ID)
	}
	for lo := 0; lo < len(steps); {
		n, err := p.openStage(ctx, steps, providers, lo)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		lo += n
	}
	return p, nil
}

// openStage opens the stage that starts at step lo and returns the number of steps
// that it opened.
func (p *Pipeline) openStage(ctx context.Context, steps []driver.Step, providers []driver.Provider, lo int) (int, error) {
	pr := providers[lo]
	if opener, ok := pr.(driver.PipelineOpener); ok {
		hi := lo + 1
		for hi < len(steps) && same(pr, providers[hi]) {
			hi++
		}
		run, specs, err := opener.OpenPipeline(ctx, steps[lo:hi], p.specs[lo])
		if err == nil && run == nil {
			err = ncerr.Errorf(ncerr.ErrFilter, "", "", "the provider returned a nil pipeline")
		}
		if err == nil && len(specs) != hi-lo {
			err = ncerr.Errorf(ncerr.ErrFilter, "", "", "the provider returned %d specs for %d steps", len(specs), hi-lo)
			err = errors.Join(err, run.Close())
		}
		if err != nil {
			return 0, p.runError(err, lo, hi, len(steps))
		}
		p.stages = append(p.stages, stage{lo: lo, hi: hi, run: run})
		for i := range specs {
			if err := p.push(specs[i], steps[lo+i].ID, lo+i, len(steps)); err != nil {
				return 0, err
			}
		}
		return hi - lo, nil
	}
	c, out, err := openCodec(pr, steps[lo], p.specs[lo])
	if err != nil {
		return 0, openError(err, steps[lo].ID, lo, len(steps))
	}
	if n := len(p.stages); n > 0 && p.stages[n-1].run == nil {
		p.stages[n-1].codecs = append(p.stages[n-1].codecs, c)
		p.stages[n-1].hi++
	} else {
		p.stages = append(p.stages, stage{lo: lo, hi: lo + 1, codecs: []driver.Codec{c}})
	}
	return 1, p.push(out, steps[lo].ID, lo, len(steps))
}

// openCodec opens a codec with the provider. It turns a panic into an error.
func openCodec(pr driver.Provider, s driver.Step, in driver.Spec) (c driver.Codec, out driver.Spec, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = ncerr.Errorf(ncerr.ErrFilter, "", "", "panic: %v", r)
		}
	}()
	c, out, err = pr.Open(s.ID, s.Params, in)
	if err == nil && c == nil {
		err = ncerr.Errorf(ncerr.ErrFilter, "", "", "the provider returned no codec")
	}
	return c, out, err
}

// push checks the output spec s of step i of n and appends it.
func (p *Pipeline) push(s driver.Spec, id string, i, n int) error {
	if s.MaxBytes < 0 {
		return openError(ncerr.Errorf(ncerr.ErrFilter, "", "", "the output spec has a negative size"), id, i, n)
	}
	if in := p.specs[0].MaxBytes; s.MaxBytes > driver.MaxOutput(in) {
		return openError(ncerr.Errorf(ncerr.ErrLimit, "", "", "the output spec allows %d bytes for a chunk of %d bytes, more than the limit of %d", s.MaxBytes, in, driver.MaxOutput(in)), id, i, n)
	}
	p.specs = append(p.specs, s)
	p.widest = max(p.widest, s.MaxBytes)
	return nil
}

func openError(err error, id string, i, n int) error {
	if ncerr.IsContext(err) {
		return err
	}
	kind := ncerr.KindOf(err)
	if kind == ncerr.ErrIO {
		kind = ncerr.ErrFilter
	}
	var e *ncerr.Error
	if errors.As(err, &e) && e.Key == id && (e.Kind == ncerr.ErrNoFilter || e.Op == opOpen) && e.Err != nil {
		err = e.Err // err would repeat the id of the codec
	}
	if n > 1 && i >= 0 {
		err = fmt.Errorf("step %d of %d: %w", i+1, n, err)
	}
	return ncerr.New(kind, opOpen, id, err)
}

// opOpen is the operation of errors from opening a codec. Implementations of
// driver.PipelineOpener also use it. The key of such an error is the id of the step that
// could not be opened.
const opOpen = "open codec"

// runError is like openError for a run of steps [lo, hi) of n. It adds the id of the
// step that failed, without a step number if several steps have the same id.
func (p *Pipeline) runError(err error, lo, hi, n int) error {
	var e *ncerr.Error
	if !errors.As(err, &e) || e.Op != opOpen {
		return openError(err, p.name(lo, hi), lo, n)
	}
	at := -1
	for i, id := range p.ids[lo:hi] {
		switch {
		case id != e.Key:
		case at >= 0:
			return openError(err, id, -1, n)
		default:
			at = lo + i
		}
	}
	if at < 0 {
		return openError(err, p.name(lo, hi), lo, n)
	}
	return openError(err, p.ids[at], at, n)
}

// same reports whether two providers are equal. It returns false if they cannot be
// compared.
func same(a, b driver.Provider) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// complete checks in and sets MaxBytes for an array of fixed-size elements.
func complete(in *driver.Spec) error {
	if in.MaxBytes < 0 {
		return ncerr.Errorf(ncerr.ErrInvalid, "open codecs", "", "negative chunk size %d", in.MaxBytes)
	}
	if in.Kind != driver.Array || !in.DType.Fixed() {
		return nil
	}
	size := uint64(in.DType.Size) // positive, because the type is fixed
	for _, n := range in.Shape {
		if n < 0 {
			return ncerr.Errorf(ncerr.ErrInvalid, "open codecs", "", "negative length in chunk shape %v", in.Shape)
		}
		hi, lo := bits.Mul64(size, uint64(n))
		if hi != 0 || lo > math.MaxInt64 {
			return ncerr.Errorf(ncerr.ErrLimit, "open codecs", "", "the size of a chunk of shape %v overflows int64", in.Shape)
		}
		size = lo
	}
	if in.MaxBytes != 0 && uint64(in.MaxBytes) != size {
		return ncerr.Errorf(ncerr.ErrInvalid, "open codecs", "", "chunk shape %v of %v has %d bytes, not %d", in.Shape, in.DType, size, in.MaxBytes)
	}
	in.MaxBytes = int64(size)
	return nil
}

// DecodedSize returns the size of a decoded chunk in bytes. It is exact for arrays of
// fixed-size elements and an upper limit otherwise.
func (p *Pipeline) DecodedSize() int64 { return p.specs[0].MaxBytes }

// MaxEncoded returns the maximum size of an encoded chunk in bytes.
func (p *Pipeline) MaxEncoded() int64 { return p.specs[len(p.specs)-1].MaxBytes }

// Specs returns the specs along the chain in encode order: first the input, then the
// output of each step. The caller owns the slice but must not change the shapes and
// fill values in it.
func (p *Pipeline) Specs() []driver.Spec { return append([]driver.Spec(nil), p.specs...) }

// Empty reports whether the chain has no steps. If so, encoded and decoded bytes are
// equal.
func (p *Pipeline) Empty() bool { return len(p.ids) == 0 }

// Close closes the runs of the chain. The Pipeline must not be used afterwards.
func (p *Pipeline) Close() error {
	var errs []error
	for i := range p.stages {
		if run := p.stages[i].run; run != nil {
			errs = append(errs, run.Close())
		}
	}
	return errors.Join(errs...)
}

// exact reports whether all decoded chunks have the same size.
func (p *Pipeline) exact() bool {
	return p.specs[0].Kind == driver.Array && p.specs[0].DType.Fixed()
}
