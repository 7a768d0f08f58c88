package nczarr

import (
	"slices"

	"github.com/seed-695719ce/nczarr/core/array"
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

// objectCodecs are the codecs that turn elements of variable length into
// bytes, the one for text first.
//
// Source: numcodecs, "Codecs for variable-length objects".
var objectCodecs = []string{"vlen-utf8", "vlen-bytes", "json2", "msgpack2", "pickle", "vlen-array", "categorize"}

// checkObject refuses arrays of objects that have no codec for them, or none
// whose objects are text or bytes.
func checkObject(path string, meta *zarr.Array) error {
	refuse := func(why string) error {
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "objects (dtype %q) %s", meta.DType, why)
	}
	if len(meta.Codecs) == 0 || !slices.Contains(objectCodecs, meta.Codecs[0].ID) {
		return refuse("without a codec that says how they are stored")
	}
	switch id := meta.Codecs[0].ID; id {
	case "vlen-array":
		return refuse("that are arrays of numbers (codec vlen-array): netCDF data in Zarr has no such type")
	case "pickle":
		return refuse("stored by the codec pickle, which runs what it reads: unsafe")
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
