package layer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// zipped declares that writes are durable after Flush.
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
			t.Errorf("printed %q, %v", out.String(), err)
		}
	}
}
