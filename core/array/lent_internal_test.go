package array

import "testing"

// TestLentRoom checks that memory for a chunk is borrowed with room for larger chunks, or
// without it if the owner has no more memory, and that all of it is returned.
func TestLentRoom(t *testing.T) {
	t.Parallel()
	largest, held := int64(0), 0
	lend := func(n int64) ([]byte, func()) {
		if n > largest {
			return nil, nil
		}
		held++
		return make([]byte, n), func() { held-- }
	}
	for _, c := range []struct{ largest, most, n, want int64 }{
		{1000, 1000, 80, 90}, {1000, 85, 80, 85}, {1000, 50, 80, 80}, {89, 1000, 80, 80}, {79, 1000, 80, 0},
	} {
		largest = c.largest
		l := &lent{}
		mem := l.get(c.n, c.most, lend)
		if (mem == nil) != (c.want == 0) || mem != nil && int64(len(mem)) != c.n || int64(cap(mem)) != c.want {
			t.Errorf("%+v: got %d bytes with room for %d", c, len(mem), cap(mem))
		}
		if l.drop(); held != 0 {
			t.Fatalf("%+v: %d pieces of memory are still lent", c, held)
		}
	}
}
