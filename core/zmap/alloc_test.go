//go:build !race

package zmap_test

import (
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// This file is excluded from race builds, because the race detector makes sync.Pool drop
// elements at random.

func TestGetTakesNoMemory(t *testing.T) { //nolint:paralleltest // the test counts allocations and must run alone
	z := zmap.New(filled(t, "abcdef"), nil)
	ctx := t.Context()
	dst := make([]byte, 8)
	alloc := driver.Into(dst)
	opts := &zmap.GetOptions{Range: &zmap.Range{Offset: 1, Length: 4}, Limit: 8}
	reqs := make([]zmap.GetRequest, 50)
	for i := range reqs {
		reqs[i] = zmap.GetRequest{Key: "abcdef", Opts: *opts, Alloc: alloc}
	}
	var sinkErr error
	sink := func(_ int, _ []byte, _ zmap.Info, err error) { sinkErr = errors.Join(sinkErr, err) }
	tests := map[string]struct {
		max float64
		f   func() error
	}{
		"get":      {0, func() error { return third(z.Get(ctx, "abcdef", nil, alloc)) }},
		"range":    {0, func() error { return third(z.Get(ctx, "abcdef", opts, alloc)) }},
		"read all": {1, func() error { return third(z.ReadAll(ctx, "abcdef", 10)) }},
		"stat":     {0, func() error { return second(z.Stat(ctx, "abcdef")) }},
		"get many": {1, func() error { return z.GetMany(ctx, reqs, sink) }},
	}
	for name, tc := range tests {
		got := testing.AllocsPerRun(200, func() {
			if err := tc.f(); err != nil {
				t.Fatal(name, err)
			}
		})
		if got > tc.max {
			t.Errorf("%s: want at most %v allocations, got %v", name, tc.max, got)
		}
	}
	if sinkErr != nil {
		t.Error(sinkErr)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }
