package main

import (
	"bytes"
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// killsDefault is how often the kill test kills; $NCZARR_KILLS says otherwise.
const killsDefault = 40

// kills gives how often to kill.
func kills(t *testing.T) int {
	t.Helper()
	text := os.Getenv("NCZARR_KILLS")
	if text == "" {
		return killsDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("NCZARR_KILLS=%q: want a number of kills", text)
	}
	return n
}

// TestKills kills nczctl, or its plugin processes, or both, at random points
// of copies to a directory, an archive and a bucket: what is there afterwards
// is absent, visibly incomplete or whole, and a new copy makes it whole; what
// was there before is not lost. No process outlives the host, nobody holds
// what it had open, and no file is left once nczctl has run again, or at once
// when it was only the plugin that died. Two places of work share the kills.
func TestKills(t *testing.T) {
	t.Parallel()
	n := kills(t)
	srv := s3server.Start(&optional{T: t})
	for half := range 2 {
		t.Run(strconv.Itoa(half), func(t *testing.T) {
			t.Parallel()
			a := newArena(t, srv, "half"+strconv.Itoa(half))
			seed := uint64(time.Now().UnixNano())
			r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
			count := (n + half) / 2
			t.Logf("seed %d, %d kills", seed, count)
			tally := map[string]int{}
			for i := 0; i < count || unkilled(tally) != "" && i < 5*killsDefault; i++ {
				spared := ""
				if i >= count { // chance had its turn
					spared = unkilled(tally)
				}
				k := a.kill(r, i, spared)
				tally[k.victim]++
				tally[k.outcome]++
			}
			t.Logf("%v", tally)
			if who := unkilled(tally); who != "" {
				t.Errorf("no kill of: %s", who)
			}
			a.clean()
		})
	}
}

// unkilled gives a victim that chance has spared so far; "" when all had a turn.
func unkilled(tally map[string]int) string {
	for _, who := range []string{"host", "plugin", "both"} {
		if tally[who] == 0 {
			return who
		}
	}
	return ""
}

// arena is where the kill test takes place.
type arena struct {
	t        *testing.T
	dir, tmp string
	env      []string
	run      func(sig syscall.Signal, after time.Duration, args ...string) (int, string)
	bucket   func(name string) string // URL of a dataset in the bucket; nil without a server
	want     string                   // dump of a whole copy
	files    map[string][]string      // what a whole copy has, by extension
	took     time.Duration
}

func newArena(t *testing.T, srv *s3server.Server, place string) *arena {
	t.Helper()
	a := &arena{t: t, files: map[string][]string{}}
	var env []string
	if srv != nil {
		env = srv.Env()
		a.bucket = func(name string) string { return srv.URL(place+"/"+name, "nczarr,s3") }
	}
	a.run, a.dir, a.tmp = killedIn(t, env...)
	a.env = append(append(os.Environ(), env...), "TMPDIR="+a.tmp)
	_, a.want = a.run(0, 0, "dump", "-n", "x", "src.zarr")
	began := time.Now()
	for _, dst := range []string{"old.zarr", "old.zip"} {
		if code, _ := a.run(0, 0, "copy", "src.zarr", dst); code != 0 {
			t.Fatalf("copy to %s: exit code %d", dst, code)
		}
		a.files[filepath.Ext(dst)] = a.tree(dst)
	}
	a.took = time.Since(began) / 2
	return a
}

// killing is one copy in which something is killed.
type killing struct {
	a       *arena
	i       int
	old     bool   // something was at dst before
	dst     string // as nczctl is told
	victim  string // host, plugin, both
	outcome string
	err     error // of nczctl
	stderr  bytes.Buffer
	held    map[fileID]string // what the processes had open before
	beside  []string          // what was staged in earlier runs
}

// kill makes one copy, kills something in it, and looks at what there is. What
// is killed, and when, is left to chance, or is the victim when there is a plugin.
func (a *arena) kill(r *rand.Rand, i int, victim string) *killing {
	k := &killing{a: a, i: i, old: r.IntN(2) == 0}
	args := []string{"copy", "--memory", "64KiB"}
	if k.old {
		args = append(args, "--overwrite")
	}
	k.dst = a.choose(r, k.old, i)
	k.beside = a.stages()
	c := exec.Command("nczctl", append(args, "src.zarr", k.dst)...)
	c.Dir, c.Stderr, c.Env = a.dir, &k.stderr, a.env
	if err := c.Start(); err != nil {
		a.t.Fatal(err)
	}
	if victim == "" {
		time.Sleep(time.Duration(r.Int64N(int64(a.took))))
	}
	list := a.plugins()
	for victim != "" && len(list) == 0 && len(a.processes()) > 0 {
		time.Sleep(time.Millisecond)
		list = a.plugins()
	}
	k.held = heldBy(append(slices.Clone(list), c.Process.Pid))
	k.victim = "host"
	if len(list) > 0 {
		k.victim = cmp.Or(victim, []string{"host", "plugin", "both"}[r.IntN(3)])
	}
	if k.victim != "host" {
		_ = syscall.Kill(list[r.IntN(len(list))], syscall.SIGKILL) // it may have ended
	}
	if k.victim != "plugin" {
		_ = c.Process.Kill()
	}
	k.err = c.Wait()
	k.check()
	return k
}

// choose gives the place to copy to.
func (a *arena) choose(r *rand.Rand, old bool, i int) string {
	if old {
		return []string{"old.zarr", "old.zip"}[r.IntN(2)]
	}
	name := "new" + strconv.Itoa(i)
	if kind := r.IntN(3); kind < 2 {
		return name + []string{".zarr", ".zip"}[kind]
	}
	if a.bucket == nil {
		return name + ".zarr"
	}
	return a.bucket(name)
}

func (k *killing) errorf(format string, args ...any) {
	k.a.t.Helper()
	k.a.t.Errorf("%d: %s, %s killed, %v, %q: "+format, append([]any{k.i, k.dst, k.victim, k.err, k.stderr.String()}, args...)...)
}

// check looks at what a killing left.
func (k *killing) check() {
	k.a.t.Helper()
	if left := k.a.outlived(); len(left) > 0 {
		k.errorf("processes %d outlive nczctl", left)
	}
	if left := stillHeld(k.held); len(left) > 0 {
		k.errorf("still open somewhere: %q", left)
	}
	if k.victim == "plugin" { // the host had all the time to clean up
		k.noTemporaries("nczctl, whose plugin died, leaves")
		for _, name := range k.a.stages() {
			if !slices.Contains(k.beside, name) {
				k.errorf("nczctl, whose plugin died, leaves %q", name)
			}
		}
	}
	code, got := k.a.run(0, 0, "dump", "-n", "x", k.dst)
	k.noTemporaries("the next nczctl does not sweep")
	switch {
	case code == 0 && got == k.a.want && !k.old && k.unannounced():
		k.outcome = "incomplete" // visibly: nczctl warns, and readers of plain Zarr see nothing
	case code == 0 && got == k.a.want:
		k.outcome = "whole"
		k.sameFiles()
	case k.old:
		k.errorf("what was there before is lost: dump exits with %d and %d bytes", code, len(got))
	case code == ncerr.Exit(ncerr.ErrNotFound) && got == "":
		k.outcome = "absent"
	case code == ncerr.Exit(ncerr.ErrNotZarr) && got == "":
		k.outcome = "incomplete"
	default:
		k.errorf("neither absent nor whole nor visibly incomplete: dump exits with %d and %d bytes", code, len(got))
	}
	if k.outcome != "whole" && k.err == nil {
		k.errorf("nczctl says that it is whole, and it is not: dump exits with %d", code)
	}
	if !k.old {
		k.again()
	}
}

// again copies once more to a place where a copy was killed, and empties it.
func (k *killing) again() {
	k.a.t.Helper()
	if k.outcome != "whole" {
		k.a.age()
		if code, _ := k.a.run(0, 0, "copy", "--force", "src.zarr", k.dst); code != 0 {
			k.errorf("a new copy exits with %d", code)
		}
		if code, got := k.a.run(0, 0, "dump", "-n", "x", k.dst); code != 0 || got != k.a.want {
			k.errorf("after a new copy dump exits with %d and %d bytes", code, len(got))
		}
		k.sameFiles()
	}
	_ = os.RemoveAll(filepath.Join(k.a.dir, k.dst)) // nothing is there for what is in the bucket
}

// noTemporaries looks for temporary files, sockets among them.
func (k *killing) noTemporaries(who string) {
	k.a.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(k.a.tmp, "*")); len(left) > 0 {
		k.errorf("%s %q", who, left)
	}
}

// stages gives the directories in which datasets are in the making.
func (a *arena) stages() []string {
	out, _ := filepath.Glob(filepath.Join(a.dir, stagePrefix+"*"))
	return out
}

// age makes the temporary files of archives older than what a living writer
// may have.
func (a *arena) age() {
	files, _ := filepath.Glob(filepath.Join(a.dir, ".*.tmp"))
	for _, name := range files {
		_ = os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour))
	}
}

// sameFiles checks that a whole local dataset has the files of any other.
func (k *killing) sameFiles() {
	k.a.t.Helper()
	want, local := k.a.files[filepath.Ext(k.dst)]
	if got := k.a.tree(k.dst); local && !slices.Equal(got, want) {
		k.errorf("has not the files of a whole dataset: %q", got)
	}
}

// unannounced reports whether a dataset has all files but for the root's
// .zgroup, which is written last.
func (k *killing) unannounced() bool {
	want := slices.Clone(k.a.files[".zarr"])
	want = slices.DeleteFunc(want, func(name string) bool { return name == "/.zgroup" })
	return slices.Equal(k.a.tree(k.dst), want)
}

// tree gives the files and directories of a dataset.
func (a *arena) tree(dst string) []string {
	var out []string
	root := filepath.Join(a.dir, dst)
	_ = filepath.WalkDir(root, func(path string, _ os.DirEntry, _ error) error { // what cannot be read is missing
		out = append(out, strings.TrimPrefix(path, root))
		return nil
	})
	return out
}

// clean runs nczctl once more for each place, and looks for leftovers.
func (a *arena) clean() {
	a.t.Helper()
	for _, dst := range []string{"old.zarr", "old.zip"} {
		if code, _ := a.run(0, 0, "copy", "--overwrite", "src.zarr", dst); code != 0 {
			a.t.Errorf("copy to %s: exit code %d", dst, code)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(a.tmp, "*")); len(left) > 0 {
		a.t.Errorf("left in the temporary directory: %q", left)
	}
	entries, _ := os.ReadDir(a.dir)
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	if got := strings.Join(slices.Sorted(maps.Keys(names)), " "); got != "b.cdl old.zarr old.zip src.zarr" {
		a.t.Errorf("left beside the datasets: %q", got)
	}
}
