package mapsuite

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// allocated returns the number of bytes that this process has allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func rangeChecks() []Check {
	needs := []string{Content, Ranges}
	const content = "0123456789"
	part := func(id, doc string, r driver.Range, want string) Check {
		return Check{ID: "map.get.range." + id, Doc: doc, Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("a/k", content)
			got, info, err := s.tryRange("a/k", r.Offset, r.Length)
			if err != nil || string(got) != want {
				t.Errorf("range %+v: want %q, got %q, %v", r, want, got, err)
			}
			if err == nil && info.Size != int64(len(content)) {
				t.Errorf("range %+v: want the size of the whole object, %d, got %d", r, len(content), info.Size)
			}
		}, Refuse: rangeRefused}
	}
	bad := func(id, doc, object string, r driver.Range) Check {
		return Check{ID: "map.get.range." + id, Doc: doc, Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("a/k", object)
			least := uint64(math.MaxUint64)
			for round := 0; round < 50 && least > 64<<20; round++ { // other goroutines may allocate too
				time.Sleep(time.Duration(round) * time.Millisecond)
				before := allocated()
				got, _, err := s.tryRange("a/k", r.Offset, r.Length)
				wantKind(t, fmt.Sprintf("range %+v (got %q)", r, got), err, ncerr.ErrRange)
				least = min(least, allocated()-before)
			}
			if e.ownProcess && least > 64<<20 {
				t.Errorf("range %+v of an object of %d bytes allocates at least %d bytes", r, len(object), least)
			}
		}}
	}
	return []Check{
		part("inside", "A range returns exactly its bytes.", driver.Range{Offset: 3, Length: 4}, "3456"),
		part("whole", "A range may be the whole object.", driver.Range{Offset: 0, Length: 10}, content),
		part("to-end", "Length -1 reads to the end.", driver.Range{Offset: 7, Length: -1}, "789"),
		part("at-end", "Length -1 at the end returns no bytes.", driver.Range{Offset: 10, Length: -1}, ""),
		part("suffix", "A negative offset returns the last bytes.", driver.Range{Offset: -3, Length: -1}, "789"),
		part("suffix-whole", "A suffix as long as the object returns all of it.", driver.Range{Offset: -10, Length: -1}, content),
		part("suffix-long", "A suffix longer than the object returns all of it.", driver.Range{Offset: -11, Length: -1}, content),
		part("zero-length", "A range of length 0 inside the object returns no bytes.", driver.Range{Offset: 4, Length: 0}, ""),
		bad("past-end", "A range that extends past the end fails with ErrRange and never returns a short result.", content, driver.Range{Offset: 8, Length: 3}),
		bad("beyond-end", "A range that starts past the end fails with ErrRange.", content, driver.Range{Offset: 11, Length: -1}),
		bad("huge", "A range of absurd length fails with ErrRange and allocates no memory.", content, driver.Range{Offset: 1, Length: 1<<62 - 1}),
		bad("overflow", "A range whose end overflows int64 fails with ErrRange.", content, driver.Range{Offset: 1, Length: math.MaxInt64}),
		bad("empty-past-end", "A range of one byte of an empty object fails with ErrRange.", "", driver.Range{Offset: 0, Length: 1}),
		{ID: "map.get.range.empty-object", Doc: "In an empty object, a range of length 0, a range to the end and a range of the last bytes return no bytes.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("k", "")
			for _, r := range []driver.Range{{Offset: 0, Length: 0}, {Offset: 0, Length: -1}, {Offset: -5, Length: -1}} {
				if got, _, err := s.tryRange("k", r.Offset, r.Length); err != nil || len(got) != 0 {
					t.Errorf("range %+v: want no bytes, got %q, %v", r, got, err)
				}
			}
		}},
		{ID: "map.get.range.absent", Doc: "A range of a missing key fails with ErrNotFound.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			_, _, err := s.tryRange("k", 0, 1)
			wantKind(t, "range of a missing key", err, ncerr.ErrNotFound)
		}},
		{ID: "map.get.range.limit", Doc: "Limit applies to the bytes of the range, not of the object.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("k", content)
			got, _, err := s.tryGet("k", driver.GetOptions{Range: &driver.Range{Offset: 2, Length: 3}, Limit: 3})
			if err != nil || string(got) != "234" {
				t.Errorf("get 3 bytes with limit 3: want \"234\", got %q, %v", got, err)
			}
			_, _, err = s.tryGet("k", driver.GetOptions{Range: &driver.Range{Offset: 2, Length: 4}, Limit: 3})
			wantKind(t, "get 4 bytes with limit 3", err, ncerr.ErrLimit)
		}},
		{ID: "map.get.range.rounded", Doc: "Ranges that start or end at a block boundary or at the end of an object return exactly their bytes, or ErrRange if they extend past the end, for objects of several sizes.", Needs: needs, Run: rangeRounded},
		{ID: "map.get.range.large", Doc: "Ranges anywhere in a large object, also over several blocks and up to the end of a block, return the correct bytes.", Needs: needs, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			const n = 3<<20 + 7
			whole := pattern(9, n)
			s.put("k", whole)
			for _, off := range []int64{0, 1, 4095, 65536, 1<<20 - 1, 2 << 20, n - 100000} {
				got, _, err := s.tryRange("k", off, 100000)
				if err != nil || string(got) != whole[off:off+100000] {
					t.Errorf("get 100000 bytes at offset %d: wrong content, got %d bytes, %v", off, len(got), err)
				}
			}
			for block := int64(128 << 10); block <= 1<<20; block *= 2 { // media store objects in blocks
				for _, r := range [][2]int64{{block - 1, 2 * block}, {block + 1, 2 * block}, {block - 1, 2*block + 1}, {block, 2*block - 1}, {block + 1, n / block * block}, {2*block - 1, n}} {
					got, _, err := s.tryRange("k", r[0], r[1]-r[0])
					if err != nil || string(got) != whole[r[0]:r[1]] {
						t.Errorf("get %d bytes at offset %d: wrong content, got %d bytes, %v", r[1]-r[0], r[0], len(got), err)
					}
				}
			}
			for _, off := range []int64{1, 1<<20 + 1} { // a transport may divide long ranges
				got, _, err := s.tryRange("k", off, n-off)
				if err != nil || string(got) != whole[off:] {
					t.Errorf("get %d bytes at offset %d: wrong content, got %d bytes, %v", n-off, off, len(got), err)
				}
			}
		}},
	}
}

// rangeRounded compares the results of ranges with [driver.Range.Resolve].
func rangeRounded(t conformance.T, e *Env) {
	s := e.create(t)
	for i, n := range []int64{3, 4 << 10, 256 << 10, 384<<10 + 5} {
		key, whole := fmt.Sprint("k", i), pattern(byte(i), int(n))
		s.put(key, whole)
		points := []int64{0, 1, 5, 4 << 10, 64 << 10, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, n - 1, n, n + 1}
		points = slices.DeleteFunc(points, func(p int64) bool { return p > n+1 })
		slices.Sort(points)
		points = slices.Compact(points)
		ranges := []driver.Range{{Offset: math.MinInt64, Length: -1}, {Offset: -n, Length: -1}, {Offset: 128 << 10, Length: 2 * n}}
		for k, from := range points {
			ranges = append(ranges, driver.Range{Offset: from, Length: -1}, driver.Range{Offset: from, Length: 0})
			for _, to := range points[k:] {
				if from%(4<<10) == 0 || to%(4<<10) == 0 || to >= n {
					ranges = append(ranges, driver.Range{Offset: from, Length: to - from})
				}
			}
		}
		for _, r := range ranges {
			start, length, failed := r.Resolve(n)
			got, info, err := s.tryRange(key, r.Offset, r.Length)
			switch {
			case failed != nil:
				wantKind(t, fmt.Sprintf("range %+v of %d bytes (got %d bytes)", r, n, len(got)), err, ncerr.ErrRange)
			case err != nil || info.Size != n || string(got) != whole[start:start+length]:
				t.Errorf("range %+v of %d bytes: want %d bytes %s, got %d bytes %s, size %d, %v", r, n, length, show(whole[start:start+length]), len(got), show(string(got)), info.Size, err)
			}
		}
	}
}

// rangeRefused checks that a Map without ranges refuses a range or returns the correct
// bytes.
func rangeRefused(t conformance.T, e *Env) {
	m, err := e.fresh(t.Context(), driver.Create)
	if err != nil {
		return // the checks that need Write test the refusal
	}
	s := &store{t: t, m: m}
	t.Cleanup(s.close)
	if _, err := s.tryPut("k", "0123"); err != nil {
		return
	}
	got, _, err := s.tryRange("k", 1, 2)
	if err != nil {
		wantKind(t, "range", err, ncerr.ErrUnsupported)
	} else if string(got) != "12" {
		t.Errorf("get of a range that the driver does not declare: want \"12\" or ErrUnsupported, got %q", got)
	}
}

func allocChecks() []Check {
	w := []string{Content}
	return []Check{
		{ID: "map.get.alloc.exact", Doc: "Get calls alloc once with the exact length, fills that memory and returns it. Get need not call alloc if the result is empty.", Needs: w, Run: allocExact},
		{ID: "map.get.alloc.error", Doc: "Get returns an error from alloc.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("k", "12345")
			_, _, err := s.m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Into(make([]byte, 4)))
			wantKind(t, "get with an alloc that returns ErrShortBuffer", err, ncerr.ErrShortBuffer)
			_, _, err = s.m.Get(t.Context(), "k", &driver.GetOptions{}, func(int64) ([]byte, error) { return nil, ncerr.ErrAuth })
			wantKind(t, "get with an alloc that returns ErrAuth", err, ncerr.ErrAuth)
			s.want("k", "12345")
			s.put("k", "changed after a failed read")
			s.want("k", "changed after a failed read")
		}},
		{ID: "map.get.alloc.absent", Doc: "Get does not call alloc for a missing object or for an object longer than Limit.", Needs: w, Run: func(t conformance.T, e *Env) {
			s := e.create(t)
			s.put("k", "12345")
			calls := 0
			alloc := func(n int64) ([]byte, error) { calls++; return make([]byte, n), nil }
			_, _, err := s.m.Get(t.Context(), "none", &driver.GetOptions{}, alloc)
			wantKind(t, "get of a missing key", err, ncerr.ErrNotFound)
			_, _, err = s.m.Get(t.Context(), "k", &driver.GetOptions{Limit: 2}, alloc)
			wantKind(t, "get with limit 2", err, ncerr.ErrLimit)
			if calls > 0 {
				t.Errorf("alloc was called %d times for objects that Get cannot return", calls)
			}
		}},
	}
}

func allocExact(t conformance.T, e *Env) {
	s := e.create(t)
	sizes := []int{0, 1, 1000, 300000}
	for _, n := range sizes {
		s.put(fmt.Sprint("k", n), pattern(5, n))
	}
	ranges := []*driver.Range{nil}
	if s.m.Capabilities().Ranges {
		ranges = append(ranges, &driver.Range{Offset: 0, Length: -1}, &driver.Range{Offset: -10, Length: -1})
	}
	for _, n := range sizes {
		for _, r := range ranges {
			want := []byte(pattern(5, n))
			if r != nil {
				start, length, _ := r.Resolve(int64(n))
				want = want[start : start+length]
			}
			var asked []int64
			arena := make([]byte, n+2)
			got, _, err := s.m.Get(t.Context(), fmt.Sprint("k", n), &driver.GetOptions{Range: r}, func(k int64) ([]byte, error) {
				asked = append(asked, k)
				return arena[1 : 1+k : 1+k], nil
			})
			ok := err == nil && slices.Equal(got, want) && (len(asked) == 1 && asked[0] == int64(len(want)) || len(asked) == 0 && len(want) == 0)
			if !ok || len(got) > 0 && &got[0] != &arena[1] {
				t.Errorf("object of %d bytes, range %v: got %d bytes, alloc called with %v, memory not from alloc: %v, error: %v", n, r, len(got), asked, len(got) > 0 && &got[0] != &arena[1], err)
			}
			if arena[0] != 0 || arena[len(want)+1] != 0 {
				t.Errorf("object of %d bytes, range %v: get writes outside the memory from alloc", n, r)
			}
		}
	}
}
