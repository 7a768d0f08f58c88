package array //nolint:testpackage // the test inspects unexported scratch memory

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/zmap"
)

// TestReleaseIsBounded checks that a worker that has processed large chunks keeps at most
// maxScratch bytes.
func TestReleaseIsBounded(t *testing.T) {
	t.Parallel()
	var a Array
	w := &worker{items: make([]item, 4)}
	for i := range w.items {
		w.items[i].inBuf, w.items[i].outBuf = make([]byte, maxScratch/4), make([]byte, maxScratch/2)
	}
	w.texts = make([]string, 1, maxScratch/16+1)
	w.reqs = append(make([]zmap.GetRequest, 0, maxBatch*maxBatch+1), zmap.GetRequest{Key: "k"})[:0]
	a.release(w)
	if w.reqs != nil {
		t.Errorf("release kept a slice for %d requests", cap(w.reqs))
	}
	kept := 16 * cap(w.texts)
	for i := range w.items {
		kept += cap(w.items[i].inBuf) + cap(w.items[i].outBuf)
	}
	if kept == 0 || kept > maxScratch {
		t.Errorf("release kept %d bytes, want 1 to %d", kept, maxScratch)
	}
	w.reqs = append(make([]zmap.GetRequest, 0, 1), zmap.GetRequest{Key: "k"})[:0]
	a.release(w)
	if w.reqs[:1][0].Key != "" {
		t.Error("release kept a completed request")
	}
}
