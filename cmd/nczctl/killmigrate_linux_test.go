package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/conformance/testseed"
)

// TestKilledMigrations kills nczctl, its plugin process or both at chosen points of
// migrations. Afterwards the dataset must have all its values, the chunks must be
// unchanged, and a new migration must complete the first one. $NCZARR_KILLS adds kills at
// random points: one per layout for every 20 that it adds to TestKills.
func TestKilledMigrations(t *testing.T) {
	t.Parallel()
	nczctl, dir, tmp := newSource(t)
	dump := func(path string) (int, string) { return runCommand(t, nczctl("dump", "-n", "x", path)) }
	_, values := dump("src.zarr")
	for _, to := range []string{"zarr2", "zarr3", "nczarr3"} {
		m := migration{t: t, dir: dir, nczctl: nczctl, to: to}
		whole := m.start("whole-" + to + ".zarr")
		out, err := killpoint.Run(whole, killpoint.Plan{})
		if err != nil || out.Code != 0 || out.Calls < 5 {
			t.Fatalf("migrate to %s: want exit code 0 and at least 5 calls, got %+v, %v", to, out, err)
		}
		want := m.tree("whole-" + to + ".zarr")
		if code, got := dump("whole-" + to + ".zarr"); code != 0 || got != values {
			t.Fatalf("migrate to %s changes the values: dump exits with %d and %d bytes of %d", to, code, len(got), len(values))
		}
		tally := map[string]int{}
		for i, k := range m.points(out.Calls) {
			name := fmt.Sprintf("%d-%s.zarr", i, to)
			var stderr bytes.Buffer
			c := m.start(name)
			c.Stderr = &stderr
			out, err := killpoint.Run(c, k)
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, stderr.String())
			}
			errorf := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s, %s killed at call %d, %s, %q: %s", name, k.Victim, k.At, out.Point, stderr.String(), fmt.Sprintf(format, args...))
			}
			code, got := dump(name)
			if code != 0 || got != values {
				errorf("dump exits with %d and %d bytes of %d", code, len(got), len(values))
			}
			if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
				errorf("the next nczctl does not remove %q", left)
			}
			switch same := slices.Equal(m.tree(name), want); {
			case same:
				tally["complete"]++
			case out.Code == 0:
				errorf("nczctl exits with 0, but the migration is not complete")
			default:
				tally["incomplete"]++
			}
			if code, _ := runCommand(t, nczctl("migrate", "--to", to, name)); code != 0 {
				errorf("a new migration exits with %d", code)
			}
			if code, got := dump(name); code != 0 || got != values {
				errorf("after a new migration dump exits with %d and %d bytes of %d", code, len(got), len(values))
			}
			if got := m.tree(name); !slices.Equal(got, want) {
				errorf("after a new migration the files differ from those of a complete one")
			}
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("to %s, %d calls: %v", to, out.Calls, tally)
	}
}

// migration copies a dataset and migrates the copies to a layout.
type migration struct {
	t      *testing.T
	dir    string
	nczctl func(args ...string) *exec.Cmd
	to     string
}

// start copies the dataset and returns the command that migrates the copy.
func (m *migration) start(name string) *exec.Cmd {
	m.t.Helper()
	if err := os.CopyFS(filepath.Join(m.dir, name), os.DirFS(filepath.Join(m.dir, "src.zarr"))); err != nil {
		m.t.Fatal(err)
	}
	return m.nczctl("migrate", "--to", m.to, name)
}

// points returns the kills to try on a migration. calls is the number of file-changing
// calls of a complete migration.
func (m *migration) points(calls int) []killpoint.Plan {
	m.t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("NCZARR_KILLS"), "0"))
	if err != nil {
		m.t.Fatalf("NCZARR_KILLS: %v", err)
	}
	victims := []killpoint.Victim{killpoint.Root, killpoint.Caller, killpoint.Both}
	var out []killpoint.Plan
	for i, thousandth := range []int{0, 400, 700, 900, 999} {
		out = append(out, killpoint.Plan{At: 1 + calls*thousandth/1000, Victim: victims[i%3]})
	}
	r := rand.New(rand.NewPCG(testseed.New(m.t), uint64(calls))) // the numbers need not be secure
	for range n / 20 {
		out = append(out, killpoint.Plan{At: 1 + r.IntN(calls), Victim: victims[r.IntN(3)]})
	}
	return out
}

// tree returns the files of a dataset with their content.
func (m *migration) tree(name string) []string {
	m.t.Helper()
	var out []string
	root := filepath.Join(m.dir, name)
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path) //nolint:gosec // a file of the test
		out = append(out, rel+": "+string(body))
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}
