package leak_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/internal/leak"
)

// TestFind has processes whose memory goes up and down while it grows or does
// not, in MiB after each batch.
func TestFind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		memory, files      []int
		grows, descriptors bool
	}{
		"steady":                      {[]int{20, 40, 40, 40, 40, 40, 40, 40, 40}, nil, false, false},
		"up and down":                 {[]int{20, 40, 52, 41, 60, 47, 40, 55, 42}, nil, false, false},
		"a cache that is filled late": {[]int{20, 40, 60, 80, 80, 80, 80, 80, 80}, nil, true, false}, // as good as a leak
		"a cache that is filled soon": {[]int{20, 60, 100, 100, 100, 100, 100, 100, 100}, nil, false, false},
		"a leak":                      {[]int{20, 23, 26, 29, 32, 35, 38, 41, 44}, nil, true, false},
		"a leak, up and down":         {[]int{20, 33, 26, 39, 36, 35, 48, 41, 54}, nil, true, false},
		"not known":                   {[]int{-1, -1, -1, -1, -1, -1, -1, -1, -1}, []int{9, 9, 9, 9, 9, 9, 9, 9, 9}, false, false},
		"files":                       {nil, []int{9, 29, 49, 69, 89, 109, 129, 149, 169}, false, true},
		"files, once":                 {nil, []int{9, 9, 9, 40, 40, 40, 40, 40, 40}, false, false},
	} {
		n := -1
		memory, descriptors, _, err := leak.Find(func() bool { return true }, func() (u conformance.Usage, err error) {
			if n++; tc.memory != nil {
				u.Memory = int64(tc.memory[n]) << 20
			}
			if tc.files != nil {
				u.Descriptors = tc.files[n]
			}
			return u, nil
		}, 20)
		if memory != tc.grows || descriptors != tc.descriptors || err != nil {
			t.Errorf("%s: memory %v, descriptors %v, %v", name, memory, descriptors, err)
		}
	}
}
