package main

import (
	"bytes"
	"cmp"
	"fmt"
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

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	places "github.com/seed-695719ce/nczarr/core/place"
)

// killing describes one copy during which processes are killed.
type killing struct {
	kind   string // ".zarr", sharded, ".zip" or "bucket"
	old    bool   // the copy replaces a dataset
	victim killpoint.Victim
	// where is the progress of the copy at the kill, in thousandths of the calls that
	// change files or of the requests that change the bucket.
	where int
}

// sharded is the kind of a directory with a sharded Zarr v3 dataset, and the suffix of its
// name.
const sharded = "-shards.zarr"

// kills lists the kills of every run. $NCZARR_KILLS sets the number of additional kills
// at random points.
var kills = []killing{
	{".zarr", true, killpoint.Root, 100},
	{".zarr", true, killpoint.Caller, 500},
	{".zarr", true, killpoint.Both, 985},
	{".zarr", false, killpoint.Root, 600},
	{".zarr", false, killpoint.Caller, 990},
	{sharded, true, killpoint.Caller, 900},
	{sharded, false, killpoint.Root, 500},
	{sharded, false, killpoint.Both, 980},
	{".zip", true, killpoint.Root, 970},
	{".zip", true, killpoint.Caller, 300},
	{".zip", false, killpoint.Both, 700},
	{"bucket", false, killpoint.Root, 995},
	{"bucket", false, killpoint.Caller, 400},
}

// allKills returns the kills of this run.
func allKills(t *testing.T) []killing {
	t.Helper()
	out := slices.Clone(kills)
	n, err := strconv.Atoi(cmp.Or(os.Getenv("NCZARR_KILLS"), "0"))
	if err != nil {
		t.Fatalf("NCZARR_KILLS: %v", err)
	}
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 0)) // the numbers need not be secure
	for range n {
		k := killing{
			kind: []string{".zarr", sharded, ".zip", "bucket"}[r.IntN(4)], old: r.IntN(2) == 0, where: r.IntN(1000),
			victim: []killpoint.Victim{killpoint.Root, killpoint.Caller, killpoint.Both}[r.IntN(3)],
		}
		k.old = k.old && k.kind != "bucket" // a bucket has no rename
		out = append(out, k)
	}
	t.Logf("seed %d, %d kills", seed, len(out))
	return out
}

// TestKills kills nczctl, a plugin process or both at chosen points of copies to a
// directory, an archive and a bucket. Afterwards the destination must be absent,
// visibly incomplete or complete, and a new copy must complete it. An old dataset
// must not be lost. No process may outlive nczctl. No temporary file may remain
// after the next run of nczctl, or after the same run if only a plugin died.
func TestKills(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	tally := map[string]int{}
	for i, k := range allKills(t) {
		tally[a.kill(i, k)]++
	}
	t.Logf("%v", tally)
	a.clean()
}

// arena holds the directories, the bucket and the expected results of TestKills.
type arena struct {
	t        *testing.T
	nczctl   func(args ...string) *exec.Cmd
	dir, tmp string
	gate     *s3server.Gate
	bucket   string              // URL of the bucket behind the gate
	want     string              // dump of the source and of every complete copy
	files    map[string][]string // files of a complete copy, by kind
	calls    map[string]int      // number of calls during a copy, by kind and old
}

func newArena(t *testing.T) *arena {
	t.Helper()
	srv := s3server.Start(t)
	a := &arena{t: t, gate: srv.NewGate(t), files: map[string][]string{}, calls: map[string]int{}}
	a.bucket = a.gate.Endpoint + "/" + srv.Bucket + "/kills/"
	a.nczctl, a.dir, a.tmp = newSource(t, srv.Env()...)
	code := 0
	if code, a.want = runCommand(t, a.nczctl("dump", "-n", "x", "src.zarr")); code != 0 {
		t.Fatalf("dump of the source: exit code %d", code)
	}
	for _, kind := range []string{".zarr", sharded, ".zip"} {
		for _, old := range []bool{false, true} {
			out, err := killpoint.Run(a.copy("old"+kind, old), killpoint.Plan{})
			if err != nil || out.Code != 0 || out.Calls < 30 {
				t.Fatalf("copy to old%s: want exit code 0 and at least 30 calls, got %+v, %v", kind, out, err)
			}
			a.calls[fmt.Sprint(kind, old)] = out.Calls
		}
		a.files[kind] = a.tree("old" + kind)
		if code, got := runCommand(t, a.nczctl("dump", "-n", "x", "old"+kind)); code != 0 || got != a.want {
			t.Fatalf("the dump of old%s differs from that of the source, or failed with exit code %d", kind, code)
		}
	}
	if code, _ := runCommand(t, a.copy(a.url("counted"), false)); code != 0 {
		t.Fatalf("copy to the bucket: exit code %d", code)
	}
	a.calls["bucketfalse"] = a.gate.Arm(0, nil)
	t.Logf("calls of a copy: %v", a.calls)
	return a
}

// url returns the URL of a dataset in the bucket.
func (a *arena) url(name string) string { return a.bucket + name + "#mode=nczarr,s3" }

// copy returns the command to kill. The command has little memory so that it writes one
// chunk at a time.
func (a *arena) copy(dst string, old bool) *exec.Cmd {
	args := []string{"copy", "--memory", "256KiB", "src.zarr", dst}
	if strings.HasSuffix(dst, sharded) {
		args = append(args, "--layout", "v3", "--shards", "a:20,100")
	}
	if old {
		args = append(args, "--overwrite")
	}
	return a.nczctl(args...)
}

// kill runs one copy, kills its victim, checks the destination and returns the
// outcome in one word.
func (a *arena) kill(i int, k killing) string {
	a.t.Helper()
	dst := "old" + k.kind
	switch {
	case k.kind == "bucket":
		dst = a.url("new" + strconv.Itoa(i))
	case !k.old:
		dst = "new" + strconv.Itoa(i) + k.kind
	}
	at := 1 + a.calls[fmt.Sprint(k.kind, k.old)]*k.where/1000
	var stderr bytes.Buffer
	c := a.copy(dst, k.old)
	c.Stderr = &stderr
	before := a.stages()
	code, point := 0, ""
	if k.kind == "bucket" {
		code, point = a.killAtRequest(c, k.victim, at), fmt.Sprintf("request %d", at)
	} else {
		out, err := killpoint.Run(c, killpoint.Plan{At: at, Victim: k.victim})
		if err != nil {
			a.t.Fatalf("%d: %v: %s", i, err, stderr.String())
		}
		code, point = out.Code, fmt.Sprintf("call %d, %s", at, out.Point)
	}
	errorf := func(format string, args ...any) {
		a.t.Helper()
		a.t.Errorf("%d: %s, %s killed at %s, %q: "+format, append([]any{i, dst, k.victim, point, stderr.String()}, args...)...)
	}
	if code != killed { // nczctl was not killed and had time to clean up
		a.noTemporaries(errorf, "nczctl, whose plugin died, leaves")
		for _, name := range slices.Concat(a.stages(), a.tempFiles(dst)) {
			if !slices.Contains(before, name) {
				errorf("nczctl, whose plugin died, leaves %q", name)
			}
		}
	}
	return a.examine(k, dst, code, errorf)
}

// killed is the exit code of a program that a signal ended.
const killed = -1

// examine checks the destination of a copy that ended with the exit code exit, completes
// an incomplete destination with a new copy, and returns the outcome.
func (a *arena) examine(k killing, dst string, exit int, errorf func(string, ...any)) string {
	a.t.Helper()
	whole := func(code int, got string) bool { return code == 0 && got == a.want }
	outcome := "whole"
	code, got := runCommand(a.t, a.nczctl("dump", "-n", "x", dst))
	a.noTemporaries(errorf, "the next nczctl does not remove")
	switch {
	case whole(code, got) && !k.old && a.unannounced(k.kind, dst):
		// The dataset is visibly incomplete: nczctl warns, and readers of plain Zarr see no dataset.
		outcome = "incomplete"
	case whole(code, got):
		// A killed process may leave the temporary files of an archive or a driver. The next
		// copy to the same archive removes those of an archive.
		if exit != 0 {
			names, _ := filepath.Glob(filepath.Join(a.dir, "."+dst+".*.tmp"))
			for _, name := range a.tempFiles(dst) {
				names = append(names, filepath.Join(a.dir, dst, name))
			}
			for _, name := range names {
				_ = os.Remove(name)
			}
		}
		a.sameFiles(k.kind, dst, errorf)
	case k.old:
		errorf("the old dataset is lost: dump exits with %d and %d bytes", code, len(got))
	case code == ncerr.Exit(ncerr.ErrNotFound) && got == "":
		outcome = "absent"
	case code == ncerr.Exit(ncerr.ErrNotZarr) && got == "":
		outcome = "incomplete"
	case code == ncerr.Exit(ncerr.ErrNoObject) && k.kind != "bucket" && !slices.ContainsFunc(a.tree(dst), isRootDocument):
		// The attributes of the root, which list the variables, were stored before a document of
		// a variable: nczctl reports the missing document, and readers of plain Zarr see no dataset.
		outcome = "incomplete"
	default:
		errorf("neither absent nor complete nor visibly incomplete: dump exits with %d and %d bytes", code, len(got))
	}
	if exit == 0 && outcome != "whole" {
		errorf("nczctl exits with 0, but the copy is %s", outcome)
	}
	if !k.old && outcome != "whole" {
		a.age()
		again := a.copy(dst, false)
		again.Args = append(again.Args, "--force")
		var message strings.Builder
		again.Stderr = &message
		if code, _ := runCommand(a.t, again); code != 0 {
			errorf("a new copy exits with %d: %s", code, message.String())
		}
		if code, got := runCommand(a.t, a.nczctl("dump", "-n", "x", dst)); !whole(code, got) {
			errorf("after a new copy dump exits with %d and %d bytes", code, len(got))
		}
		a.sameFiles(k.kind, dst, errorf)
	}
	if !k.old && k.kind != "bucket" {
		_ = os.RemoveAll(filepath.Join(a.dir, dst))
	}
	return outcome
}

// killAtRequest runs a copy to the bucket and kills the victim before the response to
// request number at. It returns the exit code of nczctl.
func (a *arena) killAtRequest(c *exec.Cmd, victim killpoint.Victim, at int) int {
	a.t.Helper()
	started := make(chan struct{})
	var had map[fileID]string
	a.gate.Arm(at, func() {
		<-started
		had = heldBy(append(a.plugins(), c.Process.Pid))
		if victim != killpoint.Root {
			for _, pid := range a.plugins() {
				_ = syscall.Kill(pid, syscall.SIGKILL) // the process may have ended
			}
		}
		if victim != killpoint.Caller {
			_ = c.Process.Kill()
		}
	})
	if err := c.Start(); err != nil {
		a.t.Fatal(err)
	}
	close(started)
	_ = c.Wait() // the exit code is returned below
	a.gate.Arm(0, nil)
	for deadline := time.Now().Add(killpoint.Patience); len(a.plugins()) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.t.Fatalf("processes %d outlive nczctl", a.plugins())
		}
	}
	for deadline := time.Now().Add(killpoint.Patience); ; time.Sleep(5 * time.Millisecond) {
		left := holders(had)
		if len(left) == 0 {
			return c.ProcessState.ExitCode()
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("files of nczctl and its plugins are still open: %q", left)
		}
	}
}

// plugins returns the plugin processes of this arena, whose temporary directories are
// in a.tmp.
func (a *arena) plugins() []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00TMPDIR="+a.tmp+"/")) {
			out = append(out, pid)
		}
	}
	return out
}

// noTemporaries calls errorf if temporary files, including sockets, exist.
func (a *arena) noTemporaries(errorf func(string, ...any), prefix string) {
	a.t.Helper()
	if left, _ := filepath.Glob(filepath.Join(a.tmp, "*")); len(left) > 0 {
		errorf("%s %q", prefix, left)
	}
}

// stages returns the directories of unfinished datasets.
func (a *arena) stages() []string {
	out, _ := filepath.Glob(filepath.Join(a.dir, places.StagePrefix+"*"))
	return out
}

// age sets the times of the temporary files of archives to one hour ago, so that they
// look abandoned.
func (a *arena) age() {
	files, _ := filepath.Glob(filepath.Join(a.dir, ".*.tmp"))
	for _, name := range files {
		_ = os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour))
	}
}

// sameFiles checks that a complete local dataset has the expected files.
func (a *arena) sameFiles(kind, dst string, errorf func(string, ...any)) {
	a.t.Helper()
	want, local := a.files[kind]
	if got := a.tree(dst); local && !slices.Equal(got, want) {
		errorf("files differ from those of a complete dataset: %q", got)
	}
}

// tempFiles returns the temporary files that a driver left in a dataset.
func (a *arena) tempFiles(dst string) []string {
	return slices.DeleteFunc(a.tree(dst), func(name string) bool { return !isTempFile(name) })
}

func isTempFile(name string) bool { return strings.HasPrefix(filepath.Base(name), ".nczarr.tmp.") }

// unannounced reports whether a directory has all files of a dataset except the root's
// document, which is written last.
func (a *arena) unannounced(kind, dst string) bool {
	want := slices.Clone(a.files[kind])
	want = slices.DeleteFunc(want, isRootDocument)
	return len(want) < len(a.files[kind]) && slices.Equal(slices.DeleteFunc(a.tree(dst), isTempFile), want)
}

// isRootDocument reports whether name is the file without which a directory is no dataset.
func isRootDocument(name string) bool { return name == "/.zgroup" || name == "/zarr.json" }

// tree returns the files and directories of a dataset.
func (a *arena) tree(dst string) []string {
	var out []string
	root := filepath.Join(a.dir, dst)
	// An unreadable directory is returned without its content.
	_ = filepath.WalkDir(root, func(path string, _ os.DirEntry, _ error) error {
		out = append(out, strings.TrimPrefix(path, root))
		return nil
	})
	return out
}

// clean runs nczctl once more for each destination and checks for leftovers.
func (a *arena) clean() {
	a.t.Helper()
	for _, dst := range []string{"old.zarr", "old" + sharded, "old.zip"} {
		if code, _ := runCommand(a.t, a.copy(dst, true)); code != 0 {
			a.t.Errorf("copy to %s: exit code %d", dst, code)
		}
	}
	a.noTemporaries(a.t.Errorf, "left in the temporary directory:")
	entries, _ := os.ReadDir(a.dir)
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	if got := strings.Join(slices.Sorted(maps.Keys(names)), " "); got != "b.cdl old-shards.zarr old.zarr old.zip src.zarr" {
		a.t.Errorf("left beside the datasets: %q", got)
	}
}
