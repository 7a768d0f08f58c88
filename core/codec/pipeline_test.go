package codec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func array(n int) driver.Spec {
	return driver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Little}, Shape: []int{n}}
}

func open(t *testing.T, in driver.Spec, lookup codec.Lookup, steps ...driver.Step) *codec.Pipeline {
	t.Helper()
	p, err := codec.Open(t.Context(), steps, in, lookup)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func noise(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// chains returns lookups that run the same chain in different combinations of local
// codecs and runs.
func chains(calls *atomic.Int64) map[string]codec.Lookup {
	runs := &runFakes{name: "a", calls: calls}
	other := &runFakes{name: "b", calls: calls}
	return map[string]codec.Lookup{
		"local": local,
		"runs":  func(string) (driver.Provider, error) { return runs, nil },
		"two":   func() codec.Lookup { return alternate(runs, other) }(),
		"mixed": func() codec.Lookup { return alternate(runs, fakes{}) }(),
		"mixd2": func() codec.Lookup { return alternate(fakes{}, runs) }(),
	}
}

func alternate(a, b driver.Provider) codec.Lookup {
	n := 0
	return func(string) (driver.Provider, error) {
		n++
		if n%3 == 0 {
			return b, nil
		}
		return a, nil
	}
}

func TestRoundTripEveryWay(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	steps := []driver.Step{tagStep('1'), {ID: "xor"}, tagStep('2'), {ID: "xor"}, tagStep('3')}
	src := noise(400)
	var want []byte
	for _, name := range []string{"local", "runs", "two", "mixed", "mixd2"} {
		p := open(t, array(100), chains(&calls)[name], steps...)
		if got := p.DecodedSize(); got != 400 {
			t.Errorf("%s: want 400 decoded bytes, got %d", name, got)
		}
		if got := p.MaxEncoded(); got != 403 {
			t.Errorf("%s: want at most 403 encoded bytes, got %d", name, got)
		}
		enc := make([]byte, p.MaxEncoded())
		n, err := p.Encode(t.Context(), enc, src)
		if err != nil {
			t.Fatal(name, err)
		}
		if want == nil {
			want = enc[:n]
		}
		if !bytes.Equal(want, enc[:n]) {
			t.Errorf("%s: encoded bytes differ from those of %q", name, "local")
		}
		dst := make([]byte, 400)
		if n, err := p.Decode(t.Context(), dst, enc[:n]); err != nil || !bytes.Equal(src, dst[:n]) {
			t.Errorf("%s: Decode returned %d bytes, %v, or wrong bytes", name, n, err)
		}
		if len(p.Specs()) != 6 || p.Empty() {
			t.Errorf("%s: want 6 specs, got %d", name, len(p.Specs()))
		}
	}
	if calls.Load() == 0 {
		t.Error("no run was called")
	}
}

func TestRunCrossesOnce(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := open(t, array(10), chains(&calls)["runs"], tagStep('1'), tagStep('2'), tagStep('3'))
	jobs := make([]driver.Job, 20)
	for i := range jobs {
		jobs[i].Src = noise(40)
	}
	if err := p.EncodeMany(t.Context(), jobs, func(int, []byte, error) {}); err != nil {
		t.Fatal(err)
	}
	if got := calls.Load(); got != 1 {
		t.Errorf("want 1 call for 20 chunks and 3 steps, got %d", got)
	}
}

func TestManyEveryWay(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	steps := []driver.Step{tagStep('1'), {ID: "xor"}, tagStep('2'), tagStep('3')}
	for name, lookup := range chains(&calls) {
		p := open(t, array(25), lookup, steps...)
		jobs := make([]driver.Job, 37)
		plain := make([][]byte, len(jobs))
		for i := range jobs {
			plain[i] = noise(100)
			plain[i][0] = byte(i)
			enc := make([]byte, p.MaxEncoded())
			n, err := p.Encode(t.Context(), enc, plain[i])
			if err != nil {
				t.Fatal(err)
			}
			jobs[i].Src = enc[:n]
			if i%2 == 0 {
				jobs[i].Dst = make([]byte, 100+i%4)
			}
		}
		jobs[5].Src = jobs[5].Src[:50]
		seen := make([]int, len(jobs))
		err := p.DecodeMany(t.Context(), jobs, func(i int, out []byte, err error) {
			seen[i]++
			if i == 5 {
				if ncerr.KindOf(err) != ncerr.ErrCorrupt || !strings.Contains(err.Error(), "tag") {
					t.Errorf("%s: want a corrupt tag, got %v", name, err)
				}
				return
			}
			if err != nil || !bytes.Equal(out, plain[i]) {
				t.Errorf("%s: job %d: %v, or wrong bytes", name, i, err)
			}
			if jobs[i].Dst != nil && &out[0] != &jobs[i].Dst[0] {
				t.Errorf("%s: the output of job %d is not in the caller's memory", name, i)
			}
		})
		if err != nil {
			t.Fatal(name, err)
		}
		for i, n := range seen {
			if n != 1 {
				t.Errorf("%s: sink was called %d times for job %d, want once", name, n, i)
			}
		}
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	src := noise(40)
	x := bytes.Clone(src)
	for i := range x {
		x[i] ^= 0x55
	}
	cases := map[string]struct {
		skip uint32
		want []byte
	}{
		"none":  {0, append(append(bytes.Clone(x), '2'), '3')},
		"first": {1, append(bytes.Clone(src), '2', '3')},
		"inner": {2, append(bytes.Clone(x), '3')},
		"last":  {4, append(bytes.Clone(x), '2')},
		"all":   {7, src},
	}
	for name, lookup := range chains(&calls) {
		p := open(t, array(10), lookup, driver.Step{ID: "xor"}, tagStep('2'), tagStep('3'))
		for c, v := range cases {
			var enc []byte
			take := func(_ int, out []byte, err error) {
				if err != nil {
					t.Errorf("%s/%s: %v", name, c, err)
				}
				enc = bytes.Clone(out)
			}
			if err := p.EncodeMany(t.Context(), []driver.Job{{Src: src, Skip: v.skip}}, take); err != nil || !bytes.Equal(v.want, enc) {
				t.Errorf("%s/%s: encode: want %q, got %q, %v", name, c, v.want, enc, err)
			}
			for _, dst := range [][]byte{nil, make([]byte, 40)} {
				if err := p.DecodeMany(t.Context(), []driver.Job{{Src: v.want, Dst: dst, Skip: v.skip}}, take); err != nil || !bytes.Equal(src, enc) {
					t.Errorf("%s/%s: decode: want %q, got %q, %v", name, c, src, enc, err)
				}
			}
		}
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in     driver.Spec
		lookup codec.Lookup
		steps  []driver.Step
		kind   ncerr.Kind
		text   string
	}{
		"unknown": {array(1), local, []driver.Step{{ID: "xor"}, {ID: "wat"}}, ncerr.ErrNoFilter, `open codec "wat": step 2 of 2: filter not available: no such fake`},
		"lookup":  {array(1), func(string) (driver.Provider, error) { return nil, nil }, []driver.Step{{ID: "xor"}}, ncerr.ErrNoFilter, `open codec "xor": filter not available`},
		"named": {array(1), func(id string) (driver.Provider, error) {
			return nil, ncerr.Errorf(ncerr.ErrNoFilter, "find filter", id, "none")
		}, []driver.Step{{ID: "xor"}}, ncerr.ErrNoFilter, `open codec "xor": filter not available: none`},
		"raw":       {array(1), func(string) (driver.Provider, error) { return nil, errRaw }, []driver.Step{{ID: "xor"}}, ncerr.ErrFilter, "raw failure"},
		"params":    {array(1), local, []driver.Step{{ID: "tag", Params: []byte("[")}}, ncerr.ErrInvalid, `"tag"`},
		"panic":     {array(1), local, []driver.Step{{ID: "openpanic"}}, ncerr.ErrFilter, "panic: in open"},
		"nil codec": {array(1), local, []driver.Step{{ID: "nil"}}, ncerr.ErrFilter, "no codec"},
		"negative":  {array(1), local, []driver.Step{{ID: "negative"}}, ncerr.ErrFilter, "negative size"},
		"endless":   {array(1), local, []driver.Step{{ID: "endless"}}, ncerr.ErrLimit, "a chunk of 4 bytes, more than the limit of 65664"},
		"shape":     {array(-1), local, nil, ncerr.ErrInvalid, "negative"},
		"overflow":  {driver.Spec{DType: array(1).DType, Shape: []int{math.MaxInt, 4}}, local, nil, ncerr.ErrLimit, "overflows"},
		"size":      {driver.Spec{DType: array(1).DType, Shape: []int{4}, MaxBytes: 15}, local, nil, ncerr.ErrInvalid, "16 bytes, not 15"},
		"blob":      {driver.Spec{Kind: driver.Blob, MaxBytes: -1}, local, nil, ncerr.ErrInvalid, "negative"},
		"many":      {array(1), local, make([]driver.Step, 33), ncerr.ErrInvalid, "limit of 32"},
	}
	for name, c := range cases {
		_, err := codec.Open(t.Context(), c.steps, c.in, c.lookup)
		if ncerr.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: want %v with %q, got %v", name, c.kind, c.text, err)
		}
	}
}

func TestFaultyCodecs(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		kind ncerr.Kind
		text string
	}{
		"panic": {ncerr.ErrFilter, `decode "panic": filter failed: panic: `},
		"liar":  {ncerr.ErrFilter, `the codec returned a length of 41 bytes for a buffer of 40`},
		"raw":   {ncerr.ErrFilter, `decode "raw": filter failed: raw failure`},
		"bomb":  {ncerr.ErrCorrupt, `decode "bomb": corrupt data: the decoded data has more than the limit of 40 bytes`},
		"late":  {ncerr.ErrFilter, `decode "late": filter failed`},
	}
	for id, c := range cases {
		p := open(t, array(10), local, driver.Step{ID: id}, driver.Step{ID: "xor"})
		_, err := p.Decode(t.Context(), make([]byte, 40), make([]byte, 40))
		if ncerr.KindOf(err) != c.kind || !strings.Contains(fmt.Sprint(err), c.text) {
			t.Errorf("%s: want %v with %q, got %v", id, c.kind, c.text, err)
		}
		if id == "raw" && !errors.Is(err, errRaw) {
			t.Errorf("the error does not wrap its cause: %v", err)
		}
		if _, err := p.Encode(t.Context(), make([]byte, 40), make([]byte, 40)); err == nil {
			t.Errorf("%s: Encode succeeded, want an error", id)
		}
	}
}

func TestUnreportedJob(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	runs := &runFakes{calls: &calls, dropsLast: true}
	p := open(t, array(10), func(string) (driver.Provider, error) { return runs, nil }, tagStep('1'))
	_, err := p.Encode(t.Context(), make([]byte, 41), make([]byte, 40))
	if ncerr.KindOf(err) != ncerr.ErrFilter || !strings.Contains(err.Error(), "the pipeline returned no result for 1 of 1 jobs") {
		t.Errorf("want ErrFilter about an unreported job, got %v", err)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	blob := driver.Spec{Kind: driver.Blob, MaxBytes: 40}
	cases := map[string]struct {
		in       driver.Spec
		src, dst int
		kind     ncerr.Kind
	}{
		"exact":              {array(10), 40, 40, 0},
		"roomy":              {array(10), 40, 50, 0},
		"short chunk":        {array(10), 36, 40, ncerr.ErrCorrupt},
		"long chunk":         {array(10), 44, 40, ncerr.ErrCorrupt},
		"long chunk, roomy":  {array(10), 44, 50, ncerr.ErrCorrupt},
		"short dst":          {array(10), 40, 39, ncerr.ErrShortBuffer},
		"no dst":             {array(10), 40, 0, ncerr.ErrShortBuffer},
		"blob short":         {blob, 36, 40, 0},
		"blob empty":         {blob, 0, 0, 0},
		"blob long":          {blob, 41, 50, ncerr.ErrCorrupt},
		"blob too much":      {blob, 39, 38, ncerr.ErrCorrupt},
		"scalar":             {driver.Spec{DType: array(1).DType}, 4, 4, 0},
		"nothing in a chunk": {array(0), 0, 0, 0},
	}
	for way, lookup := range chains(&calls) {
		for _, steps := range [][]driver.Step{{}, {{ID: "xor"}}, {{ID: "xor"}, {ID: "xor"}, {ID: "xor"}}} {
			for name, c := range cases {
				p := open(t, c.in, lookup, steps...)
				n, err := p.Decode(t.Context(), make([]byte, c.dst), make([]byte, c.src))
				if ncerr.KindOf(err) != c.kind || err == nil && n != c.src {
					t.Errorf("%s, %d steps, %s: want kind %v, got %d bytes, %v", way, len(steps), name, c.kind, n, err)
				}
			}
		}
	}
}

func TestEncodeChecksItsInput(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 39, 41} {
		p := open(t, array(10), local, driver.Step{ID: "xor"})
		if _, err := p.Encode(t.Context(), make([]byte, 100), make([]byte, n)); ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("%d bytes: want ErrInvalid, got %v", n, err)
		}
	}
	p := open(t, array(10), local)
	if _, err := p.Encode(t.Context(), make([]byte, 39), make([]byte, 40)); ncerr.KindOf(err) != ncerr.ErrShortBuffer {
		t.Errorf("want ErrShortBuffer, got %v", err)
	}
}

func TestEmptyChainPassesThrough(t *testing.T) {
	t.Parallel()
	p := open(t, array(2), local)
	src := noise(8)
	if !p.Empty() {
		t.Error("want an empty chain")
	}
	err := p.DecodeMany(t.Context(), []driver.Job{{Src: src}}, func(_ int, out []byte, err error) {
		if err != nil || &out[0] != &src[0] {
			t.Errorf("want the source itself, got %v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	for name, lookup := range chains(&calls) {
		p := open(t, array(10), lookup, tagStep('1'), tagStep('2'), tagStep('3'))
		ctx, cancel := context.WithCancel(t.Context())
		jobs := make([]driver.Job, 500)
		for i := range jobs {
			jobs[i].Src = make([]byte, 40)
		}
		done := 0
		err := p.EncodeMany(ctx, jobs, func(i int, _ []byte, err error) {
			if err != nil {
				t.Errorf("%s: job %d: %v", name, i, err)
			}
			if done++; done == 3 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) && done < len(jobs) {
			t.Errorf("%s: want a cancellation, got %v after %d jobs", name, err, done)
		}
		if _, err := p.Encode(ctx, make([]byte, 43), make([]byte, 40)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: want a cancellation, got %v", name, err)
		}
		cancel()
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	p := open(t, array(100), local, tagStep('1'), driver.Step{ID: "xor"}, tagStep('2'))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			src := noise(400)
			src[0] = byte(g)
			enc, dst := make([]byte, 402), make([]byte, 400)
			for range 50 {
				n, err := p.Encode(t.Context(), enc, src)
				if err != nil {
					t.Error(err)
				}
				if _, err = p.Decode(t.Context(), dst, enc[:n]); err != nil || !bytes.Equal(src, dst) {
					t.Errorf("goroutine %d: %v, or wrong bytes", g, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestLargeBlobGrowsOnDemand(t *testing.T) { //nolint:paralleltest // the test uses much memory
	p := open(t, driver.Spec{Kind: driver.Blob, MaxBytes: 1 << 40}, local, tagStep('1'), tagStep('2'))
	src := noise(20 << 20)
	enc := make([]byte, len(src)+2)
	n, err := p.Encode(t.Context(), enc, src)
	if err != nil || n != len(enc) {
		t.Fatalf("want %d bytes, got %d, %v", len(enc), n, err)
	}
	for _, dst := range [][]byte{nil, make([]byte, len(src))} {
		job := driver.Job{Src: enc, Dst: dst, Limit: int64(len(src))}
		err := p.DecodeMany(t.Context(), []driver.Job{job}, func(_ int, out []byte, err error) {
			if err != nil || !bytes.Equal(src, out) {
				t.Errorf("decoded %d bytes, %v, or wrong bytes", len(out), err)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestNoAllocations(t *testing.T) { //nolint:paralleltest // the test counts allocations and must run alone
	if raceOn {
		t.Skip("allocations are not counted under the race detector")
	}
	p := open(t, array(1000), local, tagStep('1'), driver.Step{ID: "xor"}, tagStep('2'))
	src, enc, dst := noise(4000), make([]byte, 4002), make([]byte, 4000)
	n, err := p.Encode(t.Context(), enc, src)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	jobs := []driver.Job{{Src: enc[:n]}, {Src: enc[:n], Dst: dst}}
	sink := func(_ int, _ []byte, err error) {
		if err != nil {
			t.Error(err)
		}
	}
	if got := testing.AllocsPerRun(100, func() { _, _ = p.Decode(ctx, dst, enc[:n]) }); got != 0 {
		t.Errorf("Decode: want no allocations, got %v", got)
	}
	if got := testing.AllocsPerRun(100, func() { _ = p.DecodeMany(ctx, jobs[:1], sink) }); got != 0 {
		t.Errorf("DecodeMany of one: want no allocations, got %v", got)
	}
	many := make([]driver.Job, 1000)
	for i := range many {
		many[i] = jobs[i%2]
	}
	if got := testing.AllocsPerRun(10, func() { _ = p.DecodeMany(ctx, many, sink) }); got > 20 {
		t.Errorf("DecodeMany of 1000: want a few allocations for the call, got %v", got)
	}
}
