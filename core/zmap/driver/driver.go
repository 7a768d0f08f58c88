// Package driver defines the interface of a storage driver: an [Opener] that returns a
// [Map] per store. Driver authors need only this package and core/ncerr.
//
// Users never call a Map of this package directly. They call the portable Map of
// core/zmap, which validates keys and ranges, adds the operation and key to errors,
// refuses calls after Close, and emulates missing capabilities. It does not copy
// content. A driver can rely on everything under "Callers guarantee" below, and must do
// everything under "Implementations must".
//
// # Keys
//
// Keys are UTF-8 without a leading or trailing slash, without empty, "." or ".." segments
// and without control characters. A prefix is empty (the root) or a key followed by one
// slash. A driver omits objects from listings if their names break these rules.
//
// # Semantics
//
// A key exists only if it has content, which may have length 0. For any other key, even
// one that is a prefix of others, the driver returns ncerr.ErrNotFound. A key with
// content should not be a prefix of another key. A driver that declares PrefixExclusive
// refuses a Put that would cause this with ncerr.ErrObjectExists; other drivers allow
// it.
//
// # Errors
//
// Drivers return ncerr kinds for the errors that they recognize and raw errors for all
// others, which become ncerr.ErrIO. The outermost kind ncerr.ErrNotFound means that the
// object is absent. A driver must not return it because a request failed, a file system
// was unmounted or a permission was missing. A driver returns a context error only if
// the caller's context is done. A timeout of the driver itself is ncerr.ErrIO.
//
// # Concurrency
//
// All methods are safe for concurrent use, but callers make no call during or after
// Close.
package driver

import (
	"context"
	"io"
	"iter"
	"os"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Opener opens the stores of one driver. It is safe for concurrent use.
type Opener interface {
	// Describe returns the constant properties of the driver.
	Describe() Description
	// Open opens or creates the store that spec describes. ctx ends with the call, so the
	// Map must not use it.
	//
	// Callers guarantee: spec.Path is not empty for drivers that need a path.
	//
	// Implementations must:
	//   - return ncerr.ErrNoDataset in the modes Read and Update if the store does not
	//     exist; if this check requires an extra request, the first read may return the
	//     error instead;
	//   - return ncerr.ErrExists in mode CreateExclusive if the store exists;
	//   - start from an empty store in mode Create; the old content must not exist after
	//     Flush, and with Durable OnFlush it must be intact if the Map is closed or the
	//     process dies before Flush;
	//   - change nothing in mode Read.
	Open(ctx context.Context, spec OpenSpec) (Map, error)
	// Remove deletes the whole store. It returns ncerr.ErrNoDataset if the store does not
	// exist.
	Remove(ctx context.Context, spec OpenSpec) error
}

// Description describes a driver.
type Description struct {
	// Name is the driver's name in URLs and configuration: "file", "zip".
	Name string `json:"name"`
	// Summary is a one-line description of the driver.
	Summary string `json:"summary"`
	// Options lists the keys allowed in OpenSpec.Options.
	Options []Option `json:"options,omitempty"`
	// Grants lists the permissions that the driver needs from its sandbox, each in the
	// form described at [Grant]. A built-in driver receives the grants it lists, or, if
	// it implements [Granter], those returned for the store. A third-party plugin
	// receives the grants of the kinds [GrantPath] and [GrantDir] that it lists, because
	// the user specifies those paths. It receives other grants only if the configuration
	// allows them.
	Grants []string `json:"grants,omitempty"`
	// Siblings reports whether appending letters to a Path that contains a slash results
	// in the Path of a separate store. If so, a dataset that replaces another one is
	// written to such a store, and the old dataset is kept until the new one is complete.
	// Without Siblings, a dataset is replaced only if the user forces it.
	Siblings bool `json:"siblings,omitempty"`
	// Locality states where stores are.
	Locality Locality `json:"locality,omitempty"`
	// Nested reports whether a store can lie inside another store of the driver: the
	// objects of the store at Path "a/b" are those of the store at "a" whose keys begin
	// with "b/". If so, a dataset is searched for at the paths above a location, and the
	// driver must be able to open these. A third-party plugin is not given access to
	// paths above the one that the user specifies, so its claim has no effect.
	Nested bool `json:"nested,omitempty"`
	// Schemes lists the URL schemes of the driver's stores, in lower case. The rules for
	// the schemes file, mem, s3, gs3, http and https belong to core/ncurl. For any other
	// scheme, the URL is SCHEME://AUTHORITY/PATH, and OpenSpec.Path is AUTHORITY/PATH,
	// decoded and without slashes at its ends. A query is accepted if an option takes it.
	// If two drivers have the same scheme, its URLs are refused.
	Schemes []string `json:"schemes,omitempty"`
	// Servers reports whether the authority of a URL with such a scheme is a host with an
	// optional port. OpenSpec.Endpoint is then SCHEME://AUTHORITY, and OpenSpec.Path is
	// PATH only, which may be empty.
	Servers bool `json:"servers,omitempty"`
}

// Option describes one configuration key. Open accepts every value that the description
// allows, and rejects keys that are not described.
type Option struct {
	Name string `json:"name"`
	Type string `json:"type"` // "string", "int", "bool", "size" (see [Size]), "duration" (a string such as "30s")
	// Default is the value of an absent option, as text that Open accepts. If it is empty,
	// Doc describes the effect of omitting the option. An empty value has the same effect.
	Default string `json:"default,omitempty"`
	Doc     string `json:"doc"`
	Secret  bool   `json:"secret,omitempty"`
	// From is the fact of a location that sets the option: one of the constants that
	// begin with From. If it is empty or unknown, only the configuration sets the option.
	From string `json:"from,omitempty"`
}

// Mode is the purpose for which a store is opened. The values are part of the wire
// protocol, so new values must be appended.
type Mode uint8

// The modes.
const (
	Read            Mode = iota // an existing store for reading
	Update                      // an existing store for reading and writing
	Create                      // an empty store that replaces an existing one
	CreateExclusive             // an empty store; Open fails if the store exists
)

// Writable reports whether the mode allows writes.
func (m Mode) Writable() bool { return m != Read }

// OpenSpec specifies a store and how to open it.
type OpenSpec struct {
	// Path is the location of the store in the driver's own form: a file path for file
	// and zip, bucket/key for s3.
	Path string
	// Endpoint is the server as scheme://host[:port], for drivers that have one.
	Endpoint string
	// Options is a JSON object with the driver's options; nil means no options. See
	// [DecodeOptions].
	Options []byte
	// Mode is the purpose for which the store is opened.
	Mode Mode
	// Documents lists the last key segments of metadata documents, if the caller knows
	// the format of the content. Such objects are read first and identify the root of a
	// dataset. Drivers may store these objects, or interpret the server's responses for
	// them, differently.
	Documents []string
}

// Map is one open store.
//
// Callers guarantee: keys and prefixes are valid; option pointers are never
// nil; ranges have Offset and Length as [Range] allows.
type Map interface {
	// Capabilities returns constant properties. It is called once after Open.
	Capabilities() Capabilities

	// Get reads an object, or a range of it, into memory returned by alloc.
	//
	// Implementations must:
	//   - call alloc at most once, with the exact number of bytes to deliver, and only
	//     once that number is known;
	//   - fill and return the slice that alloc returned, and nothing else;
	//   - fail with ncerr.ErrNotFound if the object does not exist, with
	//     ncerr.ErrConflict if opts.IfMatch differs from the object's version, with
	//     ncerr.ErrRange if the range is not entirely inside the object (see [Range]),
	//     and with ncerr.ErrLimit if the result exceeds opts.Limit;
	//   - return an error from alloc unchanged;
	//   - return the bytes read so far together with any other error after alloc;
	//   - set Info.Size to the size of the whole object.
	Get(ctx context.Context, key string, opts *GetOptions, alloc Alloc) ([]byte, Info, error)

	// Stat returns information about an object without its content.
	Stat(ctx context.Context, key string) (Info, error)

	// Put replaces the whole object atomically. A reader sees either the old or the new
	// content, never a mixture. After a failure it sees the old content.
	//
	// Implementations must:
	//   - fail with ncerr.ErrObjectExists if opts.IfAbsent is set and the object
	//     exists, with ncerr.ErrConflict if opts.IfMatch does not match, and with
	//     ncerr.ErrAmbiguous if the outcome cannot be known;
	//   - not use body, and store nothing, after Put has returned.
	//
	// After a context error the object may be the old or the new one, but it does not
	// change until the next write.
	Put(ctx context.Context, key string, body Body, opts *PutOptions) (Info, error)

	// Delete removes an object. It succeeds if the object does not exist. Context errors
	// have the same meaning as for Put.
	Delete(ctx context.Context, key string, opts *DeleteOptions) error

	// List returns the objects and prefixes below prefix. The sequence ends after the
	// first error, which is yielded with a zero Entry. It is empty if nothing is below
	// prefix.
	//
	// Implementations must:
	//   - yield each entry once;
	//   - yield only objects if opts.Recursive is set;
	//   - if opts.Recursive is not set, yield only what is directly below prefix: an
	//     object as its key, and a prefix of deeper keys with a trailing slash (a name
	//     may be both);
	//   - yield only entries with Key > opts.StartAfter in byte order;
	//   - yield in byte order of Key if Capabilities.OrderedList is set;
	//   - stop soon after ctx is done;
	//   - allow other calls during the listing, including from its loop.
	List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Entry, error]

	// Flush makes all previous writes durable and visible to others, as described by
	// Capabilities.Durable. If it fails, no write since the last successful Flush can be
	// relied upon. Flush changes no version.
	Flush(ctx context.Context) error

	// Close releases the Map without flushing. It discards writes that are neither
	// flushed nor Durable OnPut. Callers call it once.
	Close(ctx context.Context) error
}

// GetManyer is an optional interface of a Map that reads many objects in one call.
type GetManyer interface {
	// GetMany performs all requests, in any order and possibly concurrently. It calls
	// sink once per request, never concurrently. The data passed to sink is valid until
	// sink returns. The returned error is about the call as a whole: requests for which
	// sink was not called were not performed.
	GetMany(ctx context.Context, reqs []GetRequest, sink GetSink) error
}

// GetRequest is one request of a GetMany.
type GetRequest struct {
	Key  string
	Opts GetOptions
	// Alloc returns the destination; nil means memory of the Map.
	Alloc Alloc
}

// GetSink receives the result of request i.
type GetSink func(i int, data []byte, info Info, err error)

// PutManyer is an optional interface of a Map that writes many objects in one call.
type PutManyer interface {
	// PutMany performs all requests, in any order and possibly concurrently. It calls
	// sink once per request, never concurrently. Each request has the same result as a
	// Put, independent of the others. The returned error is about the call as a whole:
	// requests for which sink was not called were not performed. After a context error
	// they may have been performed, as with Put.
	//
	// Callers guarantee: the keys differ; a body does not change until its request has a
	// result or PutMany returns; sink does not call the Map.
	//
	// Implementations must: not use a body after its result, and store nothing after
	// PutMany has returned.
	PutMany(ctx context.Context, reqs []PutRequest, sink PutSink) error
}

// PutRequest is one request of a PutMany.
type PutRequest struct {
	Key  string
	Body Body
	Opts PutOptions
	// OnStart, if not nil, may be called once when the Map begins to perform the
	// request, never concurrently with the sink or another OnStart. Layers measure the
	// time of a request from this call, or from the start of PutMany if OnStart is not
	// called.
	OnStart func()
}

// Start calls OnStart if it is not nil.
func (r *PutRequest) Start() {
	if r.OnStart != nil {
		r.OnStart()
	}
}

// PutSink receives the result of request i.
type PutSink func(i int, info Info, err error)

// Alloc returns a slice of exactly n bytes to read into: heap memory, a pooled buffer,
// the caller's own array or a shared region. It fails with ncerr.ErrLimit or
// ncerr.ErrShortBuffer if n is too large for the caller.
type Alloc func(n int64) ([]byte, error)

// Heap is an Alloc that returns a new slice.
func Heap(n int64) ([]byte, error) { return make([]byte, n), nil }

// Into returns an Alloc that reads into dst. The Alloc fails with ncerr.ErrShortBuffer if
// the result is longer than dst.
func Into(dst []byte) Alloc {
	return func(n int64) ([]byte, error) {
		if n < 0 || n > int64(len(dst)) {
			return nil, ncerr.Errorf(ncerr.ErrShortBuffer, "", "", "the result has %d bytes, but the buffer has %d", n, len(dst))
		}
		return dst[:n], nil
	}
}

// Range is a byte range of an object. It has one of three forms:
//
//   - Offset >= 0 and Length >= 0: exactly these bytes. A range that extends past the
//     end is ncerr.ErrRange.
//   - Offset >= 0 and Length == -1: all bytes from Offset to the end. The range is
//     empty if Offset equals the size, and ncerr.ErrRange if Offset exceeds it.
//   - Offset < 0 and Length == -1: the last -Offset bytes, or all bytes if the object
//     is shorter.
type Range struct{ Offset, Length int64 }

// Resolve returns the absolute start and length of r in an object of the given size. It
// fails with ncerr.ErrRange if r is not inside the object.
func (r Range) Resolve(size int64) (start, length int64, err error) {
	switch {
	case r.Offset < 0:
		length = min(-r.Offset, size)
		if length < 0 { // -Offset overflowed
			length = size
		}
		return size - length, length, nil
	case r.Offset > size:
	case r.Length < 0:
		return r.Offset, size - r.Offset, nil
	case r.Length <= size-r.Offset:
		return r.Offset, r.Length, nil
	}
	return 0, 0, ncerr.Errorf(ncerr.ErrRange, "", "", "the range with offset %d and length %d is outside the object of %d bytes", r.Offset, r.Length, size)
}

// GetOptions holds the options of Get. The zero value reads the whole object.
type GetOptions struct {
	// Range is the part to read; nil means the whole object.
	Range *Range
	// IfMatch, if not empty, makes Get fail with ncerr.ErrConflict unless the object has
	// this version. Callers set it only if the Map declares Capabilities.IfMatch;
	// otherwise the portable Map compares versions.
	IfMatch string
	// Limit, if positive, is the maximum number of bytes to deliver.
	Limit int64
}

// PutOptions holds the options of Put. Callers set at most one field, and only if the Map
// declares the capability.
type PutOptions struct {
	IfAbsent bool   // the Put succeeds only if the object does not exist
	IfMatch  string // the Put succeeds only if the object has this version
}

// DeleteOptions holds the options of Delete.
type DeleteOptions struct{}

// ListOptions holds the options of List.
type ListOptions struct {
	Recursive  bool   // list all objects below the prefix, not only the objects and prefixes directly below it
	StartAfter string // key after which the listing starts, in byte order; empty means all
	// Info asks for the Info of each object even if the driver has to examine each object
	// for it, as in a directory. A driver for which that takes a request per object should
	// ignore it. An entry whose object cannot be examined has size -1.
	Info bool
}

// Info describes an object.
type Info struct {
	Size    int64     // size of the whole object in bytes
	Version string    // identifies the content, and changes whenever the content changes; empty if the store has no versions
	ModTime time.Time // zero if unknown
	// NoRanges reports whether reading a range requires reading the whole object, or
	// everything before the range. This is the case if the object is compressed or its
	// server ignores ranges. Callers that need many ranges should read the whole object.
	NoRanges bool
	// CRC32C is the checksum of the whole object, in base64 as S3 writes it. A Get of a
	// whole object may return it with an error, for a caller that resumes the read. It
	// is empty in all other cases, and always empty for drivers in another process.
	CRC32C string
}

// Entry is one result of List.
type Entry struct {
	Key    string // the object's key, or the prefix with its trailing slash
	Prefix bool   // Key is a prefix rather than an object
	Info   Info   // Size is -1 if the listing does not report it
}

// Durability describes when a Put becomes durable and visible.
type Durability uint8

// The durabilities. The values are part of the wire protocol, so new values must be
// appended.
const (
	OnPut   Durability = iota // a write is durable when Put returns
	OnFlush                   // a write is durable when Flush returns
)

// Latency is the latency class of a store.
type Latency uint8

// The latency classes. The values are part of the wire protocol, so new values must be
// appended.
const (
	Local  Latency = iota // less than a millisecond: memory or a local disk
	Remote                // tens of milliseconds: an object store
)

// Capabilities describes what a Map supports. It is read once. The zero value declares
// no capability.
type Capabilities struct {
	Ranges          bool       // Get reads a range without reading the rest
	List            bool       // List works
	Write           bool       // Put works in writable modes
	Delete          bool       // Delete works in writable modes
	IfAbsent        bool       // Put honors IfAbsent
	IfMatch         bool       // Get and Put honor IfMatch
	RecursiveList   bool       // List honors Recursive
	OrderedList     bool       // List yields in byte order
	PrefixExclusive bool       // a Put that would make a key a prefix of another fails
	Durable         Durability // when writes become durable
	MaxKey          int        // maximum key length in bytes; 0 means unlimited
	Latency         Latency    // latency class of the store
	MaxObject       int64      // maximum object size in bytes; 0 means unlimited or unknown
}

// Body is the content of a Put. It can be read more than once and from several
// goroutines. It must not change until Put returns.
type Body interface {
	io.ReaderAt
	Size() int64
}

// Bytes is a Body in memory. A driver may use the slice without copying it until Put
// returns.
type Bytes []byte

// Size returns the length of b.
func (b Bytes) Size() int64 { return int64(len(b)) }

// ReadAt implements io.ReaderAt.
func (b Bytes) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// BodyLender is an optional interface of a Map. It lends memory from which the Map reads
// bodies without a copy.
type BodyLender interface {
	// LendBody returns n bytes of memory of the Map. Until the caller calls release, the
	// caller may fill the memory and pass a prefix of it, as Bytes, as the body of any number
	// of consecutive puts. The caller must call release once, when no put uses the memory.
	// LendBody returns nil and a nil release if no such memory is available. The caller may
	// then use any memory. LendBody is safe for concurrent use.
	LendBody(n int64) (mem []byte, release func())
}

// FileLender is an optional interface of a Map that stores objects unchanged in regular
// files of the local system. It lets a caller read the file directly, with the same
// result as Get.
type FileLender interface {
	// LendFile opens the file that holds the content of an object for reading, and
	// returns the offset at which the content begins. The caller closes the file.
	// LendFile fails with ncerr.ErrUnsupported if the object is not stored unchanged in a
	// file. Other errors are the same as for Get.
	LendFile(ctx context.Context, key string) (f *os.File, offset int64, info Info, err error)
}
