package ncurl

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Parse infers what text, a URL or a path, stands for; see the package
// comment for the grammar and the order of the rules. A nil env is an empty
// one. The Location does not alias env.
//
// Errors by kind: ncerr.ErrBadURL for text that is malformed or contradicts
// itself (with the nearest known word where one is near),
// ncerr.ErrUnsupported for what is understood but not offered (DAP, a zip
// archive inside a bucket, other file formats), ncerr.ErrNotZarr when the
// path was probed and holds something else, ncerr.ErrInvalid for a setting
// from env that cannot be. Each is one line and shows no secret.
//
// Source: netcdf-c libdispatch/dinfermodel.c, NC_infermodel.
func Parse(text string, env *Env) (*Location, error) {
	if env == nil {
		env = &Env{}
	}
	in, err := split(text)
	if err != nil {
		return nil, bad(text, err)
	}
	p := &parser{env: env, text: text, in: in, loc: &Location{}}
	if err := p.run(); err != nil {
		return nil, err
	}
	p.loc.Display = p.loc.url(true)
	p.step("result", "", p.loc.Display, "the canonical form, which gives the same result when used again")
	return p.loc, nil
}

// parser is the state of one Parse.
type parser struct {
	env    *Env
	text   string // as given; masked before it is shown
	in     parts
	params []Param  // fragment keys that nobody has taken yet
	mode   []string // modes so far
	loc    *Location
}

// run applies the rules in order.
func (p *parser) run() error {
	if err := p.checkScheme(); err != nil {
		return err
	}
	if err := p.readFragment(); err != nil {
		return err
	}
	if p.isRemote() && slices.Contains(p.mode, modeZip) {
		return p.unsupported(errors.New("a zip archive is read from a local file only; " +
			"copy it first, or leave out mode=zip if this is a directory tree"))
	}
	storage, err := storageOf(p.mode)
	if err != nil {
		return p.bad(err)
	}
	if err := p.checkBytes(storage); err != nil {
		return err
	}
	if err := p.place(storage); err != nil {
		return err
	}
	p.readFormat()
	if err := p.readSeparator(); err != nil {
		return err
	}
	p.keepRest()
	p.loc.Mode = p.mode
	return nil
}

// checkScheme refuses the schemes that cannot be served.
func (p *parser) checkScheme() error {
	switch p.in.scheme {
	case schemePath:
		p.step("scheme", "", "", "there is no scheme, so this is a path")
		return nil
	case schemeDODS, schemeDAP4:
		return p.unsupported(errors.New(p.in.scheme + ": is DAP; " + dapText))
	}
	if !slices.Contains(schemes(), p.in.scheme) {
		return p.bad(errors.New("unknown scheme \"" + p.in.scheme + "\"" + ncerr.DidYouMean(p.in.scheme, offered()) +
			" (schemes are " + strings.Join(offered(), ", ") + ")"))
	}
	if p.in.hasQuery && p.in.scheme != schemeHTTP && p.in.scheme != schemeHTTPS {
		return p.bad(errors.New(`"?" begins a query, which only http and https have; in a name write it "%3F"`))
	}
	return nil
}

// checkBytes refuses what cannot go with mode=bytes.
func (p *parser) checkBytes(storage string) error {
	switch {
	case !slices.Contains(p.mode, modeBytes):
		return nil
	case storage == modeZip:
		return p.bad(errors.New("mode=bytes reads one netCDF file, mode=zip a Zarr archive; they exclude each other"))
	case p.env.Create:
		return p.unsupported(errors.New("mode=bytes only reads; a new dataset is NCZarr or Zarr"))
	}
	return nil
}

// place chooses the driver and fills in where the dataset is.
func (p *parser) place(storage string) error {
	switch p.in.scheme {
	case schemePath, schemeFile:
		return p.file(storage)
	}
	if driver, ok := p.take(keyDriver); ok {
		return p.bad(errors.New("driver=" + driver + " goes with a path or a file: URL"))
	}
	if p.in.scheme == schemeMem {
		return p.mem(storage)
	}
	if storage == modeFile {
		return p.bad(errors.New("mode=file contradicts the scheme " + p.in.scheme + ":"))
	}
	return p.remote(storage)
}

// isRemote reports whether the scheme names a server or a bucket.
func (p *parser) isRemote() bool {
	s := p.in.scheme
	return s != schemePath && s != schemeFile && s != schemeMem
}

// setStorage records the storage mode that was chosen.
func (p *parser) setStorage(driver, mode, why string) {
	p.loc.Driver = driver
	if mode != "" && !slices.Contains(p.mode, mode) {
		p.mode = append(p.mode, mode)
	}
	p.step("storage", "", "driver "+driver, why)
}

func (p *parser) step(rule, before, after, why string) {
	p.loc.Steps = append(p.loc.Steps, Step{rule, before, after, why})
}

func (p *parser) warn(text string) { p.loc.Warnings = append(p.loc.Warnings, text) }

func (p *parser) bad(cause error) error { return bad(p.text, cause) }

func (p *parser) unsupported(cause error) error {
	return ncerr.New(ncerr.ErrUnsupported, "parse location", maskText(p.text), cause)
}
