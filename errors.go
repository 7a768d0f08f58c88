package nczarr

import "github.com/seed-695719ce/nczarr/core/ncerr"

// The kinds of errors that a program is likely to ask for with errors.Is. An
// error has exactly one. The reference page errors.md lists all.
const (
	ErrNoDataset   = ncerr.ErrNoDataset   // nothing at the location
	ErrNotZarr     = ncerr.ErrNotZarr     // something other than a dataset, or a malformed document
	ErrBadURL      = ncerr.ErrBadURL      // a location that cannot be understood
	ErrMetadata    = ncerr.ErrMetadata    // documents that contradict each other
	ErrExists      = ncerr.ErrExists      // something is where a dataset should be made
	ErrNameInUse   = ncerr.ErrNameInUse   // a second object of one name
	ErrBadName     = ncerr.ErrBadName     // a name that cannot be stored
	ErrNoGroup     = ncerr.ErrNoGroup     // no such group
	ErrNoVar       = ncerr.ErrNoVar       // no such variable
	ErrNoDim       = ncerr.ErrNoDim       // no such dimension
	ErrNoAttr      = ncerr.ErrNoAttr      // no such attribute
	ErrInvalid     = ncerr.ErrInvalid     // an argument or option that makes no sense
	ErrRange       = ncerr.ErrRange       // an index or coordinate value outside
	ErrConvert     = ncerr.ErrConvert     // a value that the other type cannot hold
	ErrBadType     = ncerr.ErrBadType     // text where numbers are wanted, or the reverse
	ErrBadChunk    = ncerr.ErrBadChunk    // an impossible chunk shape
	ErrNoFilter    = ncerr.ErrNoFilter    // a codec that is not there
	ErrCorrupt     = ncerr.ErrCorrupt     // damaged data
	ErrLimit       = ncerr.ErrLimit       // a ceiling of [Limits]
	ErrReadOnly    = ncerr.ErrReadOnly    // a write to what was opened for reading
	ErrPermission  = ncerr.ErrPermission  // the store refused
	ErrAuth        = ncerr.ErrAuth        // credentials are missing or wrong
	ErrConflict    = ncerr.ErrConflict    // another program changed or replaced it meanwhile
	ErrUnsupported = ncerr.ErrUnsupported // a feature that the format, driver or library lacks
	ErrIO          = ncerr.ErrIO          // the disk or the network failed
)
