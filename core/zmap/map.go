package zmap

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Names of the driver contract that users of a Map need.
type (
	// Info is what is known about an object.
	Info = driver.Info
	// Entry is one result of List.
	Entry = driver.Entry
	// Range is a part of an object, in bytes.
	Range = driver.Range
	// GetOptions are the options of Get.
	GetOptions = driver.GetOptions
	// PutOptions are the options of Put.
	PutOptions = driver.PutOptions
	// ListOptions are the options of List.
	ListOptions = driver.ListOptions
	// GetRequest is one read of a GetMany.
	GetRequest = driver.GetRequest
	// GetSink takes the result of one request of a GetMany.
	GetSink = driver.GetSink
	// PutRequest is one write of a PutMany.
	PutRequest = driver.PutRequest
	// PutSink takes the result of one request of a PutMany.
	PutSink = driver.PutSink
	// Capabilities are constant facts about a store.
	Capabilities = driver.Capabilities
	// Alloc gives the memory to read into.
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

// Options are the options of [New]; nil means the defaults.
type Options struct {
	// Name is the driver's name for error texts; empty is "store".
	Name string
	// Place, when not empty, is where the store is, as people write it and
	// without secrets: the errors of its driver say it, but for the answer that
	// an object is not there.
	Place string
	// ReadOnly makes every write fail with ncerr.ErrReadOnly before the driver
	// hears of it.
	ReadOnly bool
	// MaxList is the largest number of entries that List holds in memory where
	// it must sort them, and that Search and DeletePrefix collect; more is
	// ncerr.ErrLimit. 0 is [DefaultMaxList].
	MaxList int
	// MaxListBytes limits the total length of those entries' keys, in bytes. 0
	// means [DefaultMaxListBytes].
	MaxListBytes int64
	// InFlight is the number of calls at once that GetMany, PutMany and DeletePrefix make
	// to a Remote store that has no fast path; 0 is 64.
	InFlight int
}

// Map is one open store. It is made by [New]; the zero value is not usable.
// All methods may be called from several goroutines at once.
//
// Every method fails with ncerr.ErrInvalid after Close, and with the
// context's error when it has ended before the call. Keys that are not valid,
// or longer than the store takes, are ncerr.ErrBadName.
type Map struct {
	m        driver.Map
	many     driver.GetManyer // nil when the driver has none
	puts     driver.PutManyer // nil when the driver has none
	caps     Capabilities
	name     string
	place    string
	readOnly bool
	maxList  int
	maxBytes int64
	inFlight int

	guards  sync.Pool // of *guard
	batches sync.Pool // of *batch
	state   atomic.Int64
	idle    chan struct{} // closed when the last call in flight has ended after Close
	shut    chan struct{} // holds one token; taken while Close runs
	gone    bool          // the driver has been closed; guarded by shut
}

// closedBit marks a state that takes no new calls; the rest of the state
// counts the calls in flight.
const closedBit = 1 << 62

// New puts a portable Map in front of m, which it owns from then on.
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
		m: m, caps: m.Capabilities(), name: o.Name, place: o.Place, readOnly: o.ReadOnly, maxList: o.MaxList,
		maxBytes: o.MaxListBytes, inFlight: o.InFlight, idle: make(chan struct{}), shut: make(chan struct{}, 1),
	}
	z.many, _ = m.(driver.GetManyer)
	z.puts, _ = m.(driver.PutManyer)
	z.guards.New = func() any { return newGuard() }
	z.batches.New = func() any { return newBatch() }
	return z
}

// Capabilities gives what the driver declares. Ranges and IfMatch of a Get,
// RecursiveList and OrderedList work in any case: what the driver lacks is
// emulated.
func (z *Map) Capabilities() Capabilities { return z.caps }

// ReadOnly reports whether writes are refused.
func (z *Map) ReadOnly() bool { return z.readOnly }

// Name gives the driver's name.
func (z *Map) Name() string { return z.name }

// Unwrap gives the driver's Map. Calls to it are not checked by anything.
func (z *Map) Unwrap() driver.Map { return z.m }

// Flush makes everything written so far durable and visible to others. After
// an error nothing written since the last Flush may be relied upon. On a
// read-only Map it does nothing.
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

// Close waits for calls in flight and releases the store without flushing.
// Further calls of any method are refused from the moment it begins; closing
// again does nothing. When ctx ends before the calls in flight have, Close
// returns its error and the store is released by the next Close. A loop over
// List is a call in flight until it ends.
func (z *Map) Close(ctx context.Context) error {
	select {
	case z.shut <- struct{}{}: // first of all: also when ctx has ended already
	default:
		select {
		case z.shut <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-z.shut }()
	if z.gone {
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
	z.gone = true
	return z.wrap(ctx, "close", "", z.m.Close(ctx))
}

// enter begins a call; unless it fails, leave must follow.
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
		return ncerr.Errorf(ncerr.ErrBadName, op, key, "key of %d bytes, the %s map takes %d", len(key), z.name, z.caps.MaxKey)
	}
	return nil
}

// internal reports a driver that breaks its contract.
func (z *Map) internal(op, key, format string, args ...any) error {
	e := ncerr.Errorf(ncerr.ErrInternal, op, key, format, args...)
	e.Err = &contractError{name: z.name, err: e.Err}
	return e
}

// contractError names the driver that broke the contract.
type contractError struct {
	name string
	err  error
}

func (e *contractError) Error() string { return "driver " + e.name + ": " + e.err.Error() }
func (e *contractError) Unwrap() error { return e.err }
