package dataset_test

import (
	"context"
	"iter"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// slowMap is a store with the latency of a server, which calls before ahead of each request. An
// error of before fails the request.
type slowMap struct {
	driver.Map
	before func(op, key string) error
}

func (s slowMap) Capabilities() driver.Capabilities {
	c := s.Map.Capabilities()
	c.Latency = driver.Remote
	return c
}

func (s slowMap) Get(ctx context.Context, key string, o *driver.GetOptions, alloc driver.Alloc) ([]byte, driver.Info, error) {
	if err := s.before("get", key); err != nil {
		return nil, driver.Info{}, err
	}
	return s.Map.Get(ctx, key, o, alloc)
}

func (s slowMap) Stat(ctx context.Context, key string) (driver.Info, error) {
	if err := s.before("stat", key); err != nil {
		return driver.Info{}, err
	}
	return s.Map.Stat(ctx, key)
}

func (s slowMap) Put(ctx context.Context, key string, b driver.Body, o *driver.PutOptions) (driver.Info, error) {
	if err := s.before("put", key); err != nil {
		return driver.Info{}, err
	}
	return s.Map.Put(ctx, key, b, o)
}

func (s slowMap) Delete(ctx context.Context, key string, o *driver.DeleteOptions) error {
	if err := s.before("delete", key); err != nil {
		return err
	}
	return s.Map.Delete(ctx, key, o)
}

func (s slowMap) List(ctx context.Context, prefix string, o *driver.ListOptions) iter.Seq2[driver.Entry, error] {
	return func(yield func(driver.Entry, error) bool) {
		if err := s.before("list", prefix); err != nil {
			yield(driver.Entry{}, err)
			return
		}
		s.Map.List(ctx, prefix, o)(yield)
	}
}

// hook calls f ahead of each request of the datasets that are created with o.
func hook(o *dataset.Options, f func(op, key string) error) *dataset.Options {
	hooked := *o
	hooked.Wrap = func(m driver.Map) driver.Map { return slowMap{m, f} }
	return &hooked
}

// secondList calls f with the second listing of a location, which is that after the claim.
func secondList(f func() error) func(op, key string) error {
	var mu sync.Mutex
	lists := 0
	return func(op, _ string) error {
		if op != "list" {
			return nil
		}
		mu.Lock()
		lists++
		second := lists == 2
		mu.Unlock()
		if second {
			return f()
		}
		return nil
	}
}

// Until the second look at the location has ended, a new dataset puts nothing but its claim,
// which already has the nodes.
func TestNothingWrittenBeforeLook(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"#mode=nczarr", "#mode=v3"} {
		for _, writes := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				b, o := inBuckets()
				release := make(chan struct{})
				ds := create(t, belowURL+mode+belowRest, hook(o, secondList(func() error { <-release; return nil })))
				v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
				ended := make(chan error, 1)
				go func() {
					if writes {
						if err := v.Write(t.Context(), v.All(), []int32{1}); err != nil {
							ended <- err
							return
						}
					}
					ended <- ds.Close(t.Context())
				}()
				synctest.Wait()
				claim, err := dataset.FindClaim(t.Context(), locate(belowURL+mode+belowRest), o)
				if got := b.names("bkt"); err != nil || !slices.Equal(got, []string{"dir/a.zarr/.nczreplacing"}) || claim == nil || len(claim.Nodes) != 2 {
					t.Errorf("%s before the look: want only a claim with 2 nodes, got %q, %+v, %v", mode, got, claim, err)
				}
				close(release)
				if err := <-ended; err != nil {
					t.Error(err)
				}
				closeDataset(t, open(t, belowURL+mode+belowRest, o))
			})
		}
	}
}

// If another process has created a dataset before the claim was put, or the second look
// fails, the new dataset writes nothing, and the claim is deleted although nobody waits for it.
func TestLookFails(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"write", "flush", "close", "abort", "nothing", "canceled", "consolidated"} {
		for _, other := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				b, o := inBuckets()
				url := belowURL + "#mode=nczarr,consolidated" + belowRest
				release := make(chan struct{})
				b.beforeChange = func(string, string) error { // before the claim is put
					b.beforeChange = nil
					if other {
						ds, err := several(t, url, o, false, 1, "both", "old")
						if err != nil {
							t.Fatal(err)
						}
						closeDataset(t, ds)
					}
					return nil
				}
				kind := ncerr.ErrConflict
				if !other {
					kind = ncerr.ErrPermission
				}
				ds := create(t, url, hook(o, secondList(func() error {
					<-release
					if other {
						return nil
					}
					return ncerr.ErrPermission
				})))
				x := dim(t, ds.Root(), "x", 0, true)
				v := define(t, ds.Root(), "both", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wantErr := func(what string, err error) {
					t.Helper()
					if ncerr.KindOf(err) != kind {
						t.Errorf("%s, other %t: %s: want %v, got %v", end, other, what, kind, err)
					}
				}
				write := func(ctx context.Context) error {
					return v.Write(ctx, chunk.Selection{Start: []int64{0}, Count: []int64{4}}, []int32{2, 2, 2, 2})
				}
				switch end {
				case "write":
					close(release)
					wantErr("write", write(ctx))
					wantErr("flush", ds.Flush(ctx))
				case "flush":
					close(release)
					wantErr("flush", ds.Flush(ctx))
					wantErr("write", write(ctx))
				case "close", "abort":
					close(release)
				case "nothing":
					close(release)
					synctest.Wait()
				case "canceled":
					cancel()
					if err := write(ctx); err == nil {
						t.Error("want an error of a canceled write")
					}
					close(release)
				case "consolidated":
					close(release)
					wantErr("remove the consolidated metadata", ds.RemoveConsolidated(ctx))
				}
				before := b.names("bkt")
				if claim := slices.Contains(before, "dir/a.zarr/.nczreplacing"); claim && end != "close" && end != "abort" && end != "canceled" {
					t.Errorf("%s, other %t: the claim still exists", end, other)
				}
				if end == "close" {
					wantErr("close", ds.Close(t.Context()))
				} else if err := ds.Abort(t.Context()); err != nil {
					t.Errorf("%s, other %t: abort: %v", end, other, err)
				}
				if got := b.names("bkt"); !other && len(got) > 0 {
					t.Errorf("%s: want no objects, got %q", end, got)
				} else if other && (stateOf(t, url, o) != "old" || slices.Contains(got, "dir/a.zarr/.nczreplacing")) {
					t.Errorf("%s: want the old dataset and no claim, got %s, %q", end, stateOf(t, url, o), got)
				}
			})
		}
	}
}

// After a temporary failure the look is repeated. Until it passes, nothing but the claim is
// written, and if it never does, the end of the dataset deletes the claim.
func TestLookFailsTemporarily(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"list ", "stat dir/.nczreplacing"} { // inside the location, and above it
		for _, end := range []string{"recovers at once", "recovers later", "close", "abort"} {
			synctest.Test(t, func(t *testing.T) {
				b, o := inBuckets()
				o.Remote.Retry.Attempts = 1
				url := belowURL + "#mode=nczarr" + belowRest
				var failures atomic.Int64
				fails := func(op, key string) error {
					if failures.Load() > 0 && (op+" "+key == request) {
						failures.Add(-1)
						err := ncerr.Errorf(ncerr.ErrIO, "", "", "the server is busy")
						err.Retryable = true
						return err
					}
					return nil
				}
				b.beforeChange = func(string, string) error { // before the claim is put, and so before the look
					b.beforeChange = nil
					failures.Store(1000)
					if end == "recovers at once" {
						failures.Store(1)
					}
					return nil
				}
				ds := create(t, url, hook(o, fails))
				synctest.Wait()
				v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
				write := func() error { return v.Write(t.Context(), v.All(), []int32{1}) }
				if end != "recovers at once" {
					if err := write(); ncerr.KindOf(err) != ncerr.ErrIO {
						t.Errorf("%s%s: want ErrIO from a write, got %v", request, end, err)
					}
					if got := b.names("bkt"); !slices.Equal(got, []string{"dir/a.zarr/.nczreplacing"}) {
						t.Errorf("%s%s: want only the claim, got %q", request, end, got)
					}
				}
				switch end {
				case "close":
					if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrIO {
						t.Errorf("want ErrIO from Close, got %v", err)
					}
				case "abort":
					if err := ds.Abort(t.Context()); err != nil {
						t.Error(err)
					}
				default:
					failures.Store(min(failures.Load(), 1) - 1)
					if err := write(); err != nil {
						t.Fatalf("%s%s: %v", request, end, err)
					}
					closeDataset(t, ds)
					expect(t, open(t, url, o), "/v", []int32{1})
					return
				}
				if got := b.names("bkt"); len(got) > 0 {
					t.Errorf("%s%s: want no objects, got %q", request, end, got)
				}
			})
		}
	}
}

// A temporary name that a server lists while it replaces the claim is not an object of another
// process.
func TestLookSeesTemporaryName(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	const temporary = "dir/a.zarr/..nczreplacing.sgwtmp.1"
	var mu sync.Mutex
	lists := 0
	ds := create(t, belowURL+"#mode=nczarr"+belowRest, hook(o, func(op, _ string) error {
		if op != "list" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		switch lists++; lists {
		case 2:
			_, err := b.bucket("bkt").Put(t.Context(), temporary, driver.Bytes("x"), &driver.PutOptions{})
			return err
		case 3:
			return b.bucket("bkt").Delete(t.Context(), temporary, &driver.DeleteOptions{})
		}
		return nil
	}))
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
	if err := v.Write(t.Context(), v.All(), []int32{1}); err != nil {
		t.Fatal(err)
	}
	if lists != 3 {
		t.Errorf("want a third listing after one with a temporary name, got %d", lists)
	}
	closeDataset(t, ds)
	expect(t, open(t, belowURL+"#mode=nczarr"+belowRest, o), "/v", []int32{1})
}

// A process that dies when its claim lists the nodes and before the second look has found the
// dataset of another process leaves a claim, whose removal keeps the dataset.
func TestKilledBeforeLook(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	url := belowURL + "#mode=nczarr" + belowRest
	b.beforeChange = func(string, string) error {
		b.beforeChange = nil
		ds, err := several(t, url, o, false, 1, "both", "old")
		if err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		return nil
	}
	dead := make(chan struct{})
	after := secondList(func() error { <-dead; return errKilled })
	ds := create(t, url, hook(o, func(op, key string) error {
		select {
		case <-dead:
			return errKilled
		default:
			return after(op, key)
		}
	}))
	x := dim(t, ds.Root(), "x", 3, false)
	v := define(t, ds.Root(), "both", &dataset.VarSpec{Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{1}})
	written := make(chan error, 1)
	go func() { written <- v.Write(t.Context(), v.All(), []int32{2, 2, 2}) }()
	for claim := (*dataset.Claim)(nil); claim == nil || len(claim.Nodes) == 0; runtime.Gosched() {
		claim, _ = dataset.FindClaim(t.Context(), locate(url), o)
	}
	close(dead)
	if err := <-written; err == nil {
		t.Error("want an error of a killed write")
	}
	if others, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil || len(others) > 0 {
		t.Errorf("clean: %q, %v", others, err)
	}
	if got := stateOf(t, url, o); got != "old" || slices.Contains(b.names("bkt"), "dir/a.zarr/.nczreplacing") {
		t.Errorf("want the old dataset and no claim, got %s, %q", got, b.names("bkt"))
	}
}

// canceledPuts is a store whose nth put of a claim succeeds but is canceled before the result
// arrives.
type canceledPuts struct {
	slowMap
	n      *int
	cancel context.CancelFunc
}

func (c canceledPuts) Put(ctx context.Context, key string, b driver.Body, o *driver.PutOptions) (driver.Info, error) {
	info, err := c.slowMap.Put(ctx, key, b, o)
	if key == zarr.ReplacingMark && err == nil {
		if *c.n--; *c.n == 0 {
			c.cancel()
			return driver.Info{}, ctx.Err()
		}
	}
	return info, err
}

// If a put of the claim succeeds but is canceled, the claim still belongs to the process: it
// can continue, and it deletes the claim if it does not.
func TestClaimPutCanceled(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"create", "write", "abort", "look fails"} {
		synctest.Test(t, func(t *testing.T) {
			b, o := inBuckets()
			url := belowURL + "#mode=nczarr" + belowRest
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			release, n := make(chan struct{}), 2
			if then == "create" {
				n = 1
			}
			before := secondList(func() error {
				<-release
				if then == "look fails" {
					return ncerr.ErrPermission
				}
				return nil
			})
			o.Wrap = func(m driver.Map) driver.Map { return canceledPuts{slowMap{m, before}, &n, cancel} }
			ds, err := createURL(ctx, url, &dataset.CreateOptions{Options: *o})
			if then == "create" {
				if got := b.names("bkt"); err == nil || len(got) > 0 {
					t.Errorf("create: want an error and no objects, got %v, %q", err, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
			if err := v.Write(ctx, v.All(), []int32{1}); !ncerr.IsContext(err) {
				t.Errorf("%s: want the error of the context, got %v", then, err)
			}
			close(release)
			switch then {
			case "write":
				write(t, v, v.All(), []int32{2})
				closeDataset(t, ds)
				again := open(t, url, o)
				expect(t, again, "v", []int32{2})
				closeDataset(t, again)
				return
			case "look fails":
				synctest.Wait()
				if got := b.names("bkt"); len(got) > 0 {
					t.Errorf("%s: want no objects, got %q", then, got)
				}
			}
			if err := ds.Abort(t.Context()); err != nil {
				t.Errorf("%s: abort: %v", then, err)
			}
			if got := b.names("bkt"); len(got) > 0 {
				t.Errorf("%s: want no objects after Abort, got %q", then, got)
			}
		})
	}
}

// order records when requests begin and end.
type order struct {
	mu     sync.Mutex
	events []string
}

func (r *order) hook(op, key string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, op+" "+key)
	return nil
}

func (r *order) count(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e == event {
			n++
		}
	}
	return n
}

// The attributes of an array are put with its first chunks, and again only if they have
// changed since or the first put has failed.
func TestEarlyDocuments(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"nothing", "changes", "fails", "changes back", "a Flush fails before"} {
		_, o := inBuckets()
		url := belowURL + "#mode=nczarr" + belowRest
		var r order
		fails := map[string]string{"fails": "put g/v/.zattrs", "a Flush fails before": "put g/v/.zarray"}[then]
		var mu sync.Mutex
		ds := create(t, url, hook(o, func(op, key string) error {
			mu.Lock()
			defer mu.Unlock()
			_ = r.hook(op, key)
			if op+" "+key == fails {
				fails = ""
				return ncerr.ErrPermission
			}
			return nil
		}))
		g, err := ds.Root().DefineGroup("g")
		if err != nil {
			t.Fatal(err)
		}
		v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt})
		setText(t, v.SetAttr, "units", "K")
		flushes := then == "a Flush fails before"
		if flushes {
			if err := ds.Flush(t.Context()); ncerr.KindOf(err) != ncerr.ErrPermission {
				t.Errorf("want ErrPermission, got %v", err)
			}
		}
		for range 2 {
			if err := v.Write(t.Context(), v.All(), []int32{1}); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.count("put g/v/.zattrs"); n != 1 || !flushes && r.count("put .zattrs")+r.count("put g/.zattrs")+r.count("put g/v/.zarray") != 0 {
			t.Errorf("%s: want only the attributes of the array with the chunks, got %q", then, r.events)
		}
		want, units := 1, "K"
		switch then {
		case "changes":
			want, units = 2, "m"
			setText(t, v.SetAttr, "units", units)
		case "changes back":
			setText(t, v.SetAttr, "units", "m")
			setText(t, v.SetAttr, "units", units)
		case "fails", "a Flush fails before":
			want = 2
		}
		closeDataset(t, ds)
		if n := r.count("put g/v/.zattrs"); n != want {
			t.Errorf("%s: want %d puts of the attributes, got %d", then, want, n)
		}
		again := open(t, url, o)
		if a, err := variable(t, again, "/g/v").Attr("units"); err != nil || a.Value != units {
			t.Errorf("%s: want units %q, got %v, %v", then, units, a.Value, err)
		}
		expect(t, again, "/g/v", []int32{1})
		closeDataset(t, again)
	}
}

// If a Flush puts the changed attributes of an array whose first write is in progress, the put of
// the older ones has ended by then.
func TestEarlyDocumentsAreOlder(t *testing.T) {
	t.Parallel()
	_, o := inBuckets()
	url := belowURL + "#mode=nczarr" + belowRest
	started, checked, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	puts := 0
	ds := create(t, url, hook(o, func(op, key string) error {
		mu.Lock()
		if op == "put" && key == "v/.zattrs" {
			puts++
		}
		first := puts == 1 && op == "put" && key == "v/.zattrs"
		if puts == 2 && op == "put" && key == "v/.zattrs" {
			close(second)
		}
		if puts == 1 && op == "get" && key == ".nczreplacing" {
			close(checked)
		}
		mu.Unlock()
		if first {
			close(started)
			<-checked
			for range 1000 {
				select {
				case <-second:
					t.Error("the Flush has put the attributes during the first put")
					return nil
				default:
					runtime.Gosched()
				}
			}
		}
		return nil
	}))
	v := define(t, ds.Root(), "v", &dataset.VarSpec{Type: dtype.NCInt})
	setText(t, v.SetAttr, "units", "K")
	written := make(chan error, 1)
	go func() { written <- v.Write(t.Context(), v.All(), []int32{1}) }()
	<-started
	setText(t, v.SetAttr, "units", "m")
	if err := ds.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	closeDataset(t, ds)
	again := open(t, url, o)
	defer closeDataset(t, again)
	if a, err := variable(t, again, "v").Attr("units"); err != nil || a.Value != "m" {
		t.Errorf("want the new units, got %v, %v", a.Value, err)
	}
}

// Before a document makes a node visible, all documents that must exist by then are put. The
// attributes of groups are put at the same time as the documents of arrays.
func TestOrderOfNewDocuments(t *testing.T) {
	t.Parallel()
	b, o := inBuckets()
	url := belowURL + "#mode=nczarr,consolidated" + belowRest
	root := "dir/a.zarr/"
	needs := map[string][]string{
		"g/v/.zarray": {"g/v/0", "g/v/.zattrs"}, "g/w/.zarray": {"g/w/.zattrs"},
		"g/.zgroup":  {"g/.zattrs", "g/v/.zarray", "g/w/.zarray"},
		".zgroup":    {".zattrs", "g/.zgroup"},
		".zmetadata": {".zgroup"},
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	o.Workers = 4
	arrays, first := make(chan struct{}), sync.Once{}
	ds := create(t, url, hook(o, func(op, key string) error {
		if op == "put" && key == "g/.zattrs" {
			<-arrays
			for range 1000 { // time for the documents of the groups, which wait for this put
				runtime.Gosched()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if op == "put" && path.Base(key) == ".zarray" {
			first.Do(func() { close(arrays) })
		}
		if op == "put" {
			seen[key] = true
			for _, need := range needs[key] {
				if !slices.Contains(b.names("bkt"), root+need) {
					t.Errorf("%s is put before %s", key, need)
				}
			}
		}
		if op == "delete" && key == ".nczreplacing" && !slices.Contains(b.names("bkt"), root+".zmetadata") {
			t.Error("the claim is deleted before .zmetadata is put")
		}
		return nil
	}))
	g, err := ds.Root().DefineGroup("g")
	if err != nil {
		t.Fatal(err)
	}
	v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt})
	setText(t, define(t, g, "w", &dataset.VarSpec{Type: dtype.NCInt}).SetAttr, "units", "K")
	if err := v.Write(t.Context(), v.All(), []int32{1}); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	for key := range needs {
		if !seen[key] {
			t.Errorf("%s was not put", key)
		}
	}
}

// The claim is checked after a document of the root was put. If another process removes the
// claim before, the Flush fails. If it does so later, it finds the dataset and removes nothing
// else.
func TestClaimRemovedWhilePublishing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"nczarr,consolidated", "nczarr", "v3"} {
		for n := 0; ; n++ {
			b, o := inBuckets()
			url := belowURL + "#mode=" + mode + belowRest
			var mu sync.Mutex
			count, at, removed, published := 0, "", false, false
			flushing := false
			ds, err := several(t, url, hook(o, func(op, key string) error {
				mu.Lock()
				defer mu.Unlock()
				if flushing {
					count++
				}
				if !flushing || count != n+1 {
					return nil
				}
				at, removed = op+" "+key, true
				names := b.names("bkt")
				published = slices.ContainsFunc(names, func(name string) bool {
					return path.Dir(name) == "dir/a.zarr" && slices.Contains([]string{".zgroup", "zarr.json", ".zmetadata"}, path.Base(name))
				})
				if _, err := dataset.RemoveUnfinished(t.Context(), locate(url), o); err != nil && (ncerr.KindOf(err) != ncerr.ErrNotFound || slices.Contains(names, "dir/a.zarr/.nczreplacing")) {
					t.Errorf("before %s: %v", at, err)
				}
				return nil
			}), false, 1, "both", "old")
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			flushing = true
			mu.Unlock()
			err = ds.Flush(t.Context())
			if !removed {
				if err != nil {
					t.Errorf("%s: %v", mode, err)
				}
				closeDataset(t, ds)
				break
			}
			if !published && err == nil {
				t.Errorf("%s: the claim was removed before %s: want an error", mode, at)
			}
			if published || err == nil {
				if got := stateOf(t, url, o); got != "old" {
					t.Errorf("%s: the claim was removed before %s: want the dataset, got %s", mode, at, got)
				}
			}
			_ = ds.Abort(t.Context())
		}
	}
}

// An attribute that is deleted after the first write of its array does not come back from
// documents that were put with that write.
func TestDeletedAfterFirstWrite(t *testing.T) {
	t.Parallel()
	for _, layout := range []zarr.Layout{zarr.LayoutPure, zarr.LayoutNewest, zarr.LayoutLower, zarr.LayoutUpper, zarr.LayoutV1, zarr.LayoutV3, zarr.LayoutNCZarr3} {
		_, o := inBuckets()
		mode := "#mode=zarr"
		if layout.NCZarr() {
			mode = "#mode=nczarr"
		}
		url := belowURL + mode + belowRest
		ds, err := createURL(t.Context(), url, &dataset.CreateOptions{Options: *o, Layout: &layout})
		if err != nil {
			t.Fatal(err)
		}
		g, err := ds.Root().DefineGroup("g")
		if err != nil {
			t.Fatal(err)
		}
		v := define(t, g, "v", &dataset.VarSpec{Type: dtype.NCInt})
		setText(t, v.SetAttr, "units", "K")
		if err := v.Write(t.Context(), v.All(), []int32{1}); err != nil {
			t.Fatal(err)
		}
		if err := v.DeleteAttr("units"); err != nil {
			t.Fatal(err)
		}
		closeDataset(t, ds)
		again := open(t, url, o)
		if list := variable(t, again, "/g/v").Attrs(); len(list) != 0 {
			t.Errorf("%s: want no attributes, got %v", layout, list)
		}
		expect(t, again, "/g/v", []int32{1})
		closeDataset(t, again)
	}
}
