// Package driver is the interface that a filter implements: a [Provider] that
// opens [Codec]s. Authors compile against this package, core/dtype and
// core/ncerr and nothing else.
//
// Users never call a Codec directly: core/codec builds the pipeline of an
// array, checks every size, and names the step in errors.
//
// A codec is one step of an array's chain. Its place in the chain is told by
// specs: the [Spec] of what goes in when encoding is given to Open, and Open
// returns the Spec of what comes out. So element type, fill value and every
// scratch size are known, and every parameter is validated, when the array is
// opened.
//
// Elements of fixed size lie one after the other. Elements of variable length
// (dtype.String, dtype.VlenBytes) travel as offsets plus data in the layout of
// [Values], which object codecs such as vlen-utf8 and json2 turn into the
// bytes of the store and back.
package driver

import (
	"context"
	"encoding/json"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Kind says what one side of a codec carries. Wire values: append only.
type Kind uint8

// The kinds of data between steps.
const (
	Array Kind = iota // elements of DType in shape Shape
	Blob              // bytes without structure, at most MaxBytes
)

// Order is the layout of elements in memory. Wire values: append only.
type Order uint8

// The layouts.
const (
	C Order = iota // last dimension varies fastest
	F              // first dimension varies fastest
)

// Spec describes the data of one chunk at one point of a chain.
type Spec struct {
	Kind Kind
	// DType is the element type when Kind is Array; for a Blob it is the type
	// the bytes were made of (shuffle needs its size), or the zero Type.
	DType dtype.Type
	// Shape is the chunk's shape when Kind is Array.
	Shape []int
	// Order is the layout of the elements when Kind is Array.
	Order Order
	// MaxBytes is the largest size in bytes of the data here: exact for an
	// Array of fixed-size elements, a ceiling otherwise (of offsets and data
	// together where elements have variable length, see [Values]).
	MaxBytes int64
	// Fill is one element of fill value in DType's byte order, or nil; of
	// variable length it is the bytes of the element.
	Fill []byte
}

// Provider opens codecs. It is safe for concurrent use.
type Provider interface {
	// Describe gives the codecs that the provider has.
	Describe() []Description
	// Open makes the codec with the given id, from its parameters as they
	// stand in the metadata (a JSON object, with or without its "id" member;
	// nil is the same as {}).
	//
	// Implementations must: return ncerr.ErrNoFilter for an id they do not
	// have, ncerr.ErrInvalid for parameters that cannot work and
	// ncerr.ErrUnsupported for a Spec they cannot take; accept the known
	// quirks of real writers (numbers as strings, elementsize 0); give in the
	// returned Spec a MaxBytes that encoding any valid input never exceeds.
	Open(id string, params json.RawMessage, in Spec) (Codec, Spec, error)
}

// Codec is one opened step. All methods are safe for concurrent use.
type Codec interface {
	// Encode writes the encoded form of src to dst and gives its length.
	//
	// Callers guarantee: src has at most the MaxBytes of the input Spec
	// (exactly, for an Array); dst and src do not overlap.
	// Implementations must: write only into dst, and give the same result
	// whatever it held; return ncerr.ErrShortBuffer when dst is too small,
	// never grow it; stop when ctx ends if they take long. dst of the output
	// Spec's MaxBytes always suffices.
	Encode(ctx context.Context, dst, src []byte) (int, error)
	// Decode is the reverse, with the same rules. src is untrusted: bad input is
	// ncerr.ErrCorrupt, output that does not fit in dst is
	// ncerr.ErrShortBuffer, and neither may crash, hang, read outside src or
	// allocate more than a small multiple of len(dst).
	Decode(ctx context.Context, dst, src []byte) (int, error)
}

// DecodedSizer is an optional ability of a Codec: tell the decoded size from
// the head of the encoded bytes, without decoding. The size is untrusted.
type DecodedSizer interface {
	DecodedSize(src []byte) (int64, error)
}

// Step is one codec of a run: what Provider.Open takes, without the Spec.
type Step struct {
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params,omitempty"`
}

// PipelineOpener is an optional ability of a Provider: take a whole run of
// consecutive steps at once, so that a chunk crosses a process boundary once
// for all of them.
type PipelineOpener interface {
	// OpenPipeline opens steps in encode order. It gives the Spec after each
	// step.
	OpenPipeline(ctx context.Context, steps []Step, in Spec) (Pipeline, []Spec, error)
}

// Pipeline is a run of steps that is called with batches of chunks. It is
// safe for concurrent use. Close releases it; no call is made during or after
// Close.
type Pipeline interface {
	// DecodeMany decodes all jobs, in any order, and calls sink once for each
	// from one goroutine at a time. The error is for the call as a whole:
	// after it, jobs whose sink was not called have not been done.
	DecodeMany(ctx context.Context, jobs []Job, sink Sink) error
	// EncodeMany is the reverse.
	EncodeMany(ctx context.Context, jobs []Job, sink Sink) error
	Close() error
}

// InputLender is an optional ability of a Pipeline: memory that it reads its
// input from without another copy.
type InputLender interface {
	// LendInput gives n bytes, which the caller may fill and hand in, from
	// their start on, as Job.Src of any number of jobs one after the other,
	// until it calls release, once; no job that has them may be under way then.
	// It gives nil, and no release, when there is none: any memory does.
	LendInput(n int64) (mem []byte, release func())
}

// Job is one chunk of a batch.
type Job struct {
	// Src is the input; it must not change until the sink was called.
	Src []byte
	// Dst, when not nil, is memory of the caller that the output may be
	// written to; the output handed to the sink then is either Dst[:n] or
	// memory lent by the Pipeline.
	Dst []byte
	// Limit is the largest output in bytes; more is ncerr.ErrShortBuffer.
	Limit int64
	// Skip has bit i set when step i of the pipeline (in encode order) was
	// not applied to this chunk (HDF5's filter mask).
	Skip uint32
	// Shared allows the output to be memory that somebody else can change
	// while the sink looks at it, when Dst is not used. The sink then only
	// copies it, and follows nothing that it says.
	Shared bool
}

// Sink takes the result of job i. out is lent until sink returns.
type Sink func(i int, out []byte, err error)

// ShortBuffer is the error for a destination of have bytes that is too small.
func ShortBuffer(op string, have int) error {
	return ncerr.Errorf(ncerr.ErrShortBuffer, op, "", "output is longer than the %d bytes it may have", have)
}
