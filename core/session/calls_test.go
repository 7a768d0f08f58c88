package session_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/session"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// TestCallsOfACopy checks that one call to the process of a driver or filter reads,
// writes, encodes or decodes a batch of 64 chunks.
func TestCallsOfACopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	few, many := callsOfACopy(t, filepath.Join(dir, "few"), 256), callsOfACopy(t, filepath.Join(dir, "many"), 512)
	grown := map[string]int64{}
	for who := range many {
		grown[who] = many[who] - few[who]
	}
	// 256 chunks are four batches. The copy does not encode chunks. writeParts reads
	// each chunk before writing a part of it, and reads all chunks at the end.
	want := map[string]int64{"read": 4, "write": 4, "filters": 4, "part, write": 12, "part, filters": 12}
	for who, most := range want {
		if grown[who] > most || many[who] == 0 {
			t.Errorf("%s: 256 more chunks took %d calls, want at most %d; %d calls in total", who, grown[who], most, many[who])
		}
	}
}

// callsOfACopy returns the numbers of calls, by process, for copying n chunks and for
// writing a part of each chunk.
func callsOfACopy(t *testing.T, dir string, n int64) map[string]int64 {
	t.Helper()
	const size = 16
	open := func(isolation string) *session.Session {
		m := machine{dir: dir, user: "plugins.start_timeout = \"5m\"\nlimits.workers = 2", opts: session.Options{Self: self, Isolation: isolation}}
		s, err := m.open(t)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	src, dst := filepath.Join(dir, "src.zarr"), filepath.Join(dir, "dst.zarr")
	if err := makeChunks(t, src, open("inproc").Options(), n, size); err != nil {
		t.Fatal(err)
	}
	calls := map[string]int64{}
	count := func(s *session.Session, part string) {
		for _, p := range s.Host().Plugins() {
			for _, who := range []string{"read", "write", "filters"} {
				if strings.HasSuffix(p.Serves, who) {
					calls[part+who] += p.Calls
				}
			}
		}
	}
	s := open("process")
	if err := copyOf(t, dst, src, s.Options()); err != nil {
		t.Fatal(err)
	}
	count(s, "")
	s = open("process")
	if err := writeParts(t, dst, s.Options(), n, size); err != nil {
		t.Fatal(err)
	}
	count(s, "part, ")
	return calls
}

func makeChunks(t *testing.T, path string, o *dataset.Options, n, size int64) error {
	t.Helper()
	ds, err := open.Create(t.Context(), path, &dataset.CreateOptions{Options: *o})
	if err != nil {
		return err
	}
	x, err := ds.Root().DefineDim("x", n*size, false)
	if err != nil {
		return err
	}
	v, err := ds.Root().DefineVar(t.Context(), "v", &dataset.VarSpec{
		Type: dtype.NCInt, Dims: []*dataset.Dim{x}, Chunks: []int64{size}, Codecs: []zarr.CodecSpec{{ID: "zlib"}},
	})
	if err != nil {
		return err
	}
	values := make([]int32, n*size)
	for i := range values {
		values[i] = int32(i)
	}
	if err := v.Write(t.Context(), v.All(), values); err != nil {
		return err
	}
	return ds.Close(t.Context())
}

func copyOf(t *testing.T, dst, src string, o *dataset.Options) error {
	t.Helper()
	from, err := open.Open(t.Context(), src, o)
	if err != nil {
		return err
	}
	to, err := open.Create(t.Context(), dst, &dataset.CreateOptions{Options: *o})
	if err != nil {
		return err
	}
	if err := dataset.Copy(t.Context(), to.Root(), from.Root(), nil); err != nil {
		return err
	}
	if err := from.Close(t.Context()); err != nil {
		return err
	}
	return to.Close(t.Context())
}

// writeParts writes every other element and reads all elements back.
func writeParts(t *testing.T, path string, o *dataset.Options, n, size int64) error {
	t.Helper()
	u := *o
	u.Update = true
	ds, err := open.Open(t.Context(), path, &u)
	if err != nil {
		return err
	}
	v, err := ds.Root().Var("v")
	if err != nil {
		return err
	}
	half := chunk.Selection{Start: []int64{0}, Count: []int64{n * size / 2}, Stride: []int64{2}}
	if err := v.Write(t.Context(), half, make([]int32, n*size/2)); err != nil {
		return err
	}
	got, err := dataset.Get[int32](t.Context(), v, v.All())
	if err != nil {
		return err
	}
	for i, x := range got {
		if want := int32(i * (i % 2)); x != want {
			return fmt.Errorf("element %d: want %d, got %d", i, want, x)
		}
	}
	return ds.Close(t.Context())
}
