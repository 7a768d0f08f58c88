package layer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// zipped is a Map that declares writes durable after Flush.
type zipped struct{ driver.Map }

func (z zipped) Capabilities() driver.Capabilities {
	c := z.Map.Capabilities()
	c.Durable = driver.OnFlush
	return c
}

// TestMeasure checks which requests are counted, and under which kind.
func TestMeasure(t *testing.T) {
	t.Parallel()
	for _, wrap := range []func(driver.Map) driver.Map{func(m driver.Map) driver.Map { return m }, func(m driver.Map) driver.Map { return zipped{m} }} {
		s := layer.NewStats()
		m := layer.Measure(wrap(memmap.New()), s)
		putOne(t, m, "content")
		getOne(t, m, driver.GetOptions{})
		_, _, absent := m.Get(t.Context(), "absent", &driver.GetOptions{}, driver.Heap)
		_, _, refused := m.Get(t.Context(), "k", &driver.GetOptions{IfMatch: "other"}, driver.Heap)
		for range m.List(t.Context(), "", &driver.ListOptions{}) {
			continue
		}
		s.Retried("get", "k", refused, time.Second)
		if err := errors.Join(m.Flush(t.Context()), m.Close(context.WithoutCancel(t.Context()))); err != nil || absent == nil || refused == nil {
			t.Error(err, absent, refused)
		}
		var got []string
		for _, k := range s.Kinds() {
			got = append(got, fmt.Sprint(k.Kind, " ", k.Requests, k.Absent, k.Failed, k.Retries, k.Bytes))
		}
		want := "get 3 1 1 1 7, list 1 0 0 0 0, put 1 0 0 0 7"
		if m.Capabilities().Durable == driver.OnFlush {
			want = "flush 1 0 0 0 0, " + want
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
		var out bytes.Buffer
		if err := s.Print(&out); err != nil || strings.Count(out.String(), "\n") != len(got) {
			t.Errorf("Print wrote %q, %v", out.String(), err)
		}
	}
}

// queued is a Map that begins each put of a batch one second after the end of the previous
// one. A put takes two seconds.
type queued struct{ driver.Map }

func (m queued) PutMany(_ context.Context, reqs []driver.PutRequest, sink driver.PutSink) error {
	for i := range reqs {
		time.Sleep(time.Second)
		reqs[i].Start()
		time.Sleep(2 * time.Second)
		sink(i, driver.Info{}, nil)
	}
	return nil
}

// TestMeasurePutMany checks that the time of each put of a batch is measured from its
// own start, even if one Measure layer wraps another.
func TestMeasurePutMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		above, below := layer.NewStats(), layer.NewStats()
		m := layer.Measure(layer.Measure(queued{memmap.New()}, below), above)
		reqs := []driver.PutRequest{{Key: "a", Body: driver.Bytes("a")}, {Key: "b", Body: driver.Bytes("b")}, {Key: "c", Body: driver.Bytes("c")}}
		if err := m.(driver.PutManyer).PutMany(t.Context(), reqs, func(int, driver.Info, error) {}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*layer.Stats{above, below} {
			if k := s.Kinds(); len(k) != 1 || k[0].Requests != 3 || k[0].First != 2*time.Second || k[0].Slowest != 2*time.Second {
				t.Errorf("Kinds: got %+v", k)
			}
		}
	})
}
