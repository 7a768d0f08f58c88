package layer

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Stats counts the requests to a store by kind, for display. Use [NewStats] to create
// one. It is safe for concurrent use.
type Stats struct {
	mu    sync.Mutex
	kinds map[string]*KindStats
	order []string
}

// KindStats holds the counters for the requests of one kind.
type KindStats struct {
	Kind     string        `json:"kind"`     // get, get many, stat, put, delete, list, flush
	Requests int64         `json:"requests"` // number of attempts; a listing or a multipart upload counts as one
	Absent   int64         `json:"absent"`   // requests for objects that do not exist
	Failed   int64         `json:"failed"`   // requests that failed with any other error
	Retries  int64         `json:"retries"`  // number of retries
	Bytes    int64         `json:"bytes"`    // content transferred, including by failed gets
	First    time.Duration `json:"first"`    // mean time until the response began, or ended if it has no content
	Slowest  time.Duration `json:"slowest"`  // longest such time

	sum   time.Duration
	timed int64
}

// NewStats returns an empty Stats.
func NewStats() *Stats { return &Stats{kinds: make(map[string]*KindStats)} }

// kind returns the counters of a kind. The caller holds s.mu.
func (s *Stats) kind(name string) *KindStats {
	k := s.kinds[name]
	if k == nil {
		k = &KindStats{Kind: name}
		s.kinds[name], s.order = k, append(s.order, name)
	}
	return k
}

// Measure returns a Map that counts every call to m that sends a request. A Flush is not
// counted if writes are durable when Put returns.
func Measure(m driver.Map, s *Stats) driver.Map {
	flushed := m.Capabilities().Durable == driver.OnPut
	return observe(m, func(_ context.Context, c call) {
		if c.op == "close" || c.op == opPutMany || c.op == "flush" && flushed {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		k := s.kind(c.op)
		k.Requests++
		k.Bytes += c.bytes
		switch {
		case ncerr.KindOf(c.err) == ncerr.ErrNotFound:
			k.Absent++
		case c.err != nil:
			k.Failed++
		}
		first := c.first
		if first == 0 && c.err == nil {
			first = c.took
		}
		if first > 0 {
			k.sum, k.timed = k.sum+first, k.timed+1
			k.Slowest = max(k.Slowest, first)
		}
	})
}

// Retried counts a retry. It has the signature of RetryOptions.OnRetry.
func (s *Stats) Retried(op, _ string, _ error, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind(op).Retries++
}

// Kinds returns the current counters, sorted by kind.
func (s *Stats) Kinds() []KindStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []KindStats
	for _, name := range slices.Sorted(slices.Values(s.order)) {
		k := *s.kinds[name]
		if k.timed > 0 {
			k.First = k.sum / time.Duration(k.timed)
		}
		out = append(out, k)
	}
	return out
}

// Print writes one line per kind.
func (s *Stats) Print(w io.Writer) error {
	for _, k := range s.Kinds() {
		_, err := fmt.Fprintf(w, "  %-6s %6d requests, %d absent, %d failed, %d retries, %d bytes, first byte after %v (slowest %v)\n",
			k.Kind, k.Requests, k.Absent, k.Failed, k.Retries, k.Bytes, k.First.Round(10*time.Microsecond), k.Slowest.Round(10*time.Microsecond))
		if err != nil {
			return err
		}
	}
	return nil
}
