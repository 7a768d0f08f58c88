package nczarr

import "github.com/seed-695719ce/nczarr/core/ncerr"

// wrapError sets the operation of err to op, and adds the key of the operation's object
// if err has no key. Errors of a context are returned unchanged.
func wrapError(op, key string, err error) error {
	if err == nil || ncerr.IsContext(err) {
		return err
	}
	if e, ok := err.(*ncerr.Error); ok && (e.Key == "" || e.Key == key || e.Op == op) { //nolint:errorlint // only the outermost error is about key itself
		c := *e
		if c.Op = op; c.Key == "" {
			c.Key = key
		}
		return &c
	}
	e := ncerr.New(ncerr.KindOf(err), op, key, err)
	e.Retryable, e.RetryAfter = ncerr.Retry(err)
	return e
}

// The kinds of errors that programs most often test for with errors.Is. An error has
// exactly one kind. The reference page errors.md lists all kinds.
const (
	ErrNoDataset   = ncerr.ErrNoDataset   // nothing exists at the location
	ErrNotZarr     = ncerr.ErrNotZarr     // not a dataset, or a malformed document
	ErrBadURL      = ncerr.ErrBadURL      // malformed location
	ErrMetadata    = ncerr.ErrMetadata    // inconsistent metadata documents
	ErrExists      = ncerr.ErrExists      // something already exists at the location of a new dataset
	ErrNameInUse   = ncerr.ErrNameInUse   // the name is already in use
	ErrBadName     = ncerr.ErrBadName     // invalid name
	ErrNoGroup     = ncerr.ErrNoGroup     // no such group
	ErrNoVar       = ncerr.ErrNoVar       // no such variable
	ErrNoDim       = ncerr.ErrNoDim       // no such dimension
	ErrNoAttr      = ncerr.ErrNoAttr      // no such attribute
	ErrInvalid     = ncerr.ErrInvalid     // invalid argument or option
	ErrRange       = ncerr.ErrRange       // index or coordinate value out of range
	ErrConvert     = ncerr.ErrConvert     // value not representable in the other type
	ErrBadType     = ncerr.ErrBadType     // text where numbers are required, or the reverse
	ErrBadChunk    = ncerr.ErrBadChunk    // invalid chunk shape
	ErrNoFilter    = ncerr.ErrNoFilter    // codec not available
	ErrCorrupt     = ncerr.ErrCorrupt     // damaged data
	ErrLimit       = ncerr.ErrLimit       // a limit of [Limits] is exceeded
	ErrReadOnly    = ncerr.ErrReadOnly    // write to a dataset opened for reading
	ErrPermission  = ncerr.ErrPermission  // the store denied access
	ErrAuth        = ncerr.ErrAuth        // missing or wrong credentials
	ErrConflict    = ncerr.ErrConflict    // another program changed or replaced the data
	ErrUnsupported = ncerr.ErrUnsupported // feature not supported by the format, driver or library
	ErrIO          = ncerr.ErrIO          // disk or network failure
)
