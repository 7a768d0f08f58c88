// Package driver defines the interface that a filter implements: a [Provider] that
// opens [Codec]s. A filter needs only this package, core/dtype and core/ncerr.
//
// Users never call a Codec directly. Package core/codec builds the pipeline of an array,
// checks every size, and adds the id of the step to errors.
//
// A codec is one step of an array's chain. Open receives the [Spec] of the codec's
// input when encoding and returns the Spec of its output. Element type, fill value
// and all scratch sizes are therefore known, and all parameters are validated, when
// the array is opened.
//
// Elements of fixed size are contiguous. Elements of variable length (dtype.String,
// dtype.VlenBytes) are passed as offsets and data in the layout of [Values]. Object
// codecs such as vlen-utf8 and json2 convert this layout to stored bytes and back.
package driver

import (
	"context"
	"encoding/json"
	"math"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Kind is the kind of data between steps. The values are sent to plugins, so new ones
// are only appended.
type Kind uint8

// The kinds of data between steps.
const (
	Array Kind = iota // an array of elements of type DType with shape Shape
	Blob              // bytes without structure, at most MaxBytes
)

// Order is the layout of elements in memory. The values are sent to plugins, so new
// ones are only appended.
type Order uint8

// The layouts.
const (
	C Order = iota // last dimension varies fastest
	F              // first dimension varies fastest
)

// Spec describes the data of one chunk at one point of a chain.
type Spec struct {
	Kind Kind
	// DType is the element type of an Array. For a Blob it is the element type of the
	// encoded data, because shuffle needs its size, or the zero Type.
	DType dtype.Type
	// Shape is the shape of the chunk if Kind is Array.
	Shape []int
	// Order is the layout of the elements if Kind is Array.
	Order Order
	// MaxBytes is the maximum size of the data in bytes. It is the exact size of an
	// Array of fixed-size elements. For variable-length elements it includes the
	// offsets; see [Values].
	MaxBytes int64
	// Fill is one element with the fill value in DType's byte order, or nil. For a
	// variable-length type it is the bytes of the element.
	Fill []byte
}

// OutputSlack is the part of [MaxOutput] that does not depend on the size of the chunk.
const OutputSlack = 64 << 10

// MaxOutput returns the largest MaxBytes, in bytes, that a pipeline accepts in the output
// Spec of a codec when decoded chunks have at most n bytes. The largest known expansion
// without white space is sevenfold, for bool written as JSON in one list.
func MaxOutput(n int64) int64 {
	const expansion = 32
	if n > (math.MaxInt64-OutputSlack)/expansion {
		return math.MaxInt64
	}
	return n*expansion + OutputSlack
}

// Provider opens codecs. It is safe for concurrent use.
type Provider interface {
	// Describe returns the codecs of the provider.
	Describe() []Description
	// Open opens the codec that has the name id in its description. params are its
	// parameters as stored in the metadata: a JSON object with or without its "id"
	// member, or nil, which is the same as {}.
	//
	// Open must return ncerr.ErrNoFilter for an unknown id, ncerr.ErrInvalid for
	// invalid parameters and ncerr.ErrUnsupported for an unsupported Spec. It must
	// accept the known deviations of existing writers, such as numbers as strings
	// and elementsize 0. Encoding a valid input must never exceed the MaxBytes of the
	// returned Spec.
	Open(id string, params json.RawMessage, in Spec) (Codec, Spec, error)
}

// Codec is one opened step. All methods are safe for concurrent use.
type Codec interface {
	// Encode writes the encoded form of src to dst and returns its length.
	//
	// The caller guarantees that src has at most the MaxBytes of the input Spec, or
	// exactly that size for an Array of fixed-size elements, and that dst and src do not
	// overlap. Encode must write only to dst, and its result must not depend on the
	// previous content of dst. It must return ncerr.ErrShortBuffer if dst is too small;
	// a dst of the output Spec's MaxBytes is always large enough. A long call must stop
	// when ctx is done, and return the error of ctx without a kind.
	Encode(ctx context.Context, dst, src []byte) (int, error)
	// Decode decodes src to dst and returns the length, with the same rules. src is
	// untrusted. Decode must return ncerr.ErrCorrupt for bad input, including input that
	// ends early if the format can detect that, and ncerr.ErrShortBuffer if the output
	// does not fit in dst. It must not crash, hang, read outside src or allocate more
	// than a small multiple of len(dst).
	Decode(ctx context.Context, dst, src []byte) (int, error)
}

// DecodedSizer is an optional interface of a Codec. DecodedSize reads the decoded size
// from the beginning of src without decoding src. The size is untrusted.
type DecodedSizer interface {
	DecodedSize(src []byte) (int64, error)
}

// Step is one codec of a chain: the arguments of Provider.Open without the Spec.
type Step struct {
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params,omitempty"`
}

// PipelineOpener is an optional interface of a Provider. It opens a whole run of
// consecutive steps, so that a chunk crosses a process boundary only once.
type PipelineOpener interface {
	// OpenPipeline opens steps, which are in encode order. It returns the Spec after
	// each step.
	OpenPipeline(ctx context.Context, steps []Step, in Spec) (Pipeline, []Spec, error)
}

// Pipeline is a run of steps that processes batches of chunks. It is safe for
// concurrent use. Close releases it. The caller makes no calls during or after
// Close.
type Pipeline interface {
	// DecodeMany decodes all jobs in any order. It calls sink once for each job, from
	// one goroutine at a time. If DecodeMany returns an error, the jobs for which sink
	// was not called were not completed.
	DecodeMany(ctx context.Context, jobs []Job, sink Sink) error
	// EncodeMany encodes all jobs, with the same rules.
	EncodeMany(ctx context.Context, jobs []Job, sink Sink) error
	Close() error
}

// InputLender is an optional interface of a Pipeline. It lends memory from which the
// pipeline reads input without a copy.
type InputLender interface {
	// LendInput returns n bytes of memory of the pipeline. Until the caller calls
	// release, the caller may fill the memory and pass a prefix of it as Job.Src, for any
	// number of consecutive jobs. The caller must call release once, when no job uses the
	// memory. LendInput returns nil and a nil release if no such memory is available. The
	// caller may then use any memory.
	LendInput(n int64) (mem []byte, release func())
}

// Job is one chunk of a batch.
type Job struct {
	// Src is the input. It must not change until the sink is called.
	Src []byte
	// Dst, if not nil, is memory of the caller for the output. The sink then receives
	// either Dst[:n] or memory that belongs to the Pipeline.
	Dst []byte
	// Limit is the maximum size of the output in bytes. Larger output is
	// ncerr.ErrShortBuffer.
	Limit int64
	// Skip has bit i set if step i of the pipeline, in encode order, was not applied
	// to this chunk (HDF5's filter mask).
	Skip uint32
	// Shared permits output outside Dst in memory that another process can change while
	// the sink reads it. The sink must then only copy the output, and must not interpret
	// it.
	Shared bool
}

// Sink receives the result of job i. out is valid only until sink returns.
type Sink func(i int, out []byte, err error)

// ShortBuffer returns the error for a destination of have bytes that is too small for
// the output.
func ShortBuffer(op string, have int) error {
	return ncerr.Errorf(ncerr.ErrShortBuffer, op, "", "the output has more than the limit of %d bytes", have)
}
