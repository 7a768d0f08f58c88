// Package driver is the interface that a storage driver implements: an
// [Opener] that makes [Map]s. Authors compile against this package and
// core/ncerr and nothing else.
//
// Users never call a Map of this package directly: core/zmap puts a portable
// Map in front of it, which validates keys and ranges, copies nothing, wraps
// errors once with operation and key, refuses calls after Close, and falls
// back where a capability is absent. So a driver may rely on everything that
// is said under "Callers guarantee" below, and must keep everything under
// "Implementations must".
//
// # Keys
//
// Keys are UTF-8 without a leading or trailing slash, without empty, "." or
// ".." segments and without control characters. A prefix is empty (the root)
// or a key followed by one slash. A driver that finds an object whose name
// breaks these rules leaves it out of listings.
//
// # Semantics
//
// Only content-bearing keys exist; content of length 0 is content. A key
// without content, whether it is absent or only a prefix of others, is
// ncerr.ErrNotFound. A content-bearing key is never a prefix of another key:
// a driver that declares PrefixExclusive refuses such a Put with
// ncerr.ErrObjectExists, others tolerate it.
//
// # Errors
//
// Drivers return ncerr kinds for what they recognise and raw errors for the
// rest (they become ncerr.ErrIO). ncerr.ErrNotFound as the outermost kind is
// the one way to say "absent": it must never be returned because a request
// failed, a mount vanished or a permission was missing. A context error is
// returned only when the caller's context ended; a driver's own timeout is
// ncerr.ErrIO.
//
// # Concurrency
//
// All methods may be called from several goroutines at once, except that no
// call is made during or after Close.
package driver

import (
	"context"
	"io"
	"iter"
	"os"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Opener makes Maps of one kind of store. It is safe for concurrent use.
type Opener interface {
	// Describe gives the constant facts about the driver.
	Describe() Description
	// Open opens or creates the store that spec names.
	//
	// Callers guarantee: spec.Path is not empty for drivers that need a path.
	// Implementations must: return ncerr.ErrNoDataset in modes Read and Update
	// when there is no store, unless to find that out costs a request of its
	// own: then the first read may show it; ncerr.ErrExists in mode CreateExclusive when
	// there is one; in mode Create start from an empty store (what was there
	// before is gone at the latest after Flush, and is still whole when the
	// process dies before it, where the medium can do that); in mode Read
	// never change anything.
	Open(ctx context.Context, spec OpenSpec) (Map, error)
	// Remove deletes the whole store. One that is not there is
	// ncerr.ErrNoDataset.
	Remove(ctx context.Context, spec OpenSpec) error
}

// Description is what a driver says about itself.
type Description struct {
	// Name is the driver's name in URLs and configuration: "file", "zip".
	Name string `json:"name"`
	// Summary is one line for people.
	Summary string `json:"summary"`
	// Options lists the keys that OpenSpec.Options may have.
	Options []Option `json:"options,omitempty"`
	// Grants lists what the driver needs from its sandbox, each as [Grant]
	// describes. A built-in driver is given what it lists, or, when it is a
	// [Granter], what that gives for the store. A plugin of others is given
	// the grants of the kinds path and dir that it lists, as their paths are
	// what the user names, and beyond them only what the configuration says.
	Grants []string `json:"grants,omitempty"`
	// Siblings reports that appending letters to a Path with a slash in it names
	// another, disjoint store. Only then can a dataset be kept until its
	// replacement, made in such a store, is complete. Without Siblings, replacing
	// is refused unless the user forces it.
	Siblings bool `json:"siblings,omitempty"`
}

// Option documents one configuration key.
type Option struct {
	Name    string `json:"name"`
	Type    string `json:"type"` // "string", "int", "bool", "size" (see [Size]), "duration" (a string such as "30s")
	Default string `json:"default,omitempty"`
	Doc     string `json:"doc"`
	Secret  bool   `json:"secret,omitempty"`
}

// Mode says what a store is opened for. Wire values: append only.
type Mode uint8

// The modes.
const (
	Read            Mode = iota // an existing store, never written
	Update                      // an existing store, read and written
	Create                      // an empty store; whatever was there is replaced
	CreateExclusive             // an empty store; refused when one exists
)

// Writable reports whether the mode allows writes.
func (m Mode) Writable() bool { return m != Read }

// OpenSpec names a store and how it is opened.
type OpenSpec struct {
	// Path is the store's place in the driver's own terms: a file path for
	// file and zip, bucket/key for s3.
	Path string
	// Endpoint is the server for drivers that have one, as scheme://host[:port].
	Endpoint string
	// Options is a JSON object with the driver's options; nil means none.
	// See [DecodeOptions].
	Options []byte
	// Mode says what the store is opened for.
	Mode Mode
	// Documents are the last segments of the keys of metadata documents, if the
	// caller knows what the store holds: objects that are read first, and by which
	// the root of a dataset is recognised. It is a hint for drivers that store such
	// objects, or judge answers for them, in another way than others.
	Documents []string
	// Env holds what only a caller in the same process can supply.
	Env Env
}

// Env is the in-process surroundings of a Map. It never crosses a process
// boundary.
type Env struct {
	// Inner, when not nil, is a Map in which the store's bytes live as one
	// object named InnerKey (a zip archive in an S3 bucket). A driver that
	// cannot use it returns ncerr.ErrUnsupported. The caller keeps it open
	// longer than the new Map and closes it.
	Inner    Map
	InnerKey string
}

// Map is one open store.
//
// Callers guarantee: keys and prefixes are valid; option pointers are never
// nil; ranges have Offset and Length as [Range] allows.
type Map interface {
	// Capabilities gives constant facts; it is called once after Open.
	Capabilities() Capabilities

	// Get reads an object or a range of it into memory that alloc gives.
	//
	// Implementations must: call alloc at most once, with the exact number of
	// bytes that will be delivered, and fill and return what it gave, nothing
	// else; call it only once that number is known; fail with
	// ncerr.ErrNotFound when there is no object, ncerr.ErrConflict when
	// opts.IfMatch differs from the object's version, ncerr.ErrRange when
	// the range is not wholly inside the object (see Range), ncerr.ErrLimit
	// when the result would be longer than opts.Limit; return an error of
	// alloc unchanged. On any error after alloc, the bytes that did land are
	// returned beside the error. Info.Size is always the size of the whole
	// object.
	Get(ctx context.Context, key string, opts *GetOptions, alloc Alloc) ([]byte, Info, error)

	// Stat gives facts about an object without its content.
	Stat(ctx context.Context, key string) (Info, error)

	// Put replaces the whole object atomically: a reader sees the old content
	// or the new, never a mixture, and after a failure the old.
	//
	// Implementations must: fail with ncerr.ErrObjectExists when
	// opts.IfAbsent and the object exists, with ncerr.ErrConflict when
	// opts.IfMatch does not match, with ncerr.ErrAmbiguous when the outcome
	// cannot be known; never keep body after returning, and store nothing
	// any more. An error that is the context's leaves open whether the object
	// is the old one or the new; it stays what it is until the next write.
	Put(ctx context.Context, key string, body Body, opts *PutOptions) (Info, error)

	// Delete removes an object. Deleting what is not there is no error. What
	// Put says of the end of the context holds.
	Delete(ctx context.Context, key string, opts *DeleteOptions) error

	// List gives the objects and prefixes below prefix. The sequence stops
	// after the first error, which it yields with a zero Entry. A prefix with
	// nothing below it is an empty sequence, not an error.
	//
	// Implementations must: yield each entry once; with opts.Recursive yield
	// objects only; otherwise yield the next whole segments: an object as its
	// key, a deeper key as its prefix with a trailing slash (a name may be
	// both); yield only entries with Key > opts.StartAfter in byte order;
	// yield in byte order of Key when Capabilities.OrderedList is set; stop
	// soon after the context ends; let other calls be made while the listing is
	// under way, from its loop too.
	List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Entry, error]

	// Flush makes everything written so far durable and visible to others,
	// as far as Capabilities.Durable says. After an error nothing written
	// since the last Flush may be relied upon. It changes no version.
	Flush(ctx context.Context) error

	// Close releases the Map without flushing: what was not flushed and is
	// not Durable OnPut is discarded. It is called once.
	Close(ctx context.Context) error
}

// GetManyer is an optional fast path of a Map: many reads in one call.
type GetManyer interface {
	// GetMany performs all requests, in any order, several at once if it
	// pays, and calls sink once for each from one goroutine at a time. data
	// is lent until sink returns. The error is for the call as a whole: after
	// it, requests whose sink was not called have not been done.
	GetMany(ctx context.Context, reqs []GetRequest, sink GetSink) error
}

// GetRequest is one read of a GetMany.
type GetRequest struct {
	Key  string
	Opts GetOptions
	// Alloc supplies the destination; nil lets the Map use memory of its own.
	Alloc Alloc
}

// GetSink takes the result of request i.
type GetSink func(i int, data []byte, info Info, err error)

// PutManyer is an optional fast path of a Map: many writes in one call.
type PutManyer interface {
	// PutMany performs all requests, in any order, several at once if it pays,
	// and calls sink once for each from one goroutine at a time. Each request
	// has the result that Put has, whatever becomes of the others: its
	// condition, its error and the state of its object are its own. The error is
	// for the call as a whole: after it, requests whose sink was not called have
	// not been done, except that after the error of the context they may have
	// been, as with Put.
	//
	// Callers guarantee: the keys differ; bodies do not change until PutMany
	// returns; sink does not call the Map. Implementations must: keep no body
	// after returning, and store nothing any more.
	PutMany(ctx context.Context, reqs []PutRequest, sink PutSink) error
}

// PutRequest is one write of a PutMany.
type PutRequest struct {
	Key  string
	Body Body
	Opts PutOptions
}

// PutSink takes the result of request i.
type PutSink func(i int, info Info, err error)

// Alloc gives a slice of exactly n bytes to read into: heap, a pool, the
// caller's own array or a shared region. It fails with ncerr.ErrLimit or
// ncerr.ErrShortBuffer when n is more than the caller takes.
type Alloc func(n int64) ([]byte, error)

// Heap is the Alloc that makes a new slice.
func Heap(n int64) ([]byte, error) { return make([]byte, n), nil }

// Into gives an Alloc that reads into dst; a result longer than dst is
// ncerr.ErrShortBuffer.
func Into(dst []byte) Alloc {
	return func(n int64) ([]byte, error) {
		if n < 0 || n > int64(len(dst)) {
			return nil, ncerr.Errorf(ncerr.ErrShortBuffer, "", "", "need %d bytes, have %d", n, len(dst))
		}
		return dst[:n], nil
	}
}

// Range is a part of an object, in bytes.
//
// Offset >= 0 and Length >= 0: exactly these bytes; one that reaches past the
// end is ncerr.ErrRange. Length == -1: from Offset to the end; Offset equal to
// the size gives no bytes, beyond it is ncerr.ErrRange. Offset < 0: the last
// -Offset bytes, all of them when the object is shorter (Length is -1).
type Range struct{ Offset, Length int64 }

// Resolve gives the absolute start and length of r in an object of the given
// size, or ncerr.ErrRange.
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
	return 0, 0, ncerr.Errorf(ncerr.ErrRange, "", "", "range %d+%d of an object of %d bytes", r.Offset, r.Length, size)
}

// GetOptions are the options of Get. The zero value reads the whole object.
type GetOptions struct {
	// Range is the part to read; nil is the whole object.
	Range *Range
	// IfMatch, when not empty, makes the read fail with ncerr.ErrConflict
	// unless the object's version is this. Only set when the Map declares
	// Capabilities.IfMatch; otherwise the portable Map compares.
	IfMatch string
	// Limit, when > 0, is the largest number of bytes to deliver.
	Limit int64
}

// PutOptions are the options of Put. At most one field is set, and only when
// the Map declares the capability.
type PutOptions struct {
	IfAbsent bool   // only when there is no such object
	IfMatch  string // only when the object has this version
}

// DeleteOptions are the options of Delete.
type DeleteOptions struct{}

// ListOptions are the options of List.
type ListOptions struct {
	Recursive  bool   // all objects below the prefix rather than the next segments
	StartAfter string // only entries after this key in byte order; empty: all
}

// Info is what is known about an object.
type Info struct {
	Size    int64     // size of the whole object in bytes
	Version string    // changes whenever the content does, and belongs to the content beside which it is told; empty when the store has none
	ModTime time.Time // zero when unknown
	// NoRanges says that a range of the object costs all of it, or all that
	// comes before: it is packed, or its server ignores ranges. Who wants many
	// ranges had better read the whole.
	NoRanges bool
	// CRC32C is that of the whole object, in base64 as S3 writes it. A Get of a
	// whole object that broke may give it beside its error, for whoever reads
	// on and puts the pieces together; it is empty otherwise, and always out of
	// process.
	CRC32C string
}

// Entry is one result of List.
type Entry struct {
	Key    string // the object's key, or the prefix with its trailing slash
	Prefix bool   // a prefix rather than an object
	Info   Info   // Size -1 when the listing does not know it
}

// Durability says when a Put is safe and visible.
type Durability uint8

// The durabilities. Wire values: append only.
const (
	OnPut   Durability = iota // when Put returns
	OnFlush                   // when Flush returns
)

// Latency is the class of a store's answer time.
type Latency uint8

// The latency classes. Wire values: append only.
const (
	Local  Latency = iota // below a millisecond: memory or a local disk
	Remote                // tens of milliseconds: an object store
)

// Capabilities are facts about a Map, asked once. All are positive: the zero
// value claims nothing.
type Capabilities struct {
	Ranges          bool       // Get reads ranges without reading the rest
	List            bool       // List works
	Write           bool       // Put works in writable modes
	Delete          bool       // Delete works in writable modes
	IfAbsent        bool       // Put honours IfAbsent
	IfMatch         bool       // Get and Put honour IfMatch
	RecursiveList   bool       // List honours Recursive
	OrderedList     bool       // List yields in byte order
	PrefixExclusive bool       // a Put that would make a key a prefix of another is refused
	Durable         Durability // when writes are safe
	MaxKey          int        // longest key in bytes; 0 is unlimited
	Latency         Latency
	MaxObject       int64 // largest object in bytes; 0 is unlimited, or not known
}

// Body is the content of a Put. It can be read more than once and from
// several goroutines; it must not change until Put returns.
type Body interface {
	io.ReaderAt
	Size() int64
}

// Bytes is a Body in memory; drivers may use the slice without copying it,
// until Put returns.
type Bytes []byte

// Size gives the length.
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

// FileLender is an optional ability of a Map whose objects, or some of them,
// lie unchanged in regular files of the local system: who reads may read the
// file itself. It is a fast path; Get gives the same bytes.
type FileLender interface {
	// LendFile opens the file that has the content of an object, for reading,
	// and tells at which offset it begins. The caller closes the file. An
	// object that does not lie in a file as it is, is ncerr.ErrUnsupported;
	// other errors are those of Get.
	LendFile(ctx context.Context, key string) (f *os.File, offset int64, info Info, err error)
}
