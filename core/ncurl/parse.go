package ncurl

import (
	"errors"
	"slices"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Parse parses a URL or path. The package comment describes the grammar and the order of
// the rules. A nil env is the same as an empty Env. The Location does not alias env.
//
// Parse returns an error of kind ncerr.ErrBadURL if text is malformed or
// contradicts itself, ncerr.ErrUnsupported if it requires a recognized but
// unsupported feature (DAP, a zip archive in a bucket, other file formats),
// ncerr.ErrNotZarr if the probed path contains something else, and
// ncerr.ErrInvalid if a setting from env is invalid. Every error is one line
// without secrets.
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
	p.step("result", "", p.loc.Display, "the canonical form, which has the same meaning")
	return p.loc, nil
}

// parser holds the state of one call to Parse.
type parser struct {
	env    *Env
	text   string // the location as given; must be masked before it is shown
	in     parts
	params []Param  // fragment keys that no rule has used yet
	mode   []string // modes found so far
	loc    *Location

	declared *DriverScheme // of the URL, if a driver declares it
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
		return p.unsupported(errors.New("a zip archive can be read only from a local file; " +
			"copy it first, or omit mode=zip if this is a directory tree"))
	}
	storage, err := storageOf(p.mode)
	if err != nil {
		return p.bad(err)
	}
	if err := p.checkBytes(storage); err != nil {
		return err
	}
	if err := p.checkKerchunk(storage); err != nil {
		return err
	}
	if err := p.place(storage); err != nil {
		return err
	}
	if p.isRemote() && !p.env.Create && !p.isKerchunk() && !p.isBytes() && isJSON(p.loc.Path) && !p.isExplicit() {
		p.references("the name of a remote object ends in .json; mode=s3 selects a dataset with this name")
	}
	p.loc.References = p.isKerchunk()
	p.readFormat()
	if err := p.readSeparator(); err != nil {
		return err
	}
	p.moveParams()
	p.loc.Mode = p.mode
	return nil
}

// checkScheme rejects unknown and unsupported schemes.
func (p *parser) checkScheme() error {
	switch p.in.scheme {
	case schemePath:
		p.step("scheme", "", "", "the location has no scheme, so it is a path")
		return nil
	case schemeDODS, schemeDAP4:
		return p.unsupported(errors.New(p.in.scheme + ": is a DAP scheme; " + dapText))
	}
	query := p.in.scheme == schemeHTTP || p.in.scheme == schemeHTTPS
	if !slices.Contains(schemes(), p.in.scheme) {
		if err := p.readScheme(); err != nil {
			return err
		}
		query = p.declared.Query
	}
	if p.in.hasQuery && !query {
		return p.bad(errors.New(`"?" begins a query, which only http and https have; in a name write it "%3F"`))
	}
	return nil
}

// checkBytes rejects modes and operations that contradict mode=bytes.
func (p *parser) checkBytes(storage string) error {
	switch {
	case !slices.Contains(p.mode, modeBytes):
		return nil
	case storage == modeZip:
		return p.bad(errors.New("mode=bytes conflicts with mode=zip: the first reads a netCDF file, the second a Zarr archive"))
	case p.env.Create:
		return p.unsupported(errors.New("mode=bytes is read-only; a new dataset must be NCZarr or Zarr"))
	}
	return nil
}

// place chooses the driver and sets the path of the dataset.
func (p *parser) place(storage string) error {
	switch p.in.scheme {
	case schemePath, schemeFile:
		return p.file(storage)
	}
	if driver, ok := p.take(keyDriver); ok {
		return p.bad(errors.New("driver=" + driver + " needs a path or a file: URL"))
	}
	if p.in.scheme == schemeMem {
		return p.mem(storage)
	}
	if p.declared != nil {
		return p.declaredURL(storage)
	}
	if storage == modeFile {
		return p.bad(errors.New("mode=file conflicts with the scheme " + p.in.scheme + ":"))
	}
	return p.remote(storage)
}

// isRemote reports whether the location is on a server or in a bucket.
func (p *parser) isRemote() bool {
	s := p.in.scheme
	return s != schemePath && s != schemeFile && s != schemeMem
}

// setStorage sets the driver and adds the storage mode.
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
