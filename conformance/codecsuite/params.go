package codecsuite

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
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

// paramsDescribed changes one parameter of the first set at a time to values that its
// description allows and to values that it excludes.
func paramsDescribed(t conformance.T, e *Env) {
	const n = 20_000
	d := e.target.description()
	if d.Transform == driver.Unstated { // a plugin that cannot describe its parameters
		return
	}
	c := e.first(t, n)
	src, all := c.data(n, "smooth", t.Seed()), e.members(t, e.params[0])
	refused := func(params json.RawMessage, why string) {
		if _, _, err := e.target.Provider.Open(e.target.ID, params, c.in); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("parameters %s, %s: want ErrInvalid, got %s", params, why, outcome(err))
		}
	}
	refused(all.with(t, "no-such-parameter", "1"), "which contain an undescribed one")
	for i := range d.Params {
		p := &d.Params[i]
		inside, outside := described(p)
		taken := len(inside) == 0
		for _, v := range inside {
			params := all.with(t, p.Name, v)
			codec, out, err := e.target.Provider.Open(e.target.ID, params, c.in)
			switch kind := ncerr.KindOf(err); {
			case err == nil:
				taken = true
				(&opened{Codec: codec, in: c.in, out: out, params: params, lossy: c.lossy}).survives(t, src)
			case kind != ncerr.ErrInvalid && kind != ncerr.ErrUnsupported: // the value might not fit the other parameters
				t.Errorf("open with %s: %v", params, err)
			}
		}
		if !taken {
			t.Errorf("parameter %s is described, but every value is refused: %q", p.Name, inside)
		}
		for k, v := range outside {
			params := all.with(t, p.Name, v)
			if _, _, err := e.target.Provider.Open(e.target.ID, params, c.in); err == nil && p.Type == driver.IntParam {
				e.same(t, c.in, src, params, all.with(t, p.Name, inside[k]))
			} else {
				refused(params, "which the description excludes")
			}
		}
		if p.Required {
			refused(all.with(t, p.Name, ""), "without "+p.Name+", which is required")
		} else if p.Default != "" {
			e.same(t, c.in, src, all.with(t, p.Name, ""), all.with(t, p.Name, literal(p, p.Default)))
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

// described returns values that the description of p allows and values that it excludes.
// For integers, outside[i] is adjacent to inside[i].
func described(p *driver.Param) (inside, outside []string) {
	switch {
	case p.Type == driver.IntParam:
		lo, hi := p.Range()
		inside = []string{strconv.FormatInt(lo, 10), strconv.FormatInt(hi, 10)}
		outside = []string{strconv.FormatInt(lo-1, 10), strconv.FormatInt(hi+1, 10)}
	case p.Type == driver.BoolParam:
		inside, outside = []string{"true", "false"}, []string{"[]"}
	case len(p.Choices) > 0:
		for _, v := range p.Choices {
			inside = append(inside, literal(p, v))
		}
		outside = []string{`"no-such-choice"`}
	}
	return inside, outside
}

// same checks that the parameters a and b open codecs that encode src identically.
func (e *Env) same(t conformance.T, in driver.Spec, src []byte, a, b json.RawMessage) {
	c, outC, errC := e.target.Provider.Open(e.target.ID, a, in)
	d, outD, errD := e.target.Provider.Open(e.target.ID, b, in)
	if ncerr.KindOf(errC) != ncerr.KindOf(errD) {
		t.Errorf("open with %q: %s; with %q: %s", a, outcome(errC), b, outcome(errD))
	}
	if errC != nil || errD != nil {
		return
	}
	first := (&opened{Codec: c, in: in, out: outC, params: a}).encode(t, src)
	if !bytes.Equal(first, (&opened{Codec: d, in: in, out: outD, params: b}).encode(t, src)) {
		t.Errorf("codecs opened with %q and with %q encode the same bytes differently", a, b)
	}
}
