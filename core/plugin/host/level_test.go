package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// levels returns hosts that run plugins in different ways: in process, at level 0, at
// level 1, and at level 1 without lent files. All hosts must return the same bytes.
func levels(t *testing.T, root string) []*host.Host {
	t.Helper()
	return []*host.Host{
		newHost(t, host.Options{Isolation: host.InProcess}),
		newHost(t, host.Options{InlineOnly: true, Roots: []string{root}}),
		newHost(t, host.Options{Roots: []string{root}}),
		newHost(t, host.Options{NoLending: true, Roots: []string{root}}),
	}
}

// outcome is the result of a job.
type outcome struct {
	data string
	kind ncerr.Kind
}

func (o outcome) String() string { return fmt.Sprintf("%d bytes, %v", len(o.data), o.kind) }

// codecParams returns parameters for a codec that requires them, and nil for other codecs.
func codecParams(id string) json.RawMessage {
	switch id {
	case "delta":
		return json.RawMessage(`{"dtype":"<i4"}`)
	case "shuffle":
		return json.RawMessage(`{"elementsize":4}`)
	}
	return nil
}

// TestSameCodecs checks that every codec returns the same bytes and kinds of errors in
// process, at level 0 and at level 1, for valid and damaged input. The host must not
// write outside the destination.
func TestSameCodecs(t *testing.T) {
	t.Parallel()
	hosts := levels(t, t.TempDir())[:3]
	opened := map[string][]codecdriver.Codec{}
	var ids []string
	for _, d := range builtin.Provider().Describe() {
		in := codecdriver.Spec{DType: dtype.Type{Kind: dtype.Int, Size: 4, Order: dtype.Little}, Shape: []int{64 << 10}, MaxBytes: 256 << 10}
		for _, h := range hosts {
			p, err := h.Filter(d.ID)
			if err != nil {
				t.Fatal(err)
			}
			c, _, err := p.Open(d.ID, codecParams(d.ID), in)
			if err != nil { // the codec does not accept integers
				break
			}
			opened[d.ID] = append(opened[d.ID], c)
		}
		if len(opened[d.ID]) == len(hosts) {
			ids = append(ids, d.ID)
		}
	}
	if len(ids) < 8 {
		t.Fatalf("want at least 8 codecs that accept integers, got %q", ids)
	}
	for i, id := range ids {
		for k, dstSize := range []int{0, 100, 256 << 10, 300 << 10} {
			pattern := rapid.SliceOfN(rapid.Byte(), 1, 40).Example(4*i + k)
			plain := bytes.Repeat(pattern, 256<<10)[:256<<10]
			for _, damage := range []bool{false, true} {
				checkSame(t, id, opened[id], plain, dstSize, damage)
			}
		}
	}
}

// checkSame encodes plain with the same codec of several hosts, decodes the results, and
// checks that the results of all hosts are equal. If damage is set, it damages the encoded
// data before decoding.
func checkSame(t *testing.T, id string, codecs []codecdriver.Codec, plain []byte, dstSize int, damage bool) {
	t.Helper()
	var coded, decoded []outcome
	for k, c := range codecs {
		coded = append(coded, callGuarded(t, c.Encode, 300<<10, plain))
		src := []byte(coded[k].data)
		if damage && len(src) > 0 {
			src[len(src)/2] ^= 0x55
			src = src[:len(src)-len(src)/3]
		}
		decoded = append(decoded, callGuarded(t, c.Decode, dstSize, src))
	}
	for k := range codecs {
		if coded[k] != coded[0] || decoded[k] != decoded[0] {
			t.Fatalf("%s of %x: host %d returned %v and %v, want %v and %v as in process", id, plain[:40], k, coded[k], decoded[k], coded[0], decoded[0])
		}
	}
}

// callGuarded calls a function with a destination of dstSize bytes, and checks that the
// bytes around the destination do not change.
func callGuarded(t rapid.TB, call func(context.Context, []byte, []byte) (int, error), dstSize int, src []byte) outcome {
	const canary = 64
	mem := bytes.Repeat([]byte{0xC5}, dstSize+2*canary)
	n, err := call(context.Background(), mem[canary:canary+dstSize:canary+dstSize], src)
	for i := range canary {
		if mem[i] != 0xC5 || mem[len(mem)-1-i] != 0xC5 {
			t.Fatal("the call wrote outside the destination")
		}
	}
	if err != nil {
		return outcome{kind: ncerr.KindOf(err)}
	}
	return outcome{data: string(mem[canary : canary+n])}
}

// TestSameStores checks that every operation on a store has the same result in process,
// at level 0, and at level 1 with and without lent files.
func TestSameStores(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	hosts := levels(t, root)
	for _, name := range []string{"file", "zip"} {
		var maps []driver.Map
		for i, h := range hosts {
			maps = append(maps, open(t, h, name, driver.OpenSpec{Path: filepath.Join(root, fmt.Sprint(name, i)), Mode: driver.Create}))
		}
		rapidseed.Check(t, func(rt *rapid.T) {
			key := rapid.SampledFrom([]string{"a", "b/c", "b/d", "absent"}).Draw(rt, "key")
			if key != "absent" && rapid.Bool().Draw(rt, "put") {
				size := rapid.SampledFrom([]int{0, 1, 1000, 64 << 10, 70_000, 1 << 20, 3 << 20}).Draw(rt, "size")
				body := bytes.Repeat([]byte{byte(size), 1, 2, 3, rapid.Byte().Draw(rt, "fill")}, size/5+1)[:size]
				for _, m := range maps {
					if info, err := m.Put(t.Context(), key, driver.Bytes(body), &driver.PutOptions{}); err != nil || info.Size != int64(size) {
						rt.Fatalf("put: %+v, %v", info, err)
					}
				}
			}
			opts := driver.GetOptions{Limit: rapid.SampledFrom([]int64{0, 0, 0, 1000}).Draw(rt, "limit")}
			if rapid.Bool().Draw(rt, "part") {
				opts.Range = &driver.Range{Offset: rapid.Int64Range(0, 80_000).Draw(rt, "offset"), Length: rapid.Int64Range(-1, 70_000).Draw(rt, "length")}
			}
			dstSize := rapid.SampledFrom([]int{4 << 20, 4 << 20, 500}).Draw(rt, "dstSize")
			var want outcome
			for i, m := range maps {
				got := callGuarded(rt, func(ctx context.Context, dst, _ []byte) (int, error) {
					data, _, err := m.Get(ctx, key, &opts, driver.Into(dst))
					return len(data), err
				}, dstSize, nil)
				if i == 0 {
					want = got
				} else if got != want {
					rt.Fatalf("get %s %+v: host %d returned %v, want %v as in process", key, opts, i, got, want)
				}
				if many, ok := m.(driver.GetManyer); ok {
					sameMany(rt, many, key, opts, want)
				}
			}
		})
	}
}

// sameMany reads an object several times with one GetMany, with and without an Alloc, and
// checks that each result equals want.
func sameMany(t *rapid.T, m driver.GetManyer, key string, opts driver.GetOptions, want outcome) {
	if want.kind == ncerr.ErrShortBuffer {
		return // GetMany allocates the memory itself and does not return this error
	}
	reqs := make([]driver.GetRequest, 5)
	for i := range reqs {
		reqs[i] = driver.GetRequest{Key: key, Opts: opts}
		if i%2 == 0 {
			reqs[i].Alloc = driver.Heap
		}
	}
	seen := 0
	err := m.GetMany(context.Background(), reqs, func(_ int, data []byte, _ driver.Info, err error) {
		seen++
		got := outcome{data: string(data)}
		if err != nil {
			got = outcome{kind: ncerr.KindOf(err)}
		}
		if got != want {
			t.Fatalf("get many %s: got %v, want %v", key, got, want)
		}
	})
	if err != nil || seen != len(reqs) {
		t.Fatalf("get many: got %d of %d results, %v", seen, len(reqs), err)
	}
}
