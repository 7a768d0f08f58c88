package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// serveFaulty serves a faulty plugin and exits if the test binary is named after that
// plugin. Otherwise it returns.
func serveFaulty() {
	switch strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") {
	case "nczarr-driver-faulty":
		plugin.Serve(plugin.Driver(faulty{file.New()}), plugin.Version("0.9"))
	case "nczarr-filter-faulty":
		plugin.Serve(plugin.Filter(faultyFilter{filters.Provider()}), plugin.Version("0.9"))
	default:
		return
	}
	os.Exit(0)
}

// faulty is the file driver with the fault named in its options.
type faulty struct{ driver.Opener }

func (f faulty) Describe() driver.Description {
	d := f.Opener.Describe()
	d.Name, d.Options = "faulty", []driver.Option{{Name: "fault", Type: "string", Doc: "the fault of the driver"}}
	return d
}

func (f faulty) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	var o struct {
		Fault string `json:"fault"`
	}
	if err := driver.DecodeOptions(spec.Options, &o); err != nil {
		return nil, err
	}
	spec.Options = nil
	if o.Fault == "leaks descriptors" {
		leaked, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		heldMu.Lock()
		held = append(held, leaked)
		heldMu.Unlock()
	}
	m, err := f.Opener.Open(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &faultyMap{Map: m, fault: o.Fault, late: map[string]*latePut{}, closed: make(chan struct{})}, nil
}

type faultyMap struct {
	driver.Map
	fault string

	mu     sync.Mutex
	last   []byte // the content of the last put
	late   map[string]*latePut
	closed chan struct{}
}

// latePut is a canceled put that takes effect after some reads of its key.
type latePut struct {
	content []byte
	reads   int
}

// gets counts the reads of the process. held keeps memory and files that the plugin leaks
// on purpose. heldMu guards held.
var (
	gets   atomic.Int64
	heldMu sync.Mutex
	held   []any
)

// Put takes half a second if the fault is "stores late" and the content differs from that
// of the previous put. The check map.cancel.put.late measures the duration of one such
// put, and cancels some of the other puts after a fraction of that duration, while they
// wait in Put.
func (m *faultyMap) Put(ctx context.Context, key string, body driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if m.fault != "stores late" {
		return m.Map.Put(ctx, key, body, o)
	}
	content, err := driver.ReadBody(body)
	if err != nil {
		return driver.Info{}, err
	}
	content = bytes.Clone(content)
	m.mu.Lock()
	again := bytes.Equal(content, m.last)
	m.last = content
	m.mu.Unlock()
	if again {
		return m.Map.Put(ctx, key, driver.Bytes(content), o)
	}
	select {
	case <-ctx.Done():
		m.mu.Lock()
		m.late[key] = &latePut{content: content}
		m.mu.Unlock()
		return driver.Info{}, ctx.Err()
	case <-time.After(500 * time.Millisecond):
		return m.Map.Put(ctx, key, driver.Bytes(content), o)
	}
}

// storeLate stores the content of a canceled put at the third read of its key. The check
// reads the key for the first time as soon as the put has returned.
func (m *faultyMap) storeLate(ctx context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.late[key]
	if p == nil {
		return nil
	}
	if p.reads++; p.reads < 3 {
		return nil
	}
	delete(m.late, key)
	_, err := m.Map.Put(ctx, key, driver.Bytes(p.content), &driver.PutOptions{})
	return err
}

func (m *faultyMap) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	n := gets.Add(1)
	if err := m.storeLate(ctx, key); err != nil {
		return nil, driver.Info{}, err
	}
	switch {
	case m.fault == "leaks memory":
		data := touched(128 << 10)
		heldMu.Lock()
		held = append(held, data)
		heldMu.Unlock()
	case m.fault == "leaks goroutines":
		go func() {
			data := touched(64 << 10)
			<-m.closed
			runtime.KeepAlive(data)
		}()
	case strings.HasSuffix(m.fault, "when broken"):
		if _, err := m.Stat(ctx, "broken"); err == nil {
			return nil, driver.Info{}, map[string]error{"absent when broken": ncerr.ErrNotFound, "fails when broken": ncerr.ErrIO}[m.fault]
		}
	case m.fault == "dies" && n%500 == 0:
		os.Exit(9)
	case m.fault == "hangs" && o.Range != nil && o.Range.Length == 0:
		select {}
	case m.fault == "short" && o.Range != nil && o.Range.Length > 1:
		c := *o
		c.Range = &driver.Range{Offset: o.Range.Offset, Length: o.Range.Length - 1}
		o = &c
	}
	return m.Map.Get(ctx, key, o, alloc)
}

// touched returns n bytes of memory that the process really uses.
func touched(n int) []byte {
	data := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		data[i] = 1
	}
	return data
}

func (m *faultyMap) Close(ctx context.Context) error {
	close(m.closed)
	return m.Map.Close(ctx)
}

// faultyFilter is zlib under another name, with faults that a process boundary could
// mask.
type faultyFilter struct{ codecdriver.Provider }

func (faultyFilter) Describe() []codecdriver.Description {
	return []codecdriver.Description{{ID: "faulty", Summary: "zlib with faults", Encode: true, Decode: true}}
}

func (f faultyFilter) Open(id string, params json.RawMessage, in codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	var o struct {
		Fault string `json:"fault"`
	}
	if id != "faulty" {
		return nil, codecdriver.Spec{}, ncerr.ErrNoFilter
	}
	if err := driver.DecodeOptions(params, &o); err != nil {
		return nil, codecdriver.Spec{}, err
	}
	c, out, err := f.Provider.Open("zlib", nil, in)
	return &faultyCodec{c, o.Fault, int(in.MaxBytes)}, out, err
}

type faultyCodec struct {
	codecdriver.Codec
	fault string
	size  int
}

func (c *faultyCodec) Encode(ctx context.Context, dst, src []byte) (int, error) {
	if c.fault == "scribbles" && len(src) > 0 {
		src[0]++
	}
	return c.Codec.Encode(ctx, dst, src)
}

func (c *faultyCodec) Decode(ctx context.Context, dst, src []byte) (int, error) {
	if c.fault == "hangs" && len(src) > 0 && len(bytes.Trim(src, "\x00")) == 0 {
		select {}
	}
	n, err := c.Codec.Decode(ctx, dst, src)
	if err != nil && c.fault == "panics" {
		panic("index out of range")
	}
	if err != nil && c.fault == "takes what is there" && len(dst) >= c.size {
		return c.size, nil
	}
	return n, err
}
