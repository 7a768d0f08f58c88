package filter

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Params is a JSON object of parameters. The getters take the type, the range and the
// default from the description of the codec, and panic for a parameter that is not
// described. Err reports the first invalid value, missing required parameters, and
// members that are not described, because an unknown parameter may change the meaning of
// the bytes.
//
// Numbers may be written as strings, as netCDF-C did before 4.10. null is the same as
// absent.
type Params struct {
	desc    *driver.Description
	members map[string]json.RawMessage
	err     error
}

func parse(desc *driver.Description, raw json.RawMessage) (*Params, error) {
	p := &Params{desc: desc}
	if len(bytes.TrimSpace(raw)) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(raw, &p.members); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameters are not a JSON object: %w", err)
	}
	return p, nil
}

// Err returns the first error so far.
func (p *Params) Err() error {
	var known, unknown []string
	for _, d := range p.desc.Params {
		known = append(known, d.Name)
		if d.Required && !p.Has(d.Name) {
			p.Fail(d.Name, "a value is required")
		}
	}
	if p.err != nil {
		return p.err
	}
	hint := ""
	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		if name != "id" && !slices.Contains(known, name) {
			unknown = append(unknown, strconv.Quote(name))
			hint = ncerr.DidYouMean(name, known)
		}
	}
	switch len(unknown) {
	case 0:
		return nil
	case 1:
		if hint == "" && len(known) > 0 {
			hint = "; parameters are " + strings.Join(known, ", ")
		}
		return ncerr.Errorf(ncerr.ErrInvalid, "", "", "unknown parameter %s%s", unknown[0], hint)
	}
	return ncerr.Errorf(ncerr.ErrInvalid, "", "", "unknown parameter %s", strings.Join(unknown, ", "))
}

// Fail records that a parameter is invalid.
func (p *Params) Fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = ncerr.Errorf(ncerr.ErrInvalid, "", "", "parameter %q: "+format, append([]any{name}, args...)...)
	}
}

// Has reports whether a parameter is present and not null.
func (p *Params) Has(name string) bool { return p.raw(name) != nil }

func (p *Params) param(name string) *driver.Param {
	d := p.desc.Param(name)
	if d == nil {
		panic(p.desc.ID + " does not describe its parameter " + name)
	}
	return d
}

func (p *Params) raw(name string) json.RawMessage {
	raw := bytes.TrimSpace(p.members[name])
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}

// Int returns an integer in the described range.
func (p *Params) Int(name string) int {
	lo, hi := p.param(name).Range()
	return p.IntIn(name, lo, hi)
}

// IntIn is like Int with a different range, for values that existing writers store.
func (p *Params) IntIn(name string, lo, hi int64) int {
	def, _ := strconv.Atoi(p.param(name).Default) // 0 if the default is only documented
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

// Float returns a number.
func (p *Params) Float(name string) float64 {
	if f, ok := p.number(name); ok {
		return f
	}
	def, _ := strconv.ParseFloat(p.param(name).Default, 64)
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

// Exact returns the JSON of a parameter, or "" if the parameter is absent.
func (p *Params) Exact(name string) string { return string(p.raw(name)) }

// Bool returns a boolean. It accepts 0 and 1, and "YES" and "NO", which GDAL writes.
func (p *Params) Bool(name string) bool {
	def := p.param(name).Default == "true"
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

// Text returns a string, which must be one of the choices if the parameter has any.
func (p *Params) Text(name string) string {
	d, raw := p.param(name), p.raw(name)
	if raw == nil {
		return d.Default
	}
	var s string
	switch {
	case json.Unmarshal(raw, &s) != nil:
		p.Fail(name, "%s is not a string", raw)
	case len(d.Choices) > 0 && !slices.Contains(d.Choices, s):
		p.Fail(name, "%q is not one of %s%s", s, strings.Join(d.Choices, ", "), ncerr.DidYouMean(s, d.Choices))
	default:
		return s
	}
	return d.Default
}

// IsText reports whether a parameter is given as a string that does not parse as a
// number.
func (p *Params) IsText(name string) bool {
	raw := p.raw(name)
	if raw == nil || raw[0] != '"' {
		return false
	}
	_, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	return err != nil
}

// Texts returns a list of strings, or nil if the parameter is absent.
func (p *Params) Texts(name string) []string {
	raw := p.raw(name)
	if raw == nil {
		return nil
	}
	var list []string
	if json.Unmarshal(raw, &list) != nil {
		p.Fail(name, "%s is not a list of strings", clip(raw))
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

// List reads a list of objects, or an object, into the value that into points to. It leaves
// the value unchanged if the parameter is absent. Unknown members are an error.
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
