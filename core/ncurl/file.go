package ncurl

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// file sets the driver and the path for a plain path or a file: URL.
func (p *parser) file(storage string) error {
	if storage == modeS3 || storage == modeGS3 {
		return p.bad(errors.New("mode=" + storage + " needs an s3: or https: URL, not a file"))
	}
	name, err := p.filePath()
	if err != nil {
		return p.bad(err)
	}
	p.loc.Path, p.loc.IsFile, p.loc.windows = name, true, p.env.Windows
	if len(p.in.doubtful) > 0 && !p.mayExist(name) {
		return p.bad(p.unknownKey())
	}
	if driver, ok := p.take(keyDriver); ok {
		if p.isKerchunk() {
			return p.bad(errors.New("mode=kerchunk cannot be combined with driver"))
		}
		return p.named(driver, storage)
	}
	switch storage {
	case modeFile:
		p.setStorage(DriverFile, modeFile, "mode contains file")
	case modeZip:
		p.setStorage(DriverZip, modeZip, "mode contains zip")
	default:
		return p.probe(name)
	}
	return nil
}

// mayExist reports whether a file exists at a path. Without a Probe it returns true
// unless the location is for a new dataset.
func (p *parser) mayExist(name string) bool {
	if p.env.Probe == nil {
		return !p.env.Create
	}
	return p.env.Probe(name) != Missing
}

// unknownKey returns the error for an unknown key in the fragment of a plain path.
func (p *parser) unknownKey() error {
	named := ""
	for _, f := range p.in.doubtful {
		if legacyKey(f.Key) == keyDriver {
			named = f.Value
		}
	}
	for _, f := range p.in.doubtful {
		switch key := legacyKey(f.Key); {
		case allKnown([]Param{f}):
		case slices.Contains(Keys(), key):
			return fmt.Errorf("fragment key %q has no value", f.Key)
		case named != "":
			return fmt.Errorf("unknown fragment key %q; set an option of the driver %s in the configuration, as [drivers.%s] %s = VALUE", f.Key, named, named, f.Key)
		default:
			return fmt.Errorf(`unknown fragment key %q%s (keys are %s; write "#" in a name as %%23 in a file: URL)`,
				f.Key, ncerr.DidYouMean(strings.ToLower(f.Key), Keys()), strings.Join(Keys(), ", "))
		}
	}
	return errors.New("the fragment is malformed")
}

// foreignExtension returns the extension of name if it belongs to a format that this
// module does not write, and "" otherwise.
func foreignExtension(name string) string {
	lower := strings.ToLower(path.Base(name))
	for _, ext := range []string{
		".nc", ".nc3", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".hdf", ".he5", ".grib", ".grb", ".grib2", ".grb2", ".tif", ".tiff", ".cdl", ".ncml",
		".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".gz", ".7z", ".json", ".parquet", ".parq", ".csv",
	} {
		if strings.HasSuffix(lower, ext) && lower != ext {
			return ext
		}
	}
	return ""
}

// checkNew rejects a new dataset in a bucket if its name has the extension of a
// single-file format, unless the fragment contains mode s3 or gs3.
func (p *parser) checkNew(name string) error {
	ext := foreignExtension(name)
	if strings.HasSuffix(strings.ToLower(name), ".zip") {
		ext = ".zip"
	}
	if !p.env.Create || ext == "" {
		return nil
	}
	if p.isExplicit() {
		return nil
	}
	return fmt.Errorf("a dataset in a bucket is a tree of objects, not one %q object: write it to a local file and upload that, name it .zarr, "+
		"or add #mode=nczarr,s3 for a tree with this name", ext)
}

// named sets the driver to the value of the fragment key "driver". The value must be the
// name of a plugin's driver or of a built-in driver for local paths.
func (p *parser) named(driver, storage string) error {
	switch {
	case !driverName(driver):
		return p.bad(fmt.Errorf("driver=%s: a driver name has only letters, digits, hyphens and underscores", driver))
	case storage != "" && storage != driver:
		return p.bad(fmt.Errorf("mode=%s conflicts with driver=%s", storage, driver))
	case driver == DriverFile || driver == DriverZip:
		p.setStorage(driver, driver, "the fragment specifies the driver")
		return nil
	case driver == DriverS3:
		return p.bad(fmt.Errorf("driver=%s cannot open a local path or a file: URL; use a URL such as s3://BUCKET/KEY", driver))
	case driver == DriverHTTP:
		return p.bad(fmt.Errorf("driver=%s cannot open a local path or a file: URL; use a URL such as https://HOST/PATH", driver))
	case driver == DriverMem:
		return p.bad(fmt.Errorf("driver=%s cannot open a local path or a file: URL; use a URL such as mem:NAME", driver))
	case p.isBytes():
		return p.bad(errors.New("mode=bytes cannot be combined with driver"))
	}
	p.loc.Driver = driver
	p.step("driver", "", driver, "the fragment specifies the driver, which a plugin must provide")
	return nil
}

// driverName reports whether text is a valid driver name.
func driverName(text string) bool {
	if text == "" {
		return false
	}
	return strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// filePath returns the clean path, which is absolute if the current directory is
// known.
func (p *parser) filePath() (string, error) {
	name := p.in.path
	if p.in.scheme == schemeFile {
		var err error
		if name, err = unescape(name); err != nil {
			return "", err
		}
	}
	if name == "" {
		return "", errors.New("the path is empty")
	}
	if strings.HasPrefix(name, "~/") {
		p.warn(`"~" is an ordinary character here; let the shell expand it, or write the full path`)
	}
	before := name
	if p.env.Windows {
		name = strings.ReplaceAll(name, `\`, "/")
		name = trimBeforeDrive(name)
	}
	clean, why := cleanPath(name, p.env)
	if clean != before {
		p.step("path", before, clean, why)
	}
	return clean, nil
}

// cleanPath returns the clean form of name, made absolute if env has a current
// directory, and the reason for the change.
func cleanPath(name string, env *Env) (clean, why string) {
	why = "the path is cleaned"
	absolute := strings.HasPrefix(name, "/") || env.Windows && hasDrive(name)
	if !absolute && env.Cwd != "" {
		cwd := env.Cwd
		if env.Windows {
			cwd = strings.ReplaceAll(cwd, `\`, "/")
		}
		name, why = cwd+"/"+name, "a relative path starts at the current directory"
	}
	switch {
	case env.Windows && strings.HasPrefix(name, "//"):
		return "/" + path.Clean(name), why // the path of a share keeps two leading slashes: //server/share/...
	case env.Windows && hasDrive(name):
		return name[:2] + path.Clean(name[2:]), why // the root of a drive keeps its slash and has no parent
	}
	clean = path.Clean(name)
	if env.Windows {
		clean = trimBeforeDrive(clean)
	}
	return clean, why
}

// trimBeforeDrive removes a slash before a drive letter, because /C:/x means C:/x, as in a
// URL.
func trimBeforeDrive(name string) string {
	if rest := strings.TrimPrefix(name, "/"); hasDrive(rest) {
		return rest
	}
	return name
}

// hasDrive reports whether name begins with a drive letter and a slash.
func hasDrive(name string) bool {
	return len(name) >= 3 && name[0]|0x20 >= 'a' && name[0]|0x20 <= 'z' && name[1] == ':' && name[2] == '/'
}

// fileURL returns the canonical URL of a path returned by cleanPath.
func fileURL(name string, windows bool) string {
	switch {
	case windows && hasDrive(name):
		return "file:///" + escape(name, keepFile)
	case strings.HasPrefix(name, "/"):
		return "file://" + escape(name, keepFile)
	}
	return "file:" + escape(name, keepFile)
}

// probe chooses the file or the zip driver for a path if no mode selects a storage.
func (p *parser) probe(name string) error {
	zipName := strings.HasSuffix(strings.ToLower(name), ".zip")
	switch {
	case p.isBytes():
		p.setStorage(DriverFile, modeFile, "mode=bytes reads the file itself")
		return nil
	case p.isKerchunk():
		p.setStorage(DriverFile, modeFile, "mode=kerchunk reads the file itself")
		return nil
	case p.env.Create && zipName:
		p.setStorage(DriverZip, modeZip, "a new dataset with a name ending in .zip is an archive")
		return nil
	case p.env.Create && foreignExtension(name) != "":
		return p.unsupported(fmt.Errorf("a dataset is written as a directory or a zip archive, not as %q: name it .zarr or .zip, "+
			"or add #mode=nczarr,file for a directory with this name", foreignExtension(name)))
	case p.env.Create:
		p.setStorage(DriverFile, modeFile, "a new dataset is a directory tree unless its name ends in .zip")
		return nil
	}
	found := NotProbed
	if p.env.Probe != nil {
		found = p.env.Probe(name)
		p.step("probe", name, found.String(), "no mode specifies the storage, so the path was probed")
	}
	switch found {
	case Directory:
		p.setStorage(DriverFile, modeFile, "the path is a directory")
	case ZipArchive:
		p.setStorage(DriverZip, modeZip, "the file begins with a zip signature")
	case References:
		p.references("the file has the members of a reference file")
		p.setStorage(DriverFile, modeFile, "the path is a file")
	case NetCDF3, HDF5, OtherFile:
		return p.notZarr(found)
	default:
		if zipName {
			p.setStorage(DriverZip, modeZip, "nothing is known about the path; its name ends in .zip")
			return nil
		}
		if isJSON(name) {
			p.references("nothing is known about the path; its name ends in .json")
		}
		p.setStorage(DriverFile, modeFile, "nothing is known about the path; its name does not end in .zip")
	}
	return nil
}

// isJSON reports whether a path has the extension of reference files.
func isJSON(name string) bool { return strings.HasSuffix(strings.ToLower(name), ".json") }

// isKerchunk reports whether the modes contain kerchunk.
func (p *parser) isKerchunk() bool { return slices.Contains(p.mode, modeKerchunk) }

// references adds mode kerchunk.
func (p *parser) references(why string) {
	p.mode = append(p.mode, modeKerchunk)
	p.step("references", "", modeKerchunk, why)
}

// checkKerchunk rejects modes and operations that contradict mode=kerchunk.
func (p *parser) checkKerchunk(storage string) error {
	switch {
	case !p.isKerchunk():
		return nil
	case storage == modeZip || p.isBytes():
		return p.bad(errors.New("mode=kerchunk conflicts with mode=zip and mode=bytes"))
	case p.in.scheme == schemeMem:
		return p.bad(errors.New("mode=kerchunk conflicts with mem: URLs"))
	case p.env.Create:
		return p.unsupported(errors.New("mode=kerchunk is read-only; a new dataset must be NCZarr or Zarr"))
	}
	return nil
}

// isExplicit reports whether the fragment contains mode s3 or gs3, which select a tree of
// objects even if its name has the extension of a file.
func (p *parser) isExplicit() bool {
	for _, f := range p.in.fragment {
		if modes := strings.Split(strings.ToLower(f.Value), ","); legacyKey(f.Key) == keyMode && (slices.Contains(modes, modeS3) || slices.Contains(modes, modeGS3)) {
			return true
		}
	}
	return false
}

// notZarr returns the error for a path where the probe found no store.
func (p *parser) notZarr(found PathKind) error {
	text := "the path is " + found.String() + "; a store is a directory or a zip archive"
	if found == NetCDF3 || found == HDF5 {
		text = "the path is " + found.String() + "; convert it: ncdump -p 9,17 FILE | nczctl gen -o x.zarr"
	}
	return ncerr.New(ncerr.ErrNotZarr, "parse location", maskText(p.text), errors.New(text))
}

// mem sets the driver and the path for a mem: URL.
func (p *parser) mem(storage string) error {
	if storage != "" {
		return p.bad(errors.New("mode=" + storage + " conflicts with the scheme mem:"))
	}
	name, err := unescape(p.in.path)
	switch {
	case err != nil:
		return p.bad(err)
	case name == "":
		return p.bad(errors.New("a mem: URL needs a name"))
	case p.isBytes():
		return p.bad(errors.New("the scheme mem: conflicts with mode=bytes"))
	}
	p.loc.Path = name
	p.setStorage(DriverMem, "", "the scheme mem: selects the memory of this process")
	return nil
}
