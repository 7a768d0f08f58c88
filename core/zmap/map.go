package zmap

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Aliases of the names in the driver contract that users of a Map need.
type (
	// Info describes an object.
	Info = driver.Info
	// Entry is one result of List.
	Entry = driver.Entry
	// Range is a part of an object, in bytes.
	Range = driver.Range
	// GetOptions holds the options of Get.
	GetOptions = driver.GetOptions
	// PutOptions holds the options of Put.
	PutOptions = driver.PutOptions
	// ListOptions holds the options of List.
	ListOptions = driver.ListOptions
	// GetRequest is one request of a GetMany.
	GetRequest = driver.GetRequest
	// GetSink receives the result of one request of a GetMany.
	GetSink = driver.GetSink
	// PutRequest is one request of a PutMany.
	PutRequest = driver.PutRequest
	// PutSink receives the result of one request of a PutMany.
	PutSink = driver.PutSink
	// Capabilities describes what a store supports.
	Capabilities = driver.Capabilities
	// Alloc returns the memory to read into.
	Alloc = driver.Alloc
	// Body is the content of a Put.
	Body = driver.Body
	// Bytes is a Body in memory.
	Bytes = driver.Bytes
)

// The defaults of Options.MaxList and Options.MaxListBytes.
const (
	DefaultMaxList      = 1 << 22
	DefaultMaxListBytes = 256 << 20
)

// Options holds the options of [New].
type Options struct {
	// Name is the driver's name for error messages; empty means "store".
	Name string
	// Location is a printable, secret-free location of the store. It is added to errors
	// from the driver other than ncerr.ErrNotFound. Empty means no location.
	Location string
	// ReadOnly makes every write fail with ncerr.ErrReadOnly without calling the driver.
	ReadOnly bool
	// MaxList is the maximum number of entries that List holds in memory to sort them,
	// and that Search, ListAll and DeletePrefix collect. They fail with ncerr.ErrLimit
	// if there are more. 0 means [DefaultMaxList].
	MaxList int
	// MaxListBytes is the maximum total length in bytes of the keys of those entries. 0
	// means [DefaultMaxListBytes].
	MaxListBytes int64
	// InFlight is the number of concurrent calls that DeletePrefix makes to a Remote
	// store, and that GetMany and PutMany make if the driver does not implement them. 0
	// means 64.
	InFlight int
}

// Map is an open store. Use [New] to create one; the zero value is not usable. All
// methods are safe for concurrent use.
//
// Every method fails with ncerr.ErrInvalid after Close, and with the context's error if
// the context is done before the call. Methods fail with ncerr.ErrBadName for a key that
// is invalid or longer than the store allows.
type Map struct {
	m        driver.Map
	many     driver.GetManyer // nil if the driver has no GetMany
	puts     driver.PutManyer // nil if the driver has no PutMany
	caps     Capabilities
	name     string
	place    string
	readOnly bool
	maxList  int
	maxBytes int64
	inFlight int

	guards   sync.Pool // elements are *guard
	batches  sync.Pool // elements are *batch
	state    atomic.Int64
	idle     chan struct{} // closed after Close when no calls are in flight
	closing  chan struct{} // holds one token while Close runs
	released bool          // the driver has been closed; guarded by closing
}

// closedBit is set in a state that accepts no new calls. The other bits count the calls
// in flight.
const closedBit = 1 << 62

// New returns a portable Map on top of m, and takes ownership of m. A nil opts means the
// defaults.
func New(m driver.Map, opts *Options) *Map {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Name == "" {
		o.Name = "store"
	}
	if o.InFlight <= 0 {
		o.InFlight = 64
	}
	if o.MaxList <= 0 {
		o.MaxList = DefaultMaxList
	}
	if o.MaxListBytes <= 0 {
		o.MaxListBytes = DefaultMaxListBytes
	}
	z := &Map{
		m: m, caps: m.Capabilities(), name: o.Name, place: o.Location, readOnly: o.ReadOnly, maxList: o.MaxList,
		maxBytes: o.MaxListBytes, inFlight: o.InFlight, idle: make(chan struct{}), closing: make(chan struct{}, 1),
	}
	z.many, _ = m.(driver.GetManyer)
	z.puts, _ = m.(driver.PutManyer)
	z.guards.New = func() any { return newGuard() }
	z.batches.New = func() any { return newBatch() }
	return z
}

// Capabilities returns the capabilities that the driver declares. The Map emulates
// Ranges, IfMatch of a Get, RecursiveList and OrderedList, so the methods that need them
// work even if the driver does not declare them.
func (z *Map) Capabilities() Capabilities { return z.caps }

// ReadOnly reports whether the Map refuses writes.
func (z *Map) ReadOnly() bool { return z.readOnly }

// Name returns the driver's name.
func (z *Map) Name() string { return z.name }

// Unwrap returns the driver's Map. Calls to it are not checked.
func (z *Map) Unwrap() driver.Map { return z.m }

// Flush makes all previous writes durable and visible to others. If it fails, no write
// since the last successful Flush can be relied upon. On a read-only Map it does
// nothing.
func (z *Map) Flush(ctx context.Context) error {
	if err := z.enter(ctx, "flush", ""); err != nil {
		return err
	}
	defer z.leave()
	if z.readOnly {
		return nil
	}
	return z.wrap(ctx, "flush", "", z.m.Flush(ctx))
}

// Close waits for calls in flight and releases the store without flushing. All calls
// after the start of Close fail, except that a second Close does nothing. If ctx is done
// before the calls in flight end, Close returns the error of ctx, and the next Close
// releases the store. A loop over List is a call in flight until it ends.
func (z *Map) Close(ctx context.Context) error {
	select {
	case z.closing <- struct{}{}: // try this first, even if ctx is done
	default:
		select {
		case z.closing <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-z.closing }()
	if z.released {
		return nil
	}
	if old := z.state.Or(closedBit); old == 0 {
		close(z.idle)
	}
	select {
	case <-z.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	z.released = true
	return z.wrap(ctx, "close", "", z.m.Close(ctx))
}

// enter starts a call. If it succeeds, the caller must call leave.
func (z *Map) enter(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for {
		s := z.state.Load()
		if s&closedBit != 0 {
			return ncerr.Errorf(ncerr.ErrInvalid, op, key, "the %s map is closed", z.name)
		}
		if z.state.CompareAndSwap(s, s+1) {
			return nil
		}
	}
}

// leave ends a call.
func (z *Map) leave() {
	if z.state.Add(-1) == closedBit {
		close(z.idle)
	}
}

// checkKey validates a key for an operation.
func (z *Map) checkKey(op, key string) error {
	if why := keyFlaw(key); why != "" {
		return ncerr.Errorf(ncerr.ErrBadName, op, key, "%s", why)
	}
	if z.caps.MaxKey > 0 && len(key) > z.caps.MaxKey {
		return ncerr.Errorf(ncerr.ErrBadName, op, key, "the key has %d bytes, but the %s driver allows at most %d", len(key), z.name, z.caps.MaxKey)
	}
	return nil
}

// internal returns the error for a driver that violates its contract.
func (z *Map) internal(op, key, format string, args ...any) error {
	e := ncerr.Errorf(ncerr.ErrInternal, op, key, format, args...)
	e.Err = &contractError{name: z.name, err: e.Err}
	return e
}

// contractError adds the name of the driver that violated the contract.
type contractError struct {
	name string
	err  error
}

func (e *contractError) Error() string { return "driver " + e.name + ": " + e.err.Error() }
func (e *contractError) Unwrap() error { return e.err }
