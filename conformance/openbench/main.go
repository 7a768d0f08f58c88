// Command openbench measures the time to open a dataset with many variables, compares
// nczarr with zarr-python and netCDF4, and prints a table with ratios.
//
// All caches are warm. The measurements of nczarr and the peers alternate, so that a
// busy machine affects both. The result is the fastest time.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// settings holds the flags of a run.
type settings struct {
	vars, rounds, each int
	peers, dir         string
	opts               *dataset.Options
}

func main() {
	var s settings
	flag.IntVar(&s.vars, "vars", 1000, "number of variables")
	flag.IntVar(&s.rounds, "rounds", 5, "number of rounds")
	flag.IntVar(&s.each, "each", 20, "number of times to open the dataset in a round; the peers open it a quarter as often")
	flag.StringVar(&s.peers, "peers", os.Getenv("NCZARR_PEERS_DIR"), "directory of the peers; empty skips them")
	flag.Parse()
	if err := s.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "openbench:", err)
		os.Exit(1)
	}
}

// store is one form of the dataset.
type store struct {
	storage, mode string // file or zip; nczarr or zarr
	consolidated  bool
	netcdf        bool // whether netCDF4 can open the store
}

func (s *settings) run(ctx context.Context) error {
	s.opts = &dataset.Options{Registry: registry.New(builtin.New(), filters.Provider()), SingleWriter: true}
	dir, err := os.MkdirTemp("", "nczarr-open-")
	if err != nil {
		return err
	}
	s.dir = dir
	defer os.RemoveAll(s.dir) //nolint:errcheck // the directory is temporary
	fmt.Fprintf(os.Stdout, "%d variables, GOMAXPROCS %d, best of %d\n\n", s.vars, runtime.GOMAXPROCS(0), s.rounds*s.each)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "store\tmetadata\tnczarr\tallocations\tKiB\tzarr-python\tratio\tnetCDF4\tratio\t")
	for _, at := range [][2]string{{"file", "zarr"}, {"file", "nczarr"}, {"zip", "zarr"}} { // zarr-python finds no variables in zip archives of NCZarr
		if err := s.make(ctx, at[0], at[1]); err != nil {
			return err
		}
		for _, consolidated := range []bool{false, true} {
			if err := s.measure(ctx, w, store{at[0], at[1], consolidated, at[0] == "file" && !consolidated}); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// path returns the path of a dataset.
func (s *settings) path(storage, mode string) string {
	return filepath.Join(s.dir, mode+"."+strings.Replace(storage, "file", "zarr", 1))
}

// make writes a dataset, including consolidated metadata.
func (s *settings) make(ctx context.Context, storage, mode string) error {
	url := s.path(storage, mode) + "#mode=" + mode + "," + storage
	ds, err := open.Create(ctx, url, &dataset.CreateOptions{Options: *s.opts, Consolidated: true})
	if err != nil {
		return err
	}
	x, err := ds.Root().DefineDim("x", 576, false)
	if err != nil {
		return err
	}
	chain := []zarr.CodecSpec{{ID: "blosc", Params: []byte(`{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}`)}}
	for i := range s.vars {
		_, err := ds.Root().DefineVar(ctx, fmt.Sprintf("v%04d", i), &dataset.VarSpec{
			Type: dtype.NCFloat, Dims: []*dataset.Dim{x, x}, Chunks: []int64{30, 30}, Codecs: chain,
			Attrs: []dataset.Attr{
				{Name: "long_name", Type: dtype.NCChar, Value: "fraction of ocean"},
				{Name: "standard_name", Type: dtype.NCChar, Value: "sea_area_fraction"},
				{Name: "units", Type: dtype.NCChar, Value: "1"},
				{Name: "missing_value", Type: dtype.NCFloat, Value: []float32{1e15}},
				{Name: "valid_range", Type: dtype.NCFloat, Value: []float32{-1e15, 1e15}},
				{Name: "history", Type: dtype.NCChar, Value: strings.Repeat("a step of the making; ", 10)},
			},
		})
		if err != nil {
			return err
		}
	}
	return ds.Close(ctx)
}

// times keeps the fastest time in seconds.
type times struct{ best float64 }

func (t *times) add(seconds float64) {
	if t.best == 0 || seconds < t.best {
		t.best = seconds
	}
}

// measure measures a store and prints its line.
func (s *settings) measure(ctx context.Context, w *tabwriter.Writer, st store) error {
	url := s.path(st.storage, st.mode) + "#mode=" + st.mode + "," + st.storage
	var own, zarrPython, netcdf times
	var before, after runtime.MemStats
	for range s.rounds {
		runtime.ReadMemStats(&before)
		for range s.each {
			if err := s.open(ctx, url, st.consolidated, &own); err != nil {
				return err
			}
		}
		runtime.ReadMemStats(&after)
		if err := s.peer("zarr", s.path(st.storage, st.mode), st.consolidated, &zarrPython); err != nil {
			return err
		}
		if !st.netcdf {
			continue
		}
		if err := s.peer("netcdf4", "file://"+url, st.consolidated, &netcdf); err != nil {
			return err
		}
	}
	n := uint64(s.each)
	fmt.Fprintf(w, "%s\t%s\t%.1f ms\t%d\t%d\t%s\t%s\t\n", st.name(), map[bool]string{false: "single documents", true: "consolidated"}[st.consolidated],
		own.best*1e3, (after.Mallocs-before.Mallocs)/n, (after.TotalAlloc-before.TotalAlloc)/n>>10, zarrPython.columns(own), netcdf.columns(own))
	return nil
}

func (st store) name() string {
	return map[string]string{"file": "directory", "zip": "zip"}[st.storage] + ", " + map[string]string{"zarr": "pure Zarr", "nczarr": "NCZarr"}[st.mode]
}

// columns returns two columns of the table: the time of a peer, and its ratio to the
// time of nczarr.
func (t times) columns(own times) string {
	if t.best == 0 {
		return "-\t-"
	}
	return fmt.Sprintf("%.1f ms\t%.1f", t.best*1e3, t.best/own.best)
}

// open opens the dataset once. It either ignores the consolidated metadata or uses it
// after the usual comparison with the root documents.
func (s *settings) open(ctx context.Context, url string, consolidated bool, own *times) error {
	o := *s.opts
	o.UseConsolidated = dataset.ConsolidatedIgnore
	if consolidated {
		o.UseConsolidated = dataset.ConsolidatedAuto
		url += ",consolidated"
	}
	began := time.Now()
	ds, err := open.Open(ctx, url, &o)
	if err != nil {
		return err
	}
	if n := len(ds.Root().Vars()); n != s.vars || len(ds.Problems()) > 0 {
		return fmt.Errorf("%s: wrong number of variables, %d, or problems: %v", url, n, ds.Problems())
	}
	if err := ds.Close(ctx); err != nil {
		return err
	}
	own.add(time.Since(began).Seconds())
	return nil
}

// peer lets a peer open the store 1 + s.each/4 times.
func (s *settings) peer(name, target string, consolidated bool, t *times) error {
	if s.peers == "" {
		return nil
	}
	args := []string{"-B", "conformance/interop/peers/open.py", "--with", name, "--runs", fmt.Sprint(1 + s.each/4)}
	if consolidated {
		args = append(args, "--consolidated")
	}
	cmd := exec.Command(filepath.Join(s.peers, "venv", "bin", "python"), append(args, target)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var got struct {
		Seconds   []float64 `json:"seconds"`
		Variables int       `json:"variables"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return err
	}
	if got.Variables != s.vars {
		return fmt.Errorf("%s finds %d variables in %s instead of %d", name, got.Variables, target, s.vars)
	}
	for _, seconds := range got.Seconds {
		t.add(seconds)
	}
	return nil
}
