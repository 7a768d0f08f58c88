package codecsuite

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// members maps the names of parameters to their values.
type members map[string]json.RawMessage

// with returns the parameters as JSON with name set to value, or without name if value is
// empty.
func (m members) with(t conformance.T, name, value string) json.RawMessage {
	m = maps.Clone(m)
	delete(m, name)
	if value != "" {
		m[name] = json.RawMessage(value)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("parameter %s of %s: %v", name, value, err)
	}
	return b
}

// members parses one set of parameters.
func (e *Env) members(t conformance.T, params json.RawMessage) members {
	var m members
	if err := json.Unmarshal(params, &m); err != nil || m == nil {
		t.Fatalf("parameters %s are not an object: %s", params, outcome(err))
	}
	return m
}

// paramsDescribed changes the parameters of the first set, one at a time, to values
// that the description allows and to values that the description excludes.
func paramsDescribed(t conformance.T, e *Env) {
	d := e.target.description()
	if d.Transform == driver.Unstated {
		t.Skipf("the plugin uses an old protocol, which does not describe parameters")
	}
	c := e.telling(t, many)
	src, all := c.data(many, "smooth", t.Seed()), e.members(t, e.params[0])
	refused := func(params json.RawMessage, why string) {
		if _, _, err := e.target.Provider.Open(e.target.ID, params, c.in); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("parameters %s, %s: want ErrInvalid, got %s", params, why, outcome(err))
		}
	}
	refused(all.with(t, "no-such-parameter", "1"), "which contain an unknown parameter")
	listed := func(q driver.Param) bool { return q.Type == driver.ListParam && !e.sets(t, q.Name) }
	for i := range d.Params {
		p := &d.Params[i]
		inside, outside := described(p)
		taken := false
		for _, v := range inside {
			err := e.tryValue(t, &d, p, v)
			if err == nil && p.Type == driver.IntParam { // some writers quote numbers
				e.same(t, c.in, src, all.with(t, p.Name, v), all.with(t, p.Name, strconv.Quote(v)))
			}
			if taken = taken || err == nil; err == nil || p.Type == driver.IntParam && p.Min == 0 && p.Max == 0 {
				continue // accepted, or the description has no range
			}
			if slices.ContainsFunc(d.Params, listed) { // the value may require a list parameter, as the raw format of lzma does
				t.Logf("parameter %s: the value %s is refused when the list parameters are absent: %v", p.Name, v, err)
			} else {
				t.Errorf("parameter %s: the description allows %s, but Open refuses it for all types and with all tested values of the other parameters: %v", p.Name, v, err)
			}
		}
		if !taken && len(inside) > 0 {
			t.Errorf("parameter %s is described, but Open refuses all tested values, %q", p.Name, inside)
		}
		if lo, hi := p.Range(); p.Type == driver.IntParam && hi-lo <= fewValues {
			for v := lo + 1; v < hi; v++ {
				e.small(t, all.with(t, p.Name, strconv.FormatInt(v, 10)), c.in)
			}
		}
		for _, v := range outside {
			params := all.with(t, p.Name, v.value)
			if _, _, err := e.target.Provider.Open(e.target.ID, params, c.in); err == nil && v.clamped != "" {
				e.same(t, c.in, src, params, all.with(t, p.Name, v.clamped))
			} else {
				refused(params, "which the description excludes")
			}
		}
		if p.Required {
			refused(all.with(t, p.Name, ""), "without "+p.Name+", which is required")
		} else if p.Default != "" {
			for _, src := range [][]byte{src, c.data(many, "zeros", t.Seed())} {
				e.same(t, c.in, src, all.with(t, p.Name, ""), all.with(t, p.Name, literal(p, p.Default)))
			}
		}
	}
}

// sets reports whether a set of parameters has a value for name.
func (e *Env) sets(t conformance.T, name string) bool {
	return slices.ContainsFunc(e.params, func(set json.RawMessage) bool { return e.members(t, set)[name] != nil })
}

// many is the number of elements encoded to test a described value of a parameter. If a
// range has at most fewValues values, all of them are tested with small chunks.
const many, fewValues = 20_000, 64

// tryValue checks a codec with the value v of p. The value may fit only some types, and
// only some values of the other parameters. tryValue therefore tries each set of
// parameters with each type, and then the first set with one other parameter changed to
// a described value, until Open succeeds. If Open always fails, tryValue returns the
// first error.
func (e *Env) tryValue(t conformance.T, d *driver.Description, p *driver.Param, v string) error {
	var sets []json.RawMessage
	for _, set := range e.params {
		sets = append(sets, e.members(t, set).with(t, p.Name, v))
	}
	first := e.members(t, sets[0])
	for i := range d.Params {
		if q := &d.Params[i]; q.Name != p.Name {
			inside, _ := described(q)
			for _, w := range inside {
				sets = append(sets, first.with(t, q.Name, w))
			}
		}
	}
	var refusal error
	for _, params := range sets {
		for _, typ := range e.allTypes {
			in := driver.Spec{DType: typ, Shape: []int{many}, MaxBytes: room(typ, many)}
			c, err := e.tryOpen(params, in)
			switch kind := ncerr.KindOf(err); {
			case err == nil:
				c.survives(t, c.data(many, "smooth", t.Seed()))
				e.small(t, params, in)
				if t.Effort() != conformance.Brief {
					e.variant(t, params, typ)
				}
				return nil
			case kind != ncerr.ErrInvalid && kind != ncerr.ErrUnsupported:
				t.Errorf("open with %s for %s: %v", params, describeSpec(in), err)
				return err
			case refusal == nil:
				refusal = err
			}
		}
	}
	return refusal
}

// variant checks a codec with a described value of a parameter: a scalar, two dimensions
// in both orders, bytes that are not whole elements, repetitions, and concurrent calls. The
// filter may refuse the parameters for some of these.
func (e *Env) variant(t conformance.T, params json.RawMessage, typ dtype.Type) {
	const rows, columns, more = 7, 30, 3
	size := room(typ, rows*columns)
	for _, in := range []driver.Spec{
		{DType: typ, MaxBytes: room(typ, 1)},
		{DType: typ, Shape: []int{rows, columns}, MaxBytes: size},
		{DType: typ, Shape: []int{rows, columns}, Order: driver.F, MaxBytes: size},
		{DType: typ, Shape: []int{1000}, MaxBytes: room(typ, 1000)},
		{Kind: driver.Blob, DType: typ, MaxBytes: size + more},
	} {
		c, err := e.tryOpen(params, in)
		if err != nil {
			if kind := ncerr.KindOf(err); kind != ncerr.ErrInvalid && kind != ncerr.ErrUnsupported {
				t.Errorf("open with %s for %s: %v", params, describeSpec(in), err)
			}
			continue
		}
		switch n, err := in.Elements(); {
		case in.Kind == driver.Blob && !c.lossy && typ.Fixed() && typ.Kind != dtype.Bool:
			c.survivesPartial(t, data(dtype.NCUByte.Type(dtype.OrderNone), int(in.MaxBytes), "bits", t.Seed()))
		case in.Kind == driver.Array && err == nil:
			for _, pattern := range []string{"noise", "special", "signs"} {
				c.survives(t, c.data(n, pattern, t.Seed()))
			}
			if n == 1000 && t.Effort() == conformance.Thorough { // some codecs take long to start
				e.callConcurrently(t, c, n)
				e.distances(t, params, typ, []int{8, 12, 16})
			}
		}
	}
}

// small checks that chunks of 0, 1 and smallest elements survive a round trip, as arrays
// and as blobs. The filter may refuse the parameters, the type or the size.
func (e *Env) small(t conformance.T, params json.RawMessage, in driver.Spec) {
	for _, n := range []int{0, 1, smallest} {
		size := room(in.DType, n)
		specs := []driver.Spec{{DType: in.DType, Shape: []int{n}, MaxBytes: size}}
		if in.DType.Fixed() {
			specs = append(specs, driver.Spec{Kind: driver.Blob, DType: in.DType, MaxBytes: size})
		}
		for _, in := range specs {
			c, err := e.tryOpen(params, in)
			if err == nil {
				c.survives(t, c.data(n, "smooth", t.Seed()))
			} else if kind := ncerr.KindOf(err); kind != ncerr.ErrInvalid && kind != ncerr.ErrUnsupported {
				t.Errorf("open with %s for %s: %v", params, describeSpec(in), err)
			}
		}
	}
}

// literal returns a value of p as JSON.
func literal(p *driver.Param, value string) string {
	if p.Type == driver.TextParam || p.Type == driver.DTypeParam {
		return strconv.Quote(value)
	}
	return value
}

// excluded is a value that a description excludes. clamped, if not empty, is the nearest
// value in the range.
type excluded struct{ value, clamped string }

// described returns values that the description of p allows, and values that the
// description excludes.
func described(p *driver.Param) (inside []string, outside []excluded) {
	if p.Type != driver.ListParam {
		outside = append(outside, excluded{"[]", ""})
	}
	switch {
	case p.Type == driver.IntParam:
		lo, hi := p.Range()
		low, high := strconv.FormatInt(lo, 10), strconv.FormatInt(hi, 10)
		inside = []string{low, high}
		for _, n := range []int64{1, 100, 1 << 40} {
			outside = append(outside, excluded{strconv.FormatInt(lo-n, 10), low}, excluded{strconv.FormatInt(hi+n, 10), high})
		}
		if lo < hi && hi > 0 {
			outside = append(outside, excluded{strconv.FormatInt(hi-1, 10) + ".5", ""})
		}
	case p.Type == driver.BoolParam:
		inside = []string{"true", "false"}
	case len(p.Choices) > 0:
		for _, v := range p.Choices {
			inside = append(inside, literal(p, v))
		}
		outside = append(outside, excluded{`"no-such-choice"`, ""})
		if upper := strings.ToUpper(p.Choices[0]); !slices.Contains(p.Choices, upper) {
			outside = append(outside, excluded{strconv.Quote(upper), ""})
		}
	}
	return inside, outside
}

// same checks that the parameters a and b open codecs that encode src identically.
func (e *Env) same(t conformance.T, in driver.Spec, src []byte, a, b json.RawMessage) {
	c, outC, errC := e.target.Provider.Open(e.target.ID, a, in)
	d, outD, errD := e.target.Provider.Open(e.target.ID, b, in)
	if ncerr.KindOf(errC) != ncerr.KindOf(errD) {
		t.Errorf("open with %q: got %s; open with the equivalent %q: got %s", a, outcome(errC), b, outcome(errD))
	}
	if errC != nil || errD != nil {
		return
	}
	first := (&opened{Codec: c, in: in, out: outC, params: a}).encode(t, src)
	if !bytes.Equal(first, (&opened{Codec: d, in: in, out: outD, params: b}).encode(t, src)) {
		t.Errorf("codecs opened with %q and with the equivalent %q encode the same bytes differently", a, b)
	}
}
