package mapsuite_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// inMemory returns a target whose stores live in one Opener.
func inMemory(o driver.Opener) *mapsuite.Target {
	var n atomic.Int64
	return &mapsuite.Target{Opener: o, NewSpec: func() (driver.OpenSpec, func(), error) {
		return driver.OpenSpec{Path: fmt.Sprint("mem/store", n.Add(1))}, nil, nil
	}}
}

func TestMemmap(t *testing.T) {
	t.Parallel()
	conformance.Test(t, mapsuite.Suite(), inMemory(memmap.NewOpener()))
}

func ExampleSuite() {
	stores := 0
	target := &mapsuite.Target{Opener: memmap.NewOpener(), NewSpec: func() (driver.OpenSpec, func(), error) {
		stores++
		return driver.OpenSpec{Path: fmt.Sprint("store", stores)}, nil, nil
	}}
	report := conformance.Run(context.Background(), mapsuite.Suite(), target, &conformance.Options{Select: []string{"map.get.range.*"}})
	fmt.Println(report.Target, report.OK(), report.Totals.Pass, report.Failed())
	// Output: mem true 18 []
}
