package nczarr

import (
	"fmt"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// VarLen as MaxStrLen of a [VarSpec] makes strings of variable length.
const VarLen = -1

// StringStorage is a way to store strings in a new dataset.
type StringStorage uint8

// The ways. With StringsAuto strings have variable length in pure Zarr, as its
// other writers make them, and fixed length in NCZarr, where netcdf-c refuses
// a dataset with others; copies within pure Zarr keep them as they are. With
// StringsFixed and StringsVarLen all have the one or the other. A fixed length
// that is not stated is 128 bytes, in copies that of the source, or of the
// longest string, for which strings of variable length are read once more.
const (
	StringsAuto StringStorage = iota
	StringsFixed
	StringsVarLen
)

// FixedStrings reports whether new variables of strings have a fixed length
// when none is stated.
func (d *Dataset) FixedStrings() bool {
	return d.strings == StringsFixed || d.strings == StringsAuto && d.layout.FixedStrings()
}

// varies reports whether elements have variable length.
func (v *Var) varies() bool { return !v.meta.DType.Fixed() }

// elemBytes is the size of an element in bytes, a guess where it varies.
func (v *Var) elemBytes() int64 {
	if v.varies() {
		return array.GuessedSize
	}
	return int64(v.meta.DType.Size)
}

// checkObject refuses arrays of objects whose first codec is not for objects
// that are text or bytes. Whatever is not described yet, since the plugin that
// may have it was not started, is left for the opening of the chain: opened
// says that this is it.
func checkObject(codecs codec.Catalog, path string, meta *zarr.Array, opened bool) error {
	refuse := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "objects (dtype %q) %s", meta.DType, fmt.Sprintf(format, args...))
	}
	if len(meta.Codecs) == 0 {
		return refuse("without a codec that says how they are stored")
	}
	id := meta.Codecs[0].ID
	if reason, refused := codec.Refused(id); refused {
		return refuse("stored by the codec %s, which is refused: %s", id, reason)
	}
	d, _ := codecs.Find(id)
	switch {
	case d.Transform == codecdriver.Unstated && !opened:
	case d.Objects == codecdriver.NoObjects:
		return refuse("without a codec that says how they are stored: %s is not for objects", id)
	case d.Objects == codecdriver.Arrays:
		return refuse("that are arrays of numbers (codec %s): netCDF data in Zarr has no such type", id)
	}
	return nil
}

// checkText refuses what a variable of strings of variable length cannot hold:
// text that is not UTF-8, where it has to be.
func (v *Var) checkText(src []string) error {
	if v.meta.DType.Kind != dtype.String {
		return nil
	}
	for i, s := range src {
		if err := dtype.CheckUTF8(i, s); err != nil {
			return err
		}
	}
	return nil
}
