// Package codecsuite is the conformance suite of filters: what every
// implementation of core/codec/driver must do, in this process or in a plugin.
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, codecsuite.Suite(), &codecsuite.Target{Provider: mine.Provider(), ID: "mine"})
//	}
//
// Below it are package conformance, the engine, and core/codec/driver; test
// packages and nczctl import it.
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

// The capabilities that checks need.
const (
	CapEncode   = "encode"
	CapBoth     = "both directions"
	CapExact    = "exact" // both directions, and nothing is lost
	CapPipeline = "pipeline"
	CapInvalid  = "invalid parameters given"
	CapExamples = "examples given"
	CapKnown    = "known format"                     // the suite has examples of the id
	CapDetects  = "detects damage"                   // Target.Detects, or an id whose format has a checksum
	CapMeasured = "measured"                         // Target.Usage is there
	CapRestart  = "restarts with several parameters" // Target.Restart is there, and Params has two
)

// Target is one filter of a provider. Provider and ID are needed, the rest
// has defaults.
type Target struct {
	Provider driver.Provider
	// ID is the id to open.
	ID string
	// Params are sets of parameters to check with; empty is {} alone.
	Params []json.RawMessage
	// Invalid are sets of parameters that must be refused with
	// ncerr.ErrInvalid.
	Invalid []json.RawMessage
	// Examples are values of another implementation that must be decoded as
	// they say; see [ReadExamples].
	Examples []Example
	// Types are the element types to check with; empty is a list of integers,
	// floats, bool and text of variable length, which has the values Words.
	// Types that the filter refuses with ErrUnsupported are left out.
	Types []dtype.Type
	// Exact says that nothing is lost of Types, whatever the description of the
	// filter says of others, such as floats of which it takes differences. The
	// types of the list are checked too then.
	Exact bool
	// Detects says that the encoded form has a checksum with which decoding
	// finds every flipped bit of a value. Of codecs of numcodecs it is known.
	Detects bool
	// Usage, for a filter in a process of its own, measures what the process
	// holds.
	Usage func() (conformance.Usage, error)
	// Restart, for a filter in a process of its own, ends that process; what is
	// opened next is in a fresh one.
	Restart func() error
}

var _ conformance.Target[*Env] = (*Target)(nil)

// TargetName gives the id.
func (t *Target) TargetName() string { return t.ID }

// TargetCapabilities gives what the description of the filter declares.
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

// exact reports whether decoding returns what was encoded.
func (t *Target) exact() bool {
	d := t.description()
	return d.Encode && d.Decode && (!d.Lossy || t.Exact)
}

// exactFor reports whether decoding returns what was encoded for elements of typ. A
// lossy filter is exact only for the types in t.Types.
func (t *Target) exactFor(typ dtype.Type) bool {
	return t.exact() && (!t.description().Lossy || slices.Contains(t.Types, typ))
}

// description is what the provider says of the filter.
func (t *Target) description() driver.Description {
	for _, d := range t.Provider.Describe() {
		if d.Has(t.ID) {
			return d
		}
	}
	return driver.Description{}
}

// New gives the environment of a check.
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
	if len(e.types) == 0 || t.Exact {
		for _, s := range []string{"|u1", "<i2", ">i2", "<i4", "<f4", ">f4", "<f8", ">f8", "<i8", "<u8", "|b1", "|O", "<f2", "<u4", "<M8[s]"} {
			typ, err := dtype.Parse(s)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(e.types, typ) {
				e.types = append(e.types, typ)
			}
		}
	}
	return e, nil
}

// Env is what a check works on.
type Env struct {
	target *Target
	params []json.RawMessage
	types  []dtype.Type
	effort effort
	not    []string // types that the filter does not take
}

// effort is how much the checks try that repeat themselves.
type effort struct {
	lengths   []int // numbers of elements: nothing, one, around powers of two, odd
	distances []int // powers of two around which bytes are repeated
	pairs     int   // values that are encoded one after the other
	edges     int   // bytes around which lengths are tried; 0 is none
	large     int   // bytes of a large chunk
	kinds     int   // of data that large chunks have, beside zeros
	promise   []int // numbers of elements that fill the promised size
	truncated int   // cut inputs, at most
	flipped   int   // inputs with a bit flipped, for the first type
	others    int   // the same for each other type
	garbage   int   // random inputs
	absurd    int   // places in the head that get absurd sizes
	places    int   // places anywhere that are overwritten, about
	tiny      int   // encodes and decodes of one small value
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

// opened is a codec for chunks of n elements.
type opened struct {
	driver.Codec
	in, out driver.Spec
	params  json.RawMessage
	lossy   bool
	text    bool               // what it decodes is UTF-8
	nth     int                // place of its type among those that the filter takes
	tries   int                // calls of bad
	large   bool               // few calls of bad, each of which counts
	bads    map[ncerr.Kind]int // errors for bad input
}

// open opens the codec, with a fill value if n is odd. It returns nil if the filter
// does not support the type.
func (e *Env) open(t conformance.T, params json.RawMessage, typ dtype.Type, n int) *opened {
	in := driver.Spec{DType: typ, Shape: []int{n}, MaxBytes: room(typ, n)}
	if n%2 == 1 && typ.Fixed() {
		in.Fill = make([]byte, typ.Size)
	}
	return e.openSpec(t, params, in)
}

func (e *Env) openSpec(t conformance.T, params json.RawMessage, in driver.Spec) *opened {
	c, out, err := e.target.Provider.Open(e.target.ID, params, in)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported {
		e.refused(t, in.DType, err)
		return nil
	}
	if err != nil {
		t.Fatalf("open %s %s for %s: %v", e.target.ID, params, describeSpec(in), err)
	}
	text := in.DType.Kind == dtype.String && e.target.description().Objects == driver.Text
	return &opened{Codec: c, in: in, out: out, params: params, lossy: !e.target.exactFor(in.DType), text: text, bads: map[ncerr.Kind]int{}}
}

// refused notes that the filter does not take typ, for one line at the end of the
// log.
func (e *Env) refused(t conformance.T, typ dtype.Type, err error) {
	if len(e.not) == 0 {
		t.Cleanup(func() { t.Logf("refused: %s; the first because of: %v", strings.Join(e.not, ", "), err) })
	}
	if !slices.Contains(e.not, typ.String()) {
		e.not = append(e.not, typ.String())
	}
}

// outcome is what a message says of err, which may be nil.
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

// smallest is the number of elements from which on a filter must take chunks;
// some work on blocks of elements and refuse less than one.
const smallest = 64

// each calls f with a codec for every set of parameters and type.
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
		t.Errorf("the filter takes none of the types")
	}
}

// first gives a codec for the first type that the filter takes.
func (e *Env) first(t conformance.T, n int) *opened {
	for _, typ := range e.types {
		if c := e.open(t, e.params[0], typ, n); c != nil {
			return c
		}
	}
	t.Fatalf("the filter takes none of the types")
	return nil
}
