package layer_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/mapsuite"
	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// Environment variables of a process that runs readerMain.
const (
	readerStore = "NCZARR_TEST_READER_STORE"
	readerCache = "NCZARR_TEST_READER_CACHE"
	readerCount = "NCZARR_TEST_READER_COUNT"
	readerSeed  = "NCZARR_TEST_READER_SEED"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(readerStore); dir != "" {
		if err := readerMain(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// numStored is the number of objects in the shared store.
const numStored = 40

func storedContent(i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "object %d;", i), 400+i)
}

// readerMain reads objects in random order through the cache, and prints a line after
// each. It fails if the content of an object is wrong.
func readerMain(dir string) error {
	limitFiles()
	ctx := context.Background()
	m, err := file.New().Open(ctx, driver.OpenSpec{Path: dir})
	if err != nil {
		return err
	}
	stats := new(layer.CacheStats)
	c, err := layer.Cache(m, layer.CacheOptions{Dir: os.Getenv(readerCache), Size: 64 << 10, Identity: "shared", Stats: stats})
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv(readerCount))
	if err != nil {
		return err
	}
	seed, err := strconv.ParseUint(os.Getenv(readerSeed), 10, 64)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range n {
		i := rng.IntN(numStored)
		want, opts := storedContent(i), driver.GetOptions{}
		if i%3 == 0 {
			opts.Range, want = &driver.Range{Offset: 7, Length: 1000}, want[7:1007]
		}
		got, info, err := c.Get(ctx, fmt.Sprint("k", i), &opts, driver.Heap)
		if err != nil || !bytes.Equal(got, want) || info.Size != int64(len(storedContent(i))) {
			return fmt.Errorf("object %d: %d bytes, %+v, %w", i, len(got), info, err)
		}
		fmt.Println("read", i)
	}
	fmt.Println("hits", stats.Hits.Load(), "misses", stats.Misses.Load(), "unwritten", stats.WriteErrors.Load())
	return nil
}

// sharedStore creates the store that the processes read, and returns its directory.
func sharedStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	m, err := file.New().Open(t.Context(), driver.OpenSpec{Path: dir, Mode: driver.Create})
	if err != nil {
		t.Fatal(err)
	}
	for i := range numStored {
		if _, err := m.Put(t.Context(), fmt.Sprint("k", i), driver.Bytes(storedContent(i)), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readerCmd returns a command for a process that reads count objects. seed determines
// their order.
func readerCmd(store, cache string, count int, seed uint64) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), readerStore+"="+store, readerCache+"="+cache, readerCount+"="+fmt.Sprint(count), readerSeed+"="+fmt.Sprint(seed))
	return cmd
}

// startProcess starts a process and returns the buffer that receives its output.
func startProcess(t *testing.T, cmd *exec.Cmd) *bytes.Buffer {
	t.Helper()
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return out
}

// startAndKill starts a process and kills it after it has printed the given number of
// lines.
func startAndKill(t *testing.T, cmd *exec.Cmd, lines int) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(out); lines > 0 && s.Scan(); lines-- {
	}
	if lines > 0 {
		t.Error("the process ended before it was killed")
	}
	_ = cmd.Process.Kill() // Kill fails only if the process has ended
	_ = cmd.Wait()         // Wait returns an error because the process was killed
}

// TestCacheOfProcesses checks that processes that share a cache return correct content
// after other processes were killed while they used it, and that the cache does not grow
// beyond twice its maximum size.
func TestCacheOfProcesses(t *testing.T) {
	t.Parallel()
	store, dir, seed := sharedStore(t), t.TempDir(), testseed.New(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 6 {
		startAndKill(t, readerCmd(store, dir, 1_000_000, rng.Uint64()), 1+rng.IntN(100))
	}
	var all []*exec.Cmd
	var outs []*bytes.Buffer
	for range 4 {
		cmd := readerCmd(store, dir, 400, rng.Uint64())
		all, outs = append(all, cmd), append(outs, startProcess(t, cmd))
	}
	for i, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v: %s", i, err, outs[i])
		}
	}
	if size := dirSize(t, dir); size > 2*64<<10 || size == 0 {
		t.Errorf("the cache has %d bytes, want at least 1 and at most %d", size, 2*64<<10)
	}
	if !strings.Contains(outs[0].String(), "hits ") || strings.Contains(outs[0].String(), "hits 0 ") {
		t.Errorf("no object was read from the cache: %s", outs[0])
	}
}

// TestCacheOnAFullDisk checks that reads succeed if the disk accepts no writes.
func TestCacheOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := readerCmd(sharedStore(t), dir, 60, testseed.New(t))
	cmd.Env = append(cmd.Env, limitVar+"=1")
	out := startProcess(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if limited && !strings.Contains(out.String(), "hits 0 misses 60 unwritten 60") {
		t.Errorf("want 60 misses and no stored entries, got %s", out)
	}
	if limited && dirSize(t, dir) > 0 {
		t.Errorf("the cache directory has %d bytes, want 0", dirSize(t, dir))
	}
}

func dirSize(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			info, err := e.Info()
			if err != nil {
				return err
			}
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCacheConformance runs the suite of storage drivers on the cache.
func TestCacheConformance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var n atomic.Int64
	conformance.TestWith(t, mapsuite.Suite(), &mapsuite.Target{
		Opener: layered{memmap.NewOpener(), func(m driver.Map) driver.Map {
			c, err := layer.Cache(m, layer.CacheOptions{Dir: dir, Identity: fmt.Sprint(n.Add(1))})
			if err != nil {
				t.Error(err)
				return m
			}
			return c
		}},
		NewSpec: func() (driver.OpenSpec, func(), error) {
			return driver.OpenSpec{Path: fmt.Sprint("s", n.Add(1))}, nil, nil
		},
	}, &conformance.Options{Effort: conformance.Brief})
}

// cached returns a cache on top of a Map in memory, that Map, the counts of the calls to it
// and the counters of the cache.
func cached(t *testing.T, o layer.CacheOptions) (driver.Map, *memmap.Map, *layer.Counts, *layer.CacheStats) {
	t.Helper()
	base := memmap.New()
	counted, n := layer.Count(base)
	o.Stats = new(layer.CacheStats)
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := layer.Cache(counted, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, base, n, o.Stats
}

func putOne(t *testing.T, m driver.Map, content string) driver.Info {
	t.Helper()
	info, err := m.Put(t.Context(), "k", driver.Bytes(content), &driver.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func getOne(t *testing.T, m driver.Map, opts driver.GetOptions) string {
	t.Helper()
	got, _, err := m.Get(t.Context(), "k", &opts, driver.Heap)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestCacheIsNeverStale checks that a Stat precedes each use of content from the disk,
// and that the cache detects a replaced or deleted object.
func TestCacheIsNeverStale(t *testing.T) {
	t.Parallel()
	c, base, n, stats := cached(t, layer.CacheOptions{})
	v1 := putOne(t, base, "one").Version
	getOne(t, c, driver.GetOptions{})
	if got := getOne(t, c, driver.GetOptions{}); got != "one" || n.Get.Load() != 1 || n.Stat.Load() != 1 || stats.Hits.Load() != 1 {
		t.Errorf("second read: got %q, %d gets, %d stats, want one of each", got, n.Get.Load(), n.Stat.Load())
	}
	if got := getOne(t, c, driver.GetOptions{IfMatch: v1}); got != "one" || n.Get.Load() != 1 {
		t.Errorf("read of a known version: got %q, %d calls", got, n.Calls())
	}
	putOne(t, base, "two") // another client replaces the object
	if got := getOne(t, c, driver.GetOptions{}); got != "two" {
		t.Errorf("after a replacement: got %q, want two", got)
	}
	if got := getOne(t, c, driver.GetOptions{Range: &driver.Range{Offset: 1, Length: 2}}); got != "wo" {
		t.Errorf("range: got %q, want wo", got)
	}
	if err := base.Delete(t.Context(), "k", &driver.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap); ncerr.KindOf(err) != ncerr.ErrNotFound {
		t.Errorf("deleted object: want ErrNotFound, got %v", err)
	}
}

// TestCacheMaxAge checks that young content is used without a request, except after a
// write through the same Map.
func TestCacheMaxAge(t *testing.T) {
	t.Parallel()
	c, _, n, stats := cached(t, layer.CacheOptions{MaxAge: time.Hour})
	putOne(t, c, "one")
	getOne(t, c, driver.GetOptions{})
	if got := getOne(t, c, driver.GetOptions{}); got != "one" || n.Stat.Load() != 0 || stats.Unverified.Load() != 1 {
		t.Errorf("got %q, %d stats, %d reads without a Stat, want one, 0 and 1", got, n.Stat.Load(), stats.Unverified.Load())
	}
	putOne(t, c, "two")
	if got := getOne(t, c, driver.GetOptions{}); got != "two" {
		t.Errorf("after a Put through the same Map: got %q, want two", got)
	}
}
