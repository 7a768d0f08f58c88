package ncurl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The fragment keys that inference consumes.
const (
	keyMode      = "mode"
	keyProfile   = "aws.profile"
	keyRegion    = "aws.region"
	keyEndpoint  = "aws.endpoint"
	keySeparator = "dimension_separator"
	keyDriver    = "driver"
)

// Keys returns the known fragment keys: first those that [Parse] consumes, then
// those that it keeps in Location.Fragment.
func Keys() []string {
	return []string{keyMode, keyProfile, keyRegion, keyEndpoint, keySeparator, keyDriver, "log", "show"}
}

// legacyKey returns the current spelling of a fragment key, which is lower case if
// the key is known.
func legacyKey(key string) string {
	switch lower := strings.ToLower(key); {
	case lower == "awsprofile":
		return keyProfile
	case lower == "aws.endpoint_url":
		return keyEndpoint
	case slices.Contains(Keys(), lower):
		return lower
	}
	return key
}

// allKnown reports whether every param is a known key with a value, or "log" or a macro
// without a value.
func allKnown(params []Param) bool {
	for _, f := range params {
		key := legacyKey(f.Key)
		known := f.Value != "" && slices.Contains(Keys(), key) ||
			f.Value == "" && (key == "log" || macro(f.Key) != nil)
		if !known {
			return false
		}
	}
	return true
}

// readFragment applies the rules for the fragment: prefix parameters, the mode of
// the scheme, old spellings, macros, merging and mode inference. It stores the modes
// in p.mode and all other keys in p.params.
func (p *parser) readFragment() error {
	params := append(slices.Clone(p.in.prefix), p.in.fragment...)
	if len(p.in.prefix) > 0 {
		p.step("prefix", showParams(p.in.prefix), showParams(params),
			"prefix parameters are part of the fragment")
	}
	if p.in.scheme == schemeS3 || p.in.scheme == schemeGS3 {
		before := showParams(params)
		params = append(params, Param{keyMode, p.in.scheme})
		p.step("scheme", before, showParams(params), "the scheme "+p.in.scheme+": means mode="+p.in.scheme)
	}
	params = p.expand(p.modernize(params))
	params, err := p.merge(params)
	if err != nil {
		return err
	}
	for _, f := range params {
		if f.Key == keyMode {
			p.mode = strings.FieldsFunc(f.Value, func(r rune) bool { return r == ',' })
		} else {
			p.params = append(p.params, f)
		}
	}
	return p.readMode()
}

// modernize replaces old spellings with the current ones.
func (p *parser) modernize(params []Param) []Param {
	out := slices.Clone(params)
	for i, f := range out {
		out[i].Key = legacyKey(f.Key)
		if out[i].Key != keyMode {
			continue
		}
		values := strings.Split(strings.ToLower(f.Value), ",")
		for j, v := range values {
			values[j] = legacyMode(strings.TrimSpace(v))
		}
		out[i].Value = strings.Join(values, ",")
	}
	if !slices.Equal(params, out) {
		p.step("legacy", showParams(params), showParams(out), "old spellings are replaced with current ones")
	}
	return out
}

// expand replaces each key that abbreviates modes, such as "zarr", with those modes.
func (p *parser) expand(params []Param) []Param {
	var out []Param
	changed := false
	for _, f := range params {
		if modes := macro(f.Key); f.Value == "" && modes != nil {
			out = append(out, Param{keyMode, strings.Join(modes, ",")})
			changed = true
			continue
		}
		out = append(out, f)
	}
	if changed {
		p.step("macro", showParams(params), showParams(out), "a key without a value is an abbreviation for modes")
	}
	return out
}

// merge joins the values of a repeated key into one comma-separated list at the position
// of its first occurrence. Keys are compared without regard to case. merge fails if a key
// that accepts only one value is repeated with another value.
func (p *parser) merge(params []Param) ([]Param, error) {
	var out []Param
	repeated := false
	for _, f := range params {
		i := slices.IndexFunc(out, func(o Param) bool { return strings.EqualFold(o.Key, f.Key) })
		switch {
		case i < 0:
			out = append(out, f)
			continue
		case isSingle(f.Key) && out[i].Value != f.Value:
			return nil, p.bad(fmt.Errorf("%s has two values, %q and %q", f.Key, maskValue(f.Key, out[i].Value), maskValue(f.Key, f.Value)))
		case !isSingle(f.Key):
			out[i].Value = joinValues(out[i].Value, f.Value)
		}
		repeated = true
	}
	if repeated {
		p.step("merge", showParams(params), showParams(out), "the values of a repeated key are joined")
	}
	return out, nil
}

// isSingle reports whether a key accepts only one value.
func isSingle(key string) bool {
	return key == keyProfile || key == keyRegion || key == keyEndpoint || key == keySeparator || key == keyDriver
}

// joinValues joins two comma-separated lists without duplicates. Values are compared
// without regard to case.
func joinValues(a, b string) string {
	var out []string
	for _, v := range append(strings.Split(a, ","), strings.Split(b, ",")...) {
		same := func(o string) bool { return strings.EqualFold(o, v) }
		if v != "" && !slices.ContainsFunc(out, same) {
			out = append(out, v)
		}
	}
	return strings.Join(out, ",")
}

// readMode checks p.mode, adds implied modes and removes excluded modes.
func (p *parser) readMode() error {
	for _, m := range p.mode {
		if why := refusedMode(m); why != "" {
			return p.unsupported(fmt.Errorf("mode=%s: %s", m, why))
		}
		if !slices.Contains(Modes(), m) {
			return p.bad(fmt.Errorf("unknown mode %q%s (modes are %s)",
				m, ncerr.DidYouMean(m, Modes()), strings.Join(Modes(), ", ")))
		}
	}
	if slices.Contains(p.mode, modeV2) && slices.Contains(p.mode, modeV3) {
		return p.bad(fmt.Errorf("mode specifies two versions of Zarr: %s, %s", modeV2, modeV3))
	}
	if value := p.env.Vars[varConsolidated]; truthy(value) && !slices.Contains(p.mode, modeConsolidated) {
		p.step("environment", "", modeConsolidated, varConsolidated+"="+value+" requests consolidated metadata")
		p.mode = append(p.mode, modeConsolidated)
	}
	given := p.mode
	p.mode = infer(given)
	if !slices.Equal(given, p.mode) {
		p.step("infer", showModes(given), showModes(p.mode),
			"zarr, xarray and noxarray imply nczarr; xarray and noxarray imply zarr, and so does v3 without nczarr; duplicates are removed")
	}
	if kept := negate(p.mode); !slices.Equal(kept, p.mode) {
		p.step("negate", showModes(p.mode), showModes(kept),
			"bytes excludes nczarr and zarr; noxarray excludes xarray")
		p.mode = kept
	}
	return nil
}

// truthy reports whether the value of an environment variable is a positive number,
// "true" or "yes", as in netcdf-c.
func truthy(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	if value == "true" || value == "yes" {
		return true
	}
	digits := strings.TrimLeft(strings.TrimPrefix(value, "+"), "0")
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}

// readFormat sets the format from the modes.
func (p *parser) readFormat() {
	l := p.loc
	has := func(m string) bool { return slices.Contains(p.mode, m) }
	l.Format, l.Xarray, l.Consolidated = NCZarr, !has(modeNoXarray), has(modeConsolidated)
	l.FormatGiven = has(modeNCZarr) || has(modeZarr) || has(modeBytes)
	why := "mode contains nczarr"
	switch {
	case has(modeBytes):
		l.Format, why = Bytes, "mode contains bytes: one netCDF-3 or HDF5 file, read by byte ranges"
	case has(modeZarr) && !l.Xarray:
		l.Format, why = Zarr, "mode contains noxarray: pure Zarr without dimension names in _ARRAY_DIMENSIONS"
	case has(modeZarr):
		l.Format, why = Zarr, "mode contains zarr: pure Zarr with _ARRAY_DIMENSIONS"
	case !l.FormatGiven:
		why = "no mode specifies a format: NCZarr, or pure Zarr if the store has no NCZarr metadata"
	}
	p.step("format", "", string(l.Format), why)
	switch {
	case has(modeV2):
		l.Version = 2
		p.step("version", "", "2", "mode contains v2: documents of Zarr v3 are ignored if documents of v2 exist")
	case has(modeV3):
		l.Version = 3
		p.step("version", "", "3", "mode contains v3: an existing dataset must be Zarr v3, and a new one is written as Zarr v3")
	}
	if l.Consolidated {
		p.step("consolidated", "", "", "consolidated metadata is used for reading and written on creation")
	}
}

// readSeparator reads the dimension separator from the fragment or the rc entries.
func (p *parser) readSeparator() error {
	value, ok := p.take(keySeparator)
	from := "the fragment key " + keySeparator
	if !ok {
		if value, from = p.rc("ZARR.DIMENSION_SEPARATOR"); value == "" {
			return nil
		}
	}
	if value != "." && value != "/" {
		return ncerr.Errorf(ncerr.ErrInvalid, "parse location", maskText(p.text),
			`%s is %q, but a dimension separator must be "." or "/"`, from, value)
	}
	p.loc.Separator = value
	p.step("separator", "", value, from+" sets the separator of new arrays")
	return nil
}

// moveParams moves the remaining params to the Location and warns about unknown keys.
func (p *parser) moveParams() {
	for _, f := range p.params {
		p.loc.Fragment = append(p.loc.Fragment, f)
		show := showParams([]Param{f})
		switch lower := strings.ToLower(f.Key); {
		case slices.Contains(Keys(), lower):
			p.step("keep", show, "", "the program handles this key")
		case strings.HasPrefix(lower, "aws.") && p.loc.Driver == DriverS3:
			p.step("keep", show, "", "the s3 driver handles this key")
		default:
			p.step("unknown", show, "", "the key is unknown; it is kept but has no effect")
			hint := ncerr.DidYouMean(lower, Keys())
			if f.Value == "" && slices.Contains(Modes(), lower) {
				hint = `; did you mean "mode=` + lower + `"?`
			}
			p.warn(fmt.Sprintf("unknown fragment key %q%s", f.Key, hint))
		}
	}
}

// take removes a key from p.params. It returns its value and reports whether the key
// was present.
func (p *parser) take(key string) (string, bool) {
	i := slices.IndexFunc(p.params, func(f Param) bool { return f.Key == key })
	if i < 0 {
		return "", false
	}
	value := p.params[i].Value
	p.params = slices.Delete(p.params, i, i+1)
	return value, true
}

// showParams formats params for a Step, with secrets masked.
func showParams(params []Param) string {
	var b strings.Builder
	for _, f := range params {
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(f.Key)
		if f.Value != "" {
			b.WriteString("=" + maskValue(f.Key, f.Value))
		}
	}
	return b.String()
}

func showModes(modes []string) string { return "mode=" + strings.Join(modes, ",") }
