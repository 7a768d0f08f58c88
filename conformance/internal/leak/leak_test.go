package leak_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/internal/leak"
)

// TestFind checks the verdict for processes with fluctuating memory, listed in MiB after
// each batch. After the last listed batch, memory grows by growth with every further batch.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		memory             []int
		growth             int
		files              []int
		grows, descriptors bool
	}{
		"steady":                         {[]int{20, 40, 40, 40, 40, 40, 40, 40, 40}, 0, nil, false, false},
		"up and down":                    {[]int{20, 40, 52, 41, 60, 47, 40, 55, 42}, 0, nil, false, false},
		"a cache that is filled late":    {[]int{20, 40, 60, 80, 80, 80, 80, 80, 80}, 0, nil, false, false},
		"a cache that is filled soon":    {[]int{20, 60, 100, 100, 100, 100, 100, 100, 100}, 0, nil, false, false},
		"a leak":                         {[]int{20, 23, 26, 29, 32, 35, 38, 41, 44}, 3, nil, true, false},
		"a leak, up and down":            {[]int{20, 33, 26, 39, 36, 35, 48, 41, 54}, 3, nil, true, false},
		"garbage that is collected late": {[]int{40, 45, 48, 51, 53, 56, 59, 61, 63, 63, 63, 63, 63, 63, 63, 63, 66}, 0, nil, false, false},
		"so much that Find must stop":    {[]int{20, 1000, 5000}, 5000, nil, true, false},
		"unknown":                        {[]int{-1, -1, -1, -1, -1, -1, -1, -1, -1}, 0, []int{9, 9, 9, 9, 9, 9, 9, 9, 9}, false, false},
		"files":                          {nil, 0, []int{9, 29, 49, 69, 89, 109, 129, 149, 169}, false, true},
		"files, up to the limit":         {nil, 0, []int{9, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024}, false, true},
		"files, once":                    {nil, 0, []int{9, 9, 9, 40, 40, 40, 40, 40, 40}, false, false},
	} {
		n := -1
		memory, descriptors, _, err := leak.Find(func() bool { return true }, func() (u conformance.Usage, err error) {
			if n++; tc.memory != nil {
				last := min(n, len(tc.memory)-1)
				u.Memory = int64(tc.memory[last]+(n-last)*tc.growth) << 20
			}
			if tc.files != nil {
				u.Descriptors = tc.files[n]
			}
			return u, nil
		}, 20)
		if memory != tc.grows || descriptors != tc.descriptors || err != nil {
			t.Errorf("%s: wrong result: memory %v, descriptors %v, %v", name, memory, descriptors, err)
		}
	}
}

// TestStops checks that Find stops after the first of the last batches that shows that
// memory does not grow, and otherwise after 24 batches.
func TestStops(t *testing.T) {
	t.Parallel()
	for low, want := range map[int]int{0: 24, 10: 24, 17: 17, 20: 20} { // the batch after which memory is low, or 0
		n := -1
		memory, _, at, err := leak.Find(func() bool { return true }, func() (conformance.Usage, error) {
			if n++; n > 0 && n == low {
				return conformance.Usage{Memory: 40 << 20}, nil
			}
			return conformance.Usage{Memory: int64(30+10*n) << 20}, nil
		}, 20)
		if ran := len(at) - 1; ran != want || memory != (want == 24) || err != nil {
			t.Errorf("low after batch %d: want %d batches, ran %d, memory %v, %v", low, want, ran, memory, err)
		}
	}
}

// TestStopsEarly checks that Find stops when the memory of a large process has grown by
// more than four gibibytes and a quarter since the first batch.
func TestStopsEarly(t *testing.T) {
	t.Parallel()
	for growth, want := range map[int]int{5000: 2, 4000: 3, 1300: 5, 500: 10} {
		n := -1
		memory, _, at, err := leak.Find(func() bool { return true }, func() (conformance.Usage, error) {
			n++
			return conformance.Usage{Memory: int64(4000+growth*n) << 20}, nil
		}, 20)
		if ran := len(at) - 1; ran != want || !memory || err != nil {
			t.Errorf("growth of %d MiB: want %d batches, ran %d, memory %v, %v", growth, want, ran, memory, err)
		}
	}
}
