package dataset

import (
	"fmt"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/codec"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// VarLen as MaxStrLen of a [VarSpec] selects strings of variable length.
const VarLen = -1

// StringStorage selects how strings are stored in a new dataset.
type StringStorage uint8

// The string storage modes. With StringsAuto, strings have variable length in pure Zarr,
// as most Zarr software writes them, and in NCZarr on Zarr v3. They have fixed length in
// NCZarr on Zarr v2, where netcdf-c refuses a dataset with variable-length strings.
// Copies within pure Zarr keep the storage of the source. With StringsFixed, all strings
// have fixed length; with StringsVarLen, all have variable length. The default fixed
// length is 128 bytes. Copies have the fixed length of the source or, if it varies there,
// the length of the longest string, and then read the strings twice.
const (
	StringsAuto StringStorage = iota
	StringsFixed
	StringsVarLen
)

// FixedStrings reports whether new string variables have a fixed length by default.
func (d *Dataset) FixedStrings() bool {
	return d.strings == StringsFixed || d.strings == StringsAuto && d.layout.FixedStrings()
}

// isVariableLength reports whether elements have variable length.
func (v *Var) isVariableLength() bool { return !v.meta.DType.Fixed() }

// elemBytes returns the size of an element in bytes, or an estimate if it varies.
func (v *Var) elemBytes() int64 {
	if v.isVariableLength() {
		return array.AssumedElementSize
	}
	return int64(v.meta.DType.Size)
}

// checkObject fails for arrays of objects whose first codec does not encode text or
// byte objects. opened is set if the chain has been opened. Before that, checkObject
// accepts a codec without a description, because a plugin that has not been started may
// provide it.
func checkObject(codecs codec.Catalog, path string, meta *zarr.Array, opened bool) error {
	refuse := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrUnsupported, "open", path, "objects (dtype %q) %s", meta.DType, fmt.Sprintf(format, args...))
	}
	if len(meta.Codecs) == 0 {
		return refuse("have no codec that defines how they are stored")
	}
	id := meta.Codecs[0].ID
	if reason, refused := codec.Refused(id); refused {
		return refuse("are stored by the codec %s, which is refused: %s", id, reason)
	}
	d, _ := codecs.Find(id)
	switch {
	case d.Transform == codecdriver.Unstated && !opened:
	case d.Objects == codecdriver.NoObjects:
		return refuse("have no codec that defines how they are stored: %s is not for objects", id)
	case d.Objects == codecdriver.Arrays:
		return refuse("are arrays of numbers (codec %s), but netCDF data in Zarr has no such type", id)
	}
	return nil
}

// checkText fails if the variable stores UTF-8 strings and src contains a string that is
// not valid UTF-8.
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
