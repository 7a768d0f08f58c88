package mapsuite

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

func putManyChecks() []Check {
	needs := []string{Write, PutMany}
	return []Check{
		{ID: "map.put.many", Doc: "PutMany reports the result of every request exactly once. The result is the one that Put would return, independently of the other requests, and exactly the objects that are reported as stored are stored.", Needs: needs, Run: putManySizes},
		{ID: "map.put.many.released", Doc: "PutMany does not use the bodies after it returns.", Needs: needs, Run: putManyReleased},
		{ID: "map.put.many.cancel", Doc: "If the context of a PutMany is canceled during the call, each object is stored completely or not at all, no request is reported as stored whose object is not, and nothing is stored after PutMany returns.", Needs: needs, Run: putManyCanceled},
	}
}

func putManySizes(t conformance.T, e *Env) {
	s := e.create(t)
	for _, n := range []int{0, 1, 2, 16, 100, 128} {
		s.putMany(fmt.Sprintf("m%d", n), n)
	}
}

// write is one request of a PutMany and its expected result.
type write struct {
	req  driver.PutRequest
	kind ncerr.Kind // kind of the expected error; 0 for success
	fail bool       // an error of any kind is expected
	want string     // content afterwards
	gone bool       // the key does not exist afterwards
}

// newWrite returns request i. It first stores the object that the request replaces or
// conflicts with, if any.
func (s *store) newWrite(key string, i int) write {
	caps := s.m.Capabilities()
	size := 100 + i
	switch i % 32 {
	case 8:
		size = 0
	case 15:
		size = 70_000
	case 24:
		size = 1<<20 + 3
	}
	old, fresh := pattern(byte(i), 90+i), pattern(byte(i+100), size)
	w := write{req: driver.PutRequest{Key: key, Body: driver.Bytes(fresh)}, want: fresh}
	stored := func() driver.Info { return s.put(key, old) }
	switch i % 8 {
	case 1:
		stored()
	case 2:
		stored()
		if caps.IfAbsent {
			w.req.Opts.IfAbsent, w.kind, w.want = true, ncerr.ErrObjectExists, old
		}
	case 3:
		w.req.Opts.IfAbsent = caps.IfAbsent
	case 4:
		version := stored().Version
		old = pattern(byte(i+50), 90+i)
		stored()
		if caps.IfMatch {
			w.req.Opts.IfMatch, w.kind, w.want = version, ncerr.ErrConflict, old
		}
	case 5:
		if version := stored().Version; caps.IfMatch {
			w.req.Opts.IfMatch = version
		}
	case 6:
		w.req.Body, w.fail = badBody{size: int64(size), readable: int64(size) / 2, err: errBody}, true
		if w.gone = i%16 == 6; !w.gone {
			stored()
			w.want = old
		}
	case 7:
		w.req.Body = readerBody{strings.NewReader(fresh)}
	}
	return w
}

// putMany makes n requests below a prefix, with every kind of option and body.
func (s *store) putMany(prefix string, n int) {
	exclusive := s.m.Capabilities().PrefixExclusive && n > 1
	writes := make([]write, n)
	for i := range writes {
		if !exclusive || i < n-1 {
			writes[i] = s.newWrite(fmt.Sprintf("%s/%d", prefix, i), i)
		}
	}
	if exclusive {
		above := prefix + "/above"
		s.put(above, above)
		writes[n-1] = write{req: driver.PutRequest{Key: above + "/below", Body: driver.Bytes("x")}, kind: ncerr.ErrObjectExists, gone: true}
	}
	reqs := make([]driver.PutRequest, len(writes))
	for i := range writes {
		reqs[i] = writes[i].req
	}
	infos, errs, calls := make([]driver.Info, len(reqs)), make([]error, len(reqs)), make([]int, len(reqs))
	var inside atomic.Int64
	err := s.callPutMany(s.t.Context(), reqs, func(i int, info driver.Info, err error) {
		if inside.Add(1) > 1 {
			s.t.Errorf("the sink is called again before the previous call has returned")
		}
		runtime.Gosched()
		infos[i], errs[i] = info, err
		calls[i]++
		inside.Add(-1)
	})
	if err != nil {
		s.t.Fatalf("put many: %v", err)
	}
	for i, w := range writes {
		what := fmt.Sprintf("request %d of %d", i, len(reqs))
		switch {
		case calls[i] != 1:
			s.t.Errorf("%s: the sink was called %d times", what, calls[i])
		case w.kind != 0:
			wantKind(s.t, what, errs[i], w.kind)
		case w.fail && (errs[i] == nil || ncerr.KindOf(errs[i]) == ncerr.ErrNotFound):
			s.t.Errorf("%s: want an error, because the body cannot be read, got %v", what, errs[i])
		case !w.fail && errs[i] != nil:
			s.t.Errorf("%s: %v", what, errs[i])
		}
		s.wantWritten(w, infos[i], errs[i])
	}
	s.wantPrefix(prefix, writes)
}

// callPutMany calls PutMany. It fails the check if the Map does not implement PutMany.
func (s *store) callPutMany(ctx context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	puts, ok := s.m.(driver.PutManyer)
	if !ok {
		s.t.Fatalf("the Map no longer implements PutMany")
	}
	s.t.Step("put many", strconv.Itoa(len(reqs)))
	return puts.PutMany(ctx, reqs, sink)
}

// wantWritten checks the stored object of a request and the info returned for it.
func (s *store) wantWritten(w write, info driver.Info, err error) {
	if w.gone {
		s.wantAbsent(w.req.Key)
		return
	}
	s.want(w.req.Key, w.want)
	if err != nil {
		return
	}
	now, err := s.stat(w.req.Key)
	if err != nil || info.Size != now.Size || info.Version != now.Version {
		s.t.Errorf("put many %q: want the info that Stat returns, %+v, %v, got %+v", w.req.Key, now, err, info)
	}
}

// wantPrefix checks that the objects below prefix are exactly the ones in writes.
func (s *store) wantPrefix(prefix string, writes []write) {
	if !s.m.Capabilities().RecursiveList {
		return
	}
	var want []string
	for _, w := range writes {
		if !w.gone {
			want = append(want, w.req.Key)
		} else if above, ok := strings.CutSuffix(w.req.Key, "/below"); ok {
			want = append(want, above)
		}
	}
	slices.Sort(want)
	s.wantMany(prefix+"/", driver.ListOptions{Recursive: true}, want)
}

// plainWrites returns 40 requests without conditions, and their contents.
func plainWrites(prefix string, size int) ([]driver.PutRequest, []string) {
	reqs, want := make([]driver.PutRequest, 40), make([]string, 40)
	for i := range reqs {
		want[i] = pattern(byte(i), size+i)
		reqs[i] = driver.PutRequest{Key: fmt.Sprintf("%s/%d", prefix, i), Body: driver.Bytes(want[i])}
	}
	return reqs, want
}

func putManyReleased(t conformance.T, e *Env) {
	s := e.create(t)
	reqs, want := plainWrites("k", 100)
	err := s.callPutMany(t.Context(), reqs, func(i int, _ driver.Info, err error) {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	})
	if err != nil {
		t.Fatalf("put many: %v", err)
	}
	for i := range reqs {
		body, _ := reqs[i].Body.(driver.Bytes)
		if string(body) != want[i] {
			t.Errorf("put many changes the body of request %d", i)
		}
		clear(body)
	}
	for i := range 5 { // the Map may reuse the memory of the bodies for these
		s.put(fmt.Sprint("other", i), "scrawled")
	}
	for i := range reqs {
		s.want(reqs[i].Key, want[i])
	}
}

// putManyCanceled cancels calls to PutMany: before the call, when a body is read, when one
// of the results arrives, or at various times.
func putManyCanceled(t conformance.T, e *Env) {
	s := e.create(t)
	const before, first, last, timed = -1, -2, -3, -4 // not the number of a result
	reqs, _ := plainWrites("timed", 20_000)
	began := time.Now()
	if err := s.callPutMany(t.Context(), reqs, func(int, driver.Info, error) {}); err != nil {
		t.Fatalf("put many: %v", err)
	}
	took := time.Since(began)
	const times = 16
	for round, at := range append([]int{before, first, last, 0, 1, 7}, slices.Repeat([]int{timed}, times)...) {
		reqs, fresh := plainWrites(fmt.Sprintf("r%d", round), 20_000)
		for i := range reqs {
			s.put(reqs[i].Key, "old")
		}
		ctx, cancel := context.WithCancel(t.Context())
		switch at {
		case before:
			cancel()
		case first:
			reqs[0].Body = cancelingBody{driver.Bytes(fresh[0]), int64(len(fresh[0])) - 1, cancel}
		case last:
			reqs[len(reqs)-1].Body = cancelingBody{driver.Bytes(fresh[len(reqs)-1]), int64(len(fresh[len(reqs)-1])) - 1, cancel}
		case timed:
			time.AfterFunc(took*time.Duration(round-5)/times, cancel)
		}
		stored, answers := make([]bool, len(reqs)), 0
		err := s.callPutMany(ctx, reqs, func(i int, _ driver.Info, err error) {
			ended(ctx, t, fmt.Sprintf("request %d", i), err)
			stored[i] = err == nil
			if answers == at {
				cancel()
			}
			answers++
		})
		cancel()
		ended(ctx, t, "put many", err)
		want := make([]string, len(reqs))
		for i := range reqs {
			got, _, err := s.tryGet(reqs[i].Key, driver.GetOptions{})
			want[i] = string(got)
			switch {
			case err != nil || want[i] != "old" && want[i] != fresh[i]:
				t.Errorf("request %d: want the old or the new content, got %d bytes %s, %v", i, len(got), show(want[i]), err)
			case stored[i] && want[i] == "old":
				t.Errorf("request %d is reported as stored, but the object has the old content", i)
			}
			if i%2 == 0 { // the canceled call must not replace this one
				s.put(reqs[i].Key, "last")
				want[i] = "last"
			}
		}
		if at == timed {
			continue
		}
		for range 3 { // work that continues in the background needs a moment
			for i := range reqs {
				s.want(reqs[i].Key, want[i])
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}
