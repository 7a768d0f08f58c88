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

// Stats counts the requests to a store by kind, for people. It is made by
// [NewStats] and safe for concurrent use.
type Stats struct {
	mu    sync.Mutex
	kinds map[string]*KindStats
	order []string
}

// KindStats is what happened to the requests of one kind.
type KindStats struct {
	Kind     string        `json:"kind"`     // get, stat, put, delete, list, flush
	Requests int64         `json:"requests"` // all tries; a listing is one, and so is an upload in parts
	Absent   int64         `json:"absent"`   // of them: there is no such object
	Failed   int64         `json:"failed"`   // of them: any other error
	Retries  int64         `json:"retries"`  // repetitions that were decided upon
	Bytes    int64         `json:"bytes"`    // content that went over, of failed tries too
	First    time.Duration `json:"first"`    // mean time until the answer began, or was complete where it has no content
	Slowest  time.Duration `json:"slowest"`  // the longest such time

	sum   time.Duration
	timed int64
}

// NewStats makes an empty Stats.
func NewStats() *Stats { return &Stats{kinds: make(map[string]*KindStats)} }

// kind gives the counters of a kind; s.mu is held.
func (s *Stats) kind(name string) *KindStats {
	k := s.kinds[name]
	if k == nil {
		k = &KindStats{Kind: name}
		s.kinds[name], s.order = k, append(s.order, name)
	}
	return k
}

// Measure counts every call to m for which something is sent: a Flush of what
// is safe already is none.
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

// Retried counts a repetition: it has the form of RetryOptions.OnRetry.
func (s *Stats) Retried(op, _ string, _ error, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind(op).Retries++
}

// Kinds gives what was counted so far, by kind in the order of their names.
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

// Print writes one line for each kind.
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
