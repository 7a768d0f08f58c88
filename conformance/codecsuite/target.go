// Package codecsuite is the conformance suite of filters. It checks what every
// implementation of core/codec/driver must do, in this process or in a plugin.
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, codecsuite.Suite(), &codecsuite.Target{Provider: mine.Provider(), ID: "mine"})
//	}
//
// The package builds on package conformance, the engine, and on core/codec/driver. Tests
// and nczctl import it.
package codecsuite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The capabilities that checks require.
const (
	CapEncode   = "encode"
	CapBoth     = "both directions"
	CapExact    = "exact" // both directions, and lossless
	CapPipeline = "pipeline"
	CapInvalid  = "invalid parameters given"
	CapExamples = "examples given"
	CapKnown    = "known format"                     // the suite has examples for the id
	CapDetects  = "detects damage"                   // Target.Detects, or an id whose format has a checksum
	CapMeasured = "measured"                         // Target.Usage is set
	CapRestart  = "restarts with several parameters" // Target.Restart is set, and Params has at least two sets
)

// Target is one filter of a provider. Provider and ID are required.
type Target struct {
	Provider driver.Provider
	// ID is the id of the filter.
	ID string
	// Params are the sets of parameters that the checks use. The default is {} alone.
	Params []json.RawMessage
	// Invalid are sets of parameters that Open must refuse with ncerr.ErrInvalid.
	Invalid []json.RawMessage
	// Examples are values encoded by another implementation, which must decode as
	// recorded; see [ReadExamples].
	Examples []Example
	// Types are the element types that the checks use. The default is a list of
	// integers, floats, bool and text of variable length, with the values [Words].
	// Types that the filter refuses with ErrUnsupported are skipped.
	Types []dtype.Type
	// Exact declares that the filter is lossless for Types even if its description says
	// that it is lossy for other types, as delta is for floats. The default types are
	// then checked too.
	Exact bool
	// Detects declares that the encoded form has a checksum with which decoding detects a
	// flipped bit. It need not be set for the codecs of numcodecs.
	Detects bool
	// Usage measures the resources of the filter's process. It is nil for a filter in
	// this process.
	Usage func() (conformance.Usage, error)
	// Restart ends the filter's process; the next Open starts a new one. It is nil for
	// a filter in this process.
	Restart func() error
}

var _ conformance.Target[*Env] = (*Target)(nil)

// TargetName returns the id.
func (t *Target) TargetName() string { return t.ID }

// TargetCapabilities returns the capabilities that the description of the filter and the
// fields of t declare.
func (t *Target) TargetCapabilities(context.Context) ([]string, error) {
	all, err := known()
	if err != nil {
		return nil, err
	}
	var caps []string
	d := t.description()
	if d.Encode {
		caps = append(caps, CapEncode)
	}
	if d.Encode && d.Decode {
		caps = append(caps, CapBoth)
	}
	if t.exact() {
		caps = append(caps, CapExact)
	}
	if len(t.Examples) > 0 {
		caps = append(caps, CapExamples)
	}
	if len(all[t.ID]) > 0 {
		caps = append(caps, CapKnown)
	}
	if t.Detects || checksummed[t.ID] != "" {
		caps = append(caps, CapDetects)
	}
	if _, ok := t.Provider.(driver.PipelineOpener); ok {
		caps = append(caps, CapPipeline)
	}
	if len(t.Invalid) > 0 {
		caps = append(caps, CapInvalid)
	}
	if t.Usage != nil {
		caps = append(caps, CapMeasured)
	}
	if t.Restart != nil && len(t.Params) > 1 {
		caps = append(caps, CapRestart)
	}
	return caps, nil
}

// exact reports whether decoding returns the encoded value unchanged.
func (t *Target) exact() bool {
	d := t.description()
	return d.Encode && d.Decode && (!d.Lossy || t.Exact)
}

// exactFor reports whether decoding returns elements of typ unchanged. A lossy filter is
// exact only for the types in t.Types.
func (t *Target) exactFor(typ dtype.Type) bool {
	return t.exact() && (!t.description().Lossy || slices.Contains(t.Types, typ))
}

// description returns the provider's description of the filter.
func (t *Target) description() driver.Description {
	for _, d := range t.Provider.Describe() {
		if d.Has(t.ID) {
			return d
		}
	}
	return driver.Description{}
}

// New returns the environment of a check.
func (t *Target) New(c conformance.T) (*Env, error) {
	e := &Env{target: t, params: t.Params, types: slices.Clone(t.Types), effort: full}
	switch c.Effort() {
	case conformance.Brief:
		e.effort = brief
	case conformance.Thorough:
		e.effort = thorough
	}
	if len(e.params) == 0 {
		e.params = []json.RawMessage{json.RawMessage(`{}`)}
	}
	e.allTypes = slices.Clone(e.types)
	for _, s := range []string{"|u1", "<i2", ">i2", "<i4", "<f4", ">f4", "<f8", ">f8", "<i8", "<u8", "|b1", "|O", "<f2", "<u4", "<M8[s]"} {
		typ, err := dtype.Parse(s)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(e.allTypes, typ) {
			e.allTypes = append(e.allTypes, typ)
		}
	}
	if len(e.types) == 0 || t.Exact {
		e.types = e.allTypes
	}
	return e, nil
}

// Env is the environment of one check.
type Env struct {
	target   *Target
	params   []json.RawMessage
	types    []dtype.Type
	allTypes []dtype.Type // types and the default types
	effort   effort
	rejected []string // types that the filter refused
}

// effort sets how many variations the checks try.
type effort struct {
	lengths   []int // numbers of elements: zero, one, around powers of two, odd
	distances []int // exponents of the powers of two near which bytes are repeated
	pairs     int   // number of values encoded one after the other
	edges     int   // size in bytes around which lengths are tried; 0 to skip them
	large     int   // size of a large chunk in bytes
	kinds     int   // number of patterns of large chunks, besides zeros
	promise   []int // numbers of elements encoded into the promised size
	truncated int   // maximum number of truncated inputs
	flipped   int   // number of inputs with one bit flipped, for the first type
	others    int   // number of inputs with one bit flipped, for each other type
	garbage   int   // number of random inputs
	absurd    int   // number of offsets in the header at which absurd sizes are written
	places    int   // approximate number of offsets at which bytes are overwritten
	tiny      int   // number of times that one small value is encoded and decoded
}

var (
	full = effort{
		lengths:   []int{0, 1, 2, 7, 8, 9, 31, 32, 33, 127, 128, 129, 257, 1000, 1025, 4099},
		distances: []int{8, 10, 11, 12, 13, 14, 15, 16, 17, 18}, pairs: 300, edges: 64 << 10, large: 4 << 20, kinds: 1, promise: []int{0, 1, 100, 70_000},
		truncated: 1 << 20, flipped: 2000, others: 300, garbage: 300, absurd: 24, places: 64, tiny: 3000,
	}
	brief = effort{
		lengths: []int{0, 1, 33, 4099}, distances: []int{8, 13, 15, 16}, pairs: 20, large: 3 << 19, kinds: 1, promise: []int{0, 100, 5000},
		truncated: 12, flipped: 60, others: 12, garbage: 20, absurd: 4, places: 4,
	}
	thorough = func() effort { e := full; e.kinds, e.tiny = len(patterns)-1, 70_000; return e }()
)

// opened is a codec that was opened for the Spec in. out is the Spec that Open
// returned.
type opened struct {
	driver.Codec
	in, out driver.Spec
	params  json.RawMessage
	lossy   bool
	text    bool               // decoded values are UTF-8
	nth     int                // index of the type among the supported types
	tries   int                // number of calls to decodeDamaged
	large   bool               // decodeDamaged decodes every input again, not only one in five
	bads    map[ncerr.Kind]int // number of errors for damaged input by kind
}

// open opens the codec for n elements of typ. If n is odd, the Spec has a fill value,
// which may be a NaN with a payload for float and double. It returns nil if the filter
// does not support the type.
func (e *Env) open(t conformance.T, params json.RawMessage, typ dtype.Type, n int) *opened {
	in := driver.Spec{DType: typ, Shape: []int{n}, MaxBytes: room(typ, n)}
	if n%2 == 1 && !typ.Fixed() {
		in.Fill = []byte(words[3][:2]) // shares its start with an element
	} else if n%2 == 1 {
		in.Fill = make([]byte, typ.Size)
		if nan := special(typ)[1]; n%4 == 3 && typ.Kind == dtype.Float && typ.Size >= 4 {
			putBits(typ, in.Fill, nan)
		}
	}
	return e.openSpec(t, params, in)
}

// tryOpen opens the codec for in and returns the error of Open.
func (e *Env) tryOpen(params json.RawMessage, in driver.Spec) (*opened, error) {
	c, out, err := e.target.Provider.Open(e.target.ID, params, in)
	if err != nil {
		return nil, err
	}
	text := in.DType.Kind == dtype.String && e.target.description().Objects == driver.Text
	return &opened{Codec: c, in: in, out: out, params: params, lossy: !e.target.exactFor(in.DType), text: text, bads: map[ncerr.Kind]int{}}, nil
}

func (e *Env) openSpec(t conformance.T, params json.RawMessage, in driver.Spec) *opened {
	c, err := e.tryOpen(params, in)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported {
		e.refused(t, in.DType, err)
		return nil
	}
	if err != nil {
		t.Fatalf("open %s %s for %s: %v", e.target.ID, params, describeSpec(in), err)
	}
	return c
}

// refused records that the filter refused typ. One line at the end of the log lists all
// refused types.
func (e *Env) refused(t conformance.T, typ dtype.Type, err error) {
	if len(e.rejected) == 0 {
		t.Cleanup(func() { t.Logf("unsupported types: %s; first error: %v", strings.Join(e.rejected, ", "), err) })
	}
	if !slices.Contains(e.rejected, typ.String()) {
		e.rejected = append(e.rejected, typ.String())
	}
}

// outcome returns the message of err, or "no error".
func outcome(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func describeSpec(s driver.Spec) string {
	if s.Kind == driver.Blob {
		return fmt.Sprintf("at most %d bytes made of %v", s.MaxBytes, s.DType)
	}
	return fmt.Sprintf("%v elements of %v", s.Shape, s.DType)
}

// smallest is the number of elements that every filter must accept. Some filters work on
// blocks and refuse less than one block.
const smallest = 64

// each calls f with a codec for every set of parameters and every supported type.
func (e *Env) each(t conformance.T, n int, f func(c *opened)) {
	done := 0
	for _, p := range e.params {
		nth := 0
		for _, typ := range e.types {
			if c := e.open(t, p, typ, n); c != nil {
				c.nth = nth
				f(c)
				nth++
				done++
			}
		}
	}
	if done == 0 && n >= smallest {
		t.Errorf("the filter does not support any of the tested types")
	}
}

// telling returns a codec for the first floating-point type for which the filter is lossy,
// because its parameters may not matter for other types. It is like first if there is no such
// type.
func (e *Env) telling(t conformance.T, n int) *opened {
	for _, typ := range e.allTypes {
		if typ.Kind == dtype.Float && !e.target.exactFor(typ) {
			if c := e.open(t, e.params[0], typ, n); c != nil {
				return c
			}
		}
	}
	return e.first(t, n)
}

// first returns a codec for the first type that the filter supports.
func (e *Env) first(t conformance.T, n int) *opened {
	for _, typ := range e.types {
		if c := e.open(t, e.params[0], typ, n); c != nil {
			return c
		}
	}
	t.Fatalf("the filter does not support any of the tested types")
	return nil
}
