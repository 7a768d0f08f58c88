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

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The capabilities that checks need.
const (
	CapEncode   = "encode"
	CapExact    = "exact" // both directions, and nothing is lost
	CapPipeline = "pipeline"
	CapInvalid  = "invalid parameters given"
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
	// Types are the element types to check with; empty is a list of integers,
	// floats, bool and text of variable length, which has the values Words.
	// Types that the filter refuses with ErrUnsupported are left
	// out.
	Types []dtype.Type
}

var _ conformance.Target[*Env] = (*Target)(nil)

// TargetName gives the id.
func (t *Target) TargetName() string { return t.ID }

// TargetCapabilities gives what the description of the filter declares.
func (t *Target) TargetCapabilities(context.Context) ([]string, error) {
	var caps []string
	for _, d := range t.Provider.Describe() {
		if d.ID != t.ID && d.V3 != t.ID {
			continue
		}
		if d.Encode {
			caps = append(caps, CapEncode)
		}
		if d.Encode && d.Decode && !d.Lossy {
			caps = append(caps, CapExact)
		}
	}
	if _, ok := t.Provider.(driver.PipelineOpener); ok {
		caps = append(caps, CapPipeline)
	}
	if len(t.Invalid) > 0 {
		caps = append(caps, CapInvalid)
	}
	return caps, nil
}

// New gives the environment of a check.
func (t *Target) New(conformance.T) (*Env, error) {
	e := &Env{target: t, params: t.Params, types: t.Types}
	if len(e.params) == 0 {
		e.params = []json.RawMessage{json.RawMessage(`{}`)}
	}
	if len(e.types) == 0 {
		for _, s := range []string{"|u1", "<i2", ">i2", "<i4", "<f4", ">f4", "<f8", "<i8", "|b1", "|O"} {
			typ, err := dtype.Parse(s)
			if err != nil {
				return nil, err
			}
			e.types = append(e.types, typ)
		}
	}
	return e, nil
}

// Env is what a check works on.
type Env struct {
	target *Target
	params []json.RawMessage
	types  []dtype.Type
}

// opened is a codec for chunks of n elements.
type opened struct {
	driver.Codec
	in, out driver.Spec
	params  json.RawMessage
}

// open opens the codec; nil stands for a type that the filter does not take.
func (e *Env) open(t conformance.T, params json.RawMessage, typ dtype.Type, n int) *opened {
	in := driver.Spec{DType: typ, Shape: []int{n}, MaxBytes: room(typ, n)}
	c, out, err := e.target.Provider.Open(e.target.ID, params, in)
	if ncerr.KindOf(err) == ncerr.ErrUnsupported {
		t.Logf("%v is refused: %v", typ, err)
		return nil
	}
	if err != nil {
		t.Fatalf("open %s %s for %d elements of %v: %v", e.target.ID, params, n, typ, err)
	}
	return &opened{c, in, out, params}
}

// smallest is the number of elements from which on a filter must take chunks;
// some work on blocks of elements and refuse less than one.
const smallest = 64

// each calls f with a codec for every set of parameters and type.
func (e *Env) each(t conformance.T, n int, f func(c *opened)) {
	done := 0
	for _, p := range e.params {
		for _, typ := range e.types {
			if c := e.open(t, p, typ, n); c != nil {
				f(c)
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
