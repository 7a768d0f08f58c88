package filter

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Params is a JSON object of parameters. Each getter names the members it
// knows; Err reports the first bad value, and members that nobody asked for:
// a parameter that is not understood may change what the bytes mean.
//
// Numbers may be written as strings, as netCDF-C did before 4.10; null is the
// same as absent.
type Params struct {
	members map[string]json.RawMessage
	asked   []string
	err     error
}

func parse(raw json.RawMessage) (*Params, error) {
	p := &Params{asked: []string{"id"}}
	if len(bytes.TrimSpace(raw)) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(raw, &p.members); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameters are not a JSON object: %w", err)
	}
	return p, nil
}

// Err gives the first error met so far.
func (p *Params) Err() error {
	if p.err != nil {
		return p.err
	}
	var unknown []string
	for name := range p.members {
		if !slices.Contains(p.asked, name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "unknown parameter %s", strings.Join(unknown, ", "))
	}
	return nil
}

// Fail records that a parameter cannot be used.
func (p *Params) Fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter %q: "+format, append([]any{name}, args...)...)
	}
}

// Has reports whether a parameter is given.
func (p *Params) Has(name string) bool { return p.raw(name) != nil }

func (p *Params) raw(name string) json.RawMessage {
	p.asked = append(p.asked, name)
	raw := bytes.TrimSpace(p.members[name])
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// Int gives an integer in [lo, hi], or def when it is absent.
func (p *Params) Int(name string, def, lo, hi int) int {
	f, ok := p.number(name)
	switch {
	case !ok:
		return def
	case f != math.Trunc(f):
		p.Fail(name, "%v is not an integer", f)
		return def
	case f < float64(lo) || f > float64(hi):
		p.Fail(name, "%v is not in the range %d to %d", f, lo, hi)
		return def
	}
	return int(f)
}

// Float gives a number, or def when it is absent.
func (p *Params) Float(name string, def float64) float64 {
	if f, ok := p.number(name); ok {
		return f
	}
	return def
}

func (p *Params) number(name string) (float64, bool) {
	raw := p.raw(name)
	if raw == nil {
		return 0, false
	}
	text := string(raw)
	if raw[0] == '"' {
		if json.Unmarshal(raw, &text) != nil {
			text = ""
		}
		text = strings.TrimSpace(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		p.Fail(name, "%s is not a number", raw)
		return 0, false
	}
	return f, true
}

// Bool gives a truth value, or def when it is absent; 0 and 1 are accepted, and
// the words "YES" and "NO" that GDAL writes.
func (p *Params) Bool(name string, def bool) bool {
	raw := p.raw(name)
	if raw == nil {
		return def
	}
	text := strings.Trim(string(raw), `"`)
	if word := strings.ToUpper(text); word == "YES" || word == "NO" {
		return word == "YES"
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		p.Fail(name, "%s is not true or false", raw)
		return def
	}
	return b
}

// Text gives a string, or def when it is absent.
func (p *Params) Text(name, def string) string {
	raw := p.raw(name)
	if raw == nil {
		return def
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		p.Fail(name, "%s is not a string", raw)
		return def
	}
	return s
}

// IsText reports whether a parameter is given as a string that is no number.
func (p *Params) IsText(name string) bool {
	raw := p.raw(name)
	if raw == nil || raw[0] != '"' {
		return false
	}
	_, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	return err != nil
}

// Texts gives a list of strings, or nil when it is absent.
func (p *Params) Texts(name string) []string {
	raw := p.raw(name)
	if raw == nil {
		return nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		p.Fail(name, "%s is no list of strings", clip(raw))
		return nil
	}
	return list
}

// clip shortens JSON for messages.
func clip(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return string(raw[:most]) + "..."
	}
	return string(raw)
}

// List reads a list of objects into the slice that into points to; absent it
// stays as it is. Members that its type does not have are a fault.
func (p *Params) List(name string, into any) {
	raw := p.raw(name)
	if raw == nil {
		return
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		p.Fail(name, "%s: %v", clip(raw), err)
	}
}
