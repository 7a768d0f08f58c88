//go:build !race

package cdl_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	reg "github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
	"github.com/seed-695719ce/nczarr/filters/shuffle"
	"github.com/seed-695719ce/nczarr/filters/zstd"
)

// The data has chunkCount chunks of 4 MiB, 8 bytes per element. memoryLimit is the budget, and memoryConstant the
// memory of the process in addition to it, as docs/reference/limits.md states.
const (
	chunkCount     = 32
	chunkElements  = 1 << 19
	memoryLimit    = 40 << 20
	memoryConstant = 64 << 20
)

// TestPeakMemory checks that read, write, copy, dump, gen and open stay within the budget plus
// a constant. Each runs in a process of its own, which collects garbage only when it reaches
// a limit, and in one thread, because otherwise a busy machine may delay the collector while
// other threads allocate. Four goroutines process chunks. The race detector needs more memory.
func TestPeakMemory(t *testing.T) {
	t.Parallel()
	if op := os.Getenv("NCZARR_MEMORY_OP"); op != "" {
		m := &memoryOps{t: t, dir: os.Getenv("NCZARR_MEMORY_DIR"), opts: &dataset.Options{
			Registry: reg.New([]driver.Opener{file.New()}, zstd.Provider(), shuffle.Provider()), SingleWriter: true, Workers: 4, Budget: budget.New(memoryLimit),
		}}
		map[string]func(context.Context){
			"write": m.write, "read": m.read, "rows": m.rows, "copy": m.copy, "move": m.move, "rechunk": m.rechunk, "dump": m.dump, "gen": m.gen, "open": m.open,
		}[op](t.Context())
		fmt.Printf("peak %d\n", peak(t))
		return
	}
	dir := t.TempDir()
	hostileMetadata(t, filepath.Join(dir, "open.zarr"))
	for _, op := range []string{"write", "read", "rows", "copy", "move", "rechunk", "dump", "gen", "open"} { // gen needs what dump writes
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPeakMemory$")
		cmd.Env = append(os.Environ(), "NCZARR_MEMORY_OP="+op, "NCZARR_MEMORY_DIR="+dir, "GOGC=off", "GODEBUG=", fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit+memoryConstant/8), "GOMAXPROCS=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", op, err, out)
		}
		var used int64
		for line := range strings.Lines(string(out)) {
			_, _ = fmt.Sscanf(line, "peak %d", &used)
		}
		t.Logf("%s: %d MiB", op, used>>20)
		if used == 0 || used > memoryLimit+memoryConstant {
			t.Errorf("%s: peak of %d bytes, want at most %d", op, used, memoryLimit+memoryConstant)
		}
	}
}

// peak returns the largest resident set of this process in bytes.
func peak(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			break
		}
	}
	return kib << 10
}

// hostileMetadata makes a dataset of 64 variables with documents of 4 MiB each.
func hostileMetadata(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{".zgroup": `{"zarr_format": 2}`}
	for i := range 64 {
		name := fmt.Sprintf("v%d/", i)
		files[name+".zarray"] = `{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "<i4", "compressor": null, "filters": null, "fill_value": 0, "order": "C"}`
		files[name+".zattrs"] = "{" + strings.Repeat(" ", 4<<20) + "}"
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// memoryOps are the operations that TestPeakMemory measures.
type memoryOps struct {
	t    *testing.T
	dir  string
	opts *dataset.Options
}

func (m *memoryOps) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *memoryOps) url(name string) string { return filepath.Join(m.dir, name) + "#mode=zarr" }

func (m *memoryOps) create(ctx context.Context, name string) *dataset.Dataset {
	ds, err := open.Create(ctx, m.url(name), &dataset.CreateOptions{Options: *m.opts})
	m.check(err)
	return ds
}

func (m *memoryOps) source(ctx context.Context) (*dataset.Dataset, *dataset.Var) {
	ds, err := open.Open(ctx, m.url("src.zarr"), m.opts)
	m.check(err)
	v, err := ds.Root().Var("v")
	m.check(err)
	return ds, v
}

// write writes the data in rows of a quarter of a chunk.
func (m *memoryOps) write(ctx context.Context) {
	ds := m.create(ctx, "src.zarr")
	y, err := ds.Root().DefineDim("y", chunkCount*4, false)
	m.check(err)
	x, err := ds.Root().DefineDim("x", chunkElements/4, false)
	m.check(err)
	v, err := ds.Root().DefineVar(ctx, "v", &dataset.VarSpec{Type: dtype.NCInt64, Dims: []*dataset.Dim{y, x}, Chunks: []int64{4, chunkElements / 4}, Codecs: []zarr.CodecSpec{{ID: "shuffle"}, {ID: "zstd"}}})
	m.check(err)
	row := make([]int64, chunkElements/4)
	for i := range int64(chunkCount * 4) {
		for k := range row {
			row[k] = 1_000_000 + int64(k)%7 // the text of all values is as large as the values
		}
		m.check(v.Write(ctx, chunk.Selection{Start: []int64{i, 0}, Count: []int64{1, chunkElements / 4}}, row))
	}
	m.check(ds.Close(ctx))
}

// read reads columns, each of which is a part of every chunk.
func (m *memoryOps) read(ctx context.Context) {
	ds, v := m.source(ctx)
	out := make([]float64, chunkCount*4*64) // converted
	for at := int64(0); at < 8*64; at += 64 {
		m.check(v.Read(ctx, chunk.Selection{Start: []int64{0, at}, Count: []int64{chunkCount * 4, 64}}, out))
	}
	m.check(ds.Close(ctx))
}

// rows reads one row after the other.
func (m *memoryOps) rows(ctx context.Context) {
	ds, v := m.source(ctx)
	row := make([]int64, chunkElements/4)
	for i := range int64(chunkCount * 4) {
		m.check(v.Read(ctx, chunk.Selection{Start: []int64{i, 0}, Count: []int64{1, chunkElements / 4}}, row))
	}
	m.check(ds.Close(ctx))
}

func (m *memoryOps) copyWith(ctx context.Context, name string, o *dataset.CopyOptions) {
	ds, _ := m.source(ctx)
	dst := m.create(ctx, name)
	m.check(dataset.Copy(ctx, dst.Root(), ds.Root(), o))
	m.check(dst.Close(ctx))
	m.check(ds.Close(ctx))
}

func (m *memoryOps) copy(ctx context.Context) {
	m.copyWith(ctx, "copy.zarr", &dataset.CopyOptions{Codecs: func(*dataset.Var) ([]zarr.CodecSpec, bool, error) {
		return []zarr.CodecSpec{{ID: "zstd"}}, true, nil
	}})
}

func (m *memoryOps) move(ctx context.Context) { m.copyWith(ctx, "move.zarr", nil) }

func (m *memoryOps) rechunk(ctx context.Context) {
	m.copyWith(ctx, "rechunk.zarr", &dataset.CopyOptions{Chunks: func(*dataset.Var) ([]int64, error) {
		return []int64{chunkCount * 4, chunkElements / 256}, nil
	}})
}

func (m *memoryOps) dump(ctx context.Context) {
	ds, _ := m.source(ctx)
	h, err := os.Create(filepath.Join(m.dir, "dump.cdl"))
	m.check(err)
	w := bufio.NewWriter(h)
	m.check(cdl.Write(ctx, w, ds, &cdl.WriteOptions{Special: true}))
	m.check(w.Flush())
	m.check(h.Close())
	m.check(ds.Close(ctx))
}

func (m *memoryOps) gen(ctx context.Context) {
	h, err := os.Open(filepath.Join(m.dir, "dump.cdl"))
	m.check(err)
	defer h.Close() // opened for reading
	parsed, err := cdl.Parse(h, "dump.cdl", nil)
	m.check(err)
	ds := m.create(ctx, "gen.zarr")
	m.check(cdl.Build(ctx, parsed, ds))
	m.check(ds.Close(ctx))
}

// open fails, because the documents exceed their part of the budget.
func (m *memoryOps) open(ctx context.Context) {
	_, err := open.Open(ctx, m.url("open.zarr"), m.opts)
	if !errors.Is(err, ncerr.ErrLimit) {
		m.t.Fatalf("want ErrLimit, got %v", err)
	}
}
