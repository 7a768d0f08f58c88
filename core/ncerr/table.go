package ncerr

import (
	"context"
	"errors"
)

// Kind classifies an error. Kinds are sent to plugins, so new kinds are appended
// and existing kinds keep their numbers. The zero Kind means "no error" and is
// never a sentinel.
type Kind uint16

// The kinds. [Table] lists their meanings, netCDF codes, gRPC codes and exit codes.
const (
	ErrNotFound     Kind = iota + 1 // no object with this key
	ErrNoDataset                    // no dataset at the location
	ErrNoObject                     // an object that the metadata requires is missing
	ErrExists                       // the dataset to create already exists
	ErrObjectExists                 // the object already exists
	ErrReadOnly                     // write to a read-only store
	ErrPermission                   // the store denied access
	ErrAuth                         // credentials missing or bad
	ErrInvalid                      // bad argument
	ErrBadName                      // illegal key or name
	ErrBadURL                       // malformed location
	ErrRange                        // index or count outside the shape
	ErrConvert                      // value not representable
	ErrBadType                      // type mismatch or unknown type
	ErrNoVar                        // no such variable
	ErrNoAttr                       // no such attribute
	ErrNoDim                        // no such dimension
	ErrNoGroup                      // no such group
	ErrNameInUse                    // duplicate name
	ErrBadChunk                     // chunk shape invalid
	ErrNotZarr                      // not Zarr, or a malformed document
	ErrMetadata                     // document parses but is inconsistent
	ErrConsolidated                 // consolidated metadata is wrong
	ErrCorrupt                      // checksum or length wrong
	ErrNoFilter                     // filter unknown or not installed
	ErrFilter                       // filter failed
	ErrLimit                        // a limit was exceeded
	ErrUnsupported                  // the operation is not supported
	ErrConflict                     // the object's version differs from the required one
	ErrS3                           // S3 failure without a better kind
	ErrIO                           // another transport or disk failure
	ErrPlugin                       // failure of a plugin: launch, handshake, protocol or crash
	ErrInternal                     // a bug in nczarr
	ErrAmbiguous                    // a write whose outcome is unknown
	ErrShortBuffer                  // destination too small
	ErrDiffers                      // a comparison or a conformance check failed
	ErrOther                        // a kind that this version does not define
)

// Row describes one kind.
type Row struct {
	Kind    Kind
	Name    string // Go name of the sentinel
	Meaning string // the result of Kind.Error
	NCName  string // name of the netCDF code
	NC      int    // netCDF code (source: netcdf-c include/netcdf.h)
	GRPC    uint32 // gRPC status code
	Exit    int    // exit code of nczctl
}

// gRPC status codes. They are repeated here so that this package imports only the
// standard library.
const (
	gUnknown            = 2
	gInvalidArgument    = 3
	gNotFound           = 5
	gAlreadyExists      = 6
	gPermissionDenied   = 7
	gResourceExhausted  = 8
	gFailedPrecondition = 9
	gAborted            = 10
	gOutOfRange         = 11
	gUnimplemented      = 12
	gInternal           = 13
	gUnavailable        = 14
	gDataLoss           = 15
	gUnauthenticated    = 16
)

// Exit codes for outcomes without a kind.
const (
	ExitOK       = 0
	ExitOther    = 1
	ExitUsage    = 2
	ExitCanceled = 130
)

var table = [...]Row{
	{ErrNotFound, "ErrNotFound", "no object at this key", "NC_EEMPTY", -139, gNotFound, 10},
	{ErrNoDataset, "ErrNoDataset", "no dataset at this location", "NC_ENOTFOUND", -90, gNotFound, 10},
	{ErrNoObject, "ErrNoObject", "object required by the metadata is missing", "NC_ENOOBJECT", -141, gDataLoss, 13},
	{ErrExists, "ErrExists", "location already in use", "NC_EEXIST", -35, gAlreadyExists, 11},
	{ErrObjectExists, "ErrObjectExists", "object already exists", "NC_EOBJECT", -140, gAlreadyExists, 11},
	{ErrReadOnly, "ErrReadOnly", "store is open for reading only", "NC_EPERM", -37, gFailedPrecondition, 12},
	{ErrPermission, "ErrPermission", "permission denied", "NC_EACCESS", -77, gPermissionDenied, 12},
	{ErrAuth, "ErrAuth", "credentials missing or rejected", "NC_EAUTH", -78, gUnauthenticated, 12},
	{ErrInvalid, "ErrInvalid", "invalid argument", "NC_EINVAL", -36, gInvalidArgument, 2},
	{ErrBadName, "ErrBadName", "illegal name or key", "NC_EBADNAME", -59, gInvalidArgument, 2},
	{ErrBadURL, "ErrBadURL", "malformed location", "NC_EURL", -74, gInvalidArgument, 2},
	{ErrRange, "ErrRange", "outside the bounds", "NC_EINVALCOORDS", -40, gOutOfRange, 2},
	{ErrConvert, "ErrConvert", "value not representable", "NC_ERANGE", -60, gOutOfRange, 13},
	{ErrBadType, "ErrBadType", "wrong or unknown type", "NC_EBADTYPE", -45, gInvalidArgument, 13},
	{ErrNoVar, "ErrNoVar", "no such variable", "NC_ENOTVAR", -49, gNotFound, 10},
	{ErrNoAttr, "ErrNoAttr", "no such attribute", "NC_ENOTATT", -43, gNotFound, 10},
	{ErrNoDim, "ErrNoDim", "no such dimension", "NC_EBADDIM", -46, gNotFound, 10},
	{ErrNoGroup, "ErrNoGroup", "no such group", "NC_ENOGRP", -125, gNotFound, 10},
	{ErrNameInUse, "ErrNameInUse", "name already in use", "NC_ENAMEINUSE", -42, gAlreadyExists, 11},
	{ErrBadChunk, "ErrBadChunk", "invalid chunk shape", "NC_EBADCHUNK", -127, gInvalidArgument, 13},
	{ErrNotZarr, "ErrNotZarr", "not Zarr", "NC_ENOTZARR", -143, gDataLoss, 13},
	{ErrMetadata, "ErrMetadata", "bad metadata", "NC_ENCZARR", -137, gDataLoss, 13},
	{ErrConsolidated, "ErrConsolidated", "bad consolidated metadata", "NC_EZARRMETA", -144, gDataLoss, 13},
	{ErrCorrupt, "ErrCorrupt", "corrupt data", "NC_EIO", -68, gDataLoss, 13},
	{ErrNoFilter, "ErrNoFilter", "filter not available", "NC_ENOFILTER", -136, gUnimplemented, 15},
	{ErrFilter, "ErrFilter", "filter failed", "NC_EFILTER", -132, gInternal, 13},
	{ErrLimit, "ErrLimit", "limit exceeded", "NC_ENOMEM", -61, gResourceExhausted, 16},
	{ErrUnsupported, "ErrUnsupported", "not supported", "NC_ENOTBUILT", -128, gUnimplemented, 15},
	{ErrConflict, "ErrConflict", "conflict with another writer", "NC_ECANTWRITE", -103, gAborted, 1},
	{ErrS3, "ErrS3", "S3 failure", "NC_ES3", -138, gUnknown, 1},
	{ErrIO, "ErrIO", "i/o failure", "NC_EIO", -68, gUnknown, 1},
	{ErrPlugin, "ErrPlugin", "plugin failure", "NC_EPLUGIN", -142, gUnavailable, 14},
	{ErrInternal, "ErrInternal", "internal error", "NC_EINTERNAL", -92, gInternal, 1},
	{ErrAmbiguous, "ErrAmbiguous", "outcome of the write is unknown", "NC_ECANTWRITE", -103, gAborted, 1},
	{ErrShortBuffer, "ErrShortBuffer", "buffer too small", "NC_ENOMEM", -61, gResourceExhausted, 16},
	{ErrDiffers, "ErrDiffers", "differences found", "NC_EINVAL", -36, gFailedPrecondition, 3},
	{ErrOther, "ErrOther", "failure", "NC_EIO", -68, gUnknown, 1},
}

// Table returns a copy of the rows, in the order of the kinds.
func Table() []Row { return append([]Row(nil), table[:]...) }

// row returns the row of k, or of ErrOther if k is not in the table.
func (k Kind) row() Row {
	if k >= 1 && int(k) <= len(table) {
		return table[k-1]
	}
	return table[ErrOther-1]
}

// Known reports whether this version of nczarr defines k.
func (k Kind) Known() bool { return k >= 1 && int(k) <= len(table) }

// Error returns the meaning of k.
func (k Kind) Error() string { return k.row().Meaning }

// Name returns the Go name of the sentinel, such as "ErrNotFound".
func (k Kind) Name() string { return k.row().Name }

// Is reports whether target is the same kind or the standard library's sentinel for
// it: fs.ErrNotExist, fs.ErrExist or fs.ErrPermission.
func (k Kind) Is(target error) bool {
	if t, ok := target.(Kind); ok { // compared by value, not unwrapped
		return t == k
	}
	std, ok := stdlibNames[k]
	return ok && target == std // compared by identity
}

// NC returns the netCDF code of err, which is 0 for nil.
func NC(err error) int {
	if err == nil {
		return 0
	}
	return KindOf(err).row().NC
}

// GRPC returns the gRPC status code of k.
func (k Kind) GRPC() uint32 { return k.row().GRPC }

// Exit returns the exit code of nczctl for err: 0 for nil, 130 for a cancellation,
// 1 for a deadline, and otherwise the code of the outermost kind.
func Exit(err error) int {
	switch {
	case err == nil:
		return ExitOK
	case isContext(err):
		if errors.Is(err, context.Canceled) {
			return ExitCanceled
		}
		return ExitOther
	}
	return KindOf(err).row().Exit
}
