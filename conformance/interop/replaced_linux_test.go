package interop_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	drivers "github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// The tests in this file replace datasets while processes are killed.
// peers/replaced.py, which shares no code with nczctl, checks the result. Either the
// old or the new dataset must be complete, or the error message of the next command
// must contain a command that completes the replacement. Files that are not part of the
// dataset must be unchanged.

// everyVar is the environment variable for a number N. If it is set, tests kill at
// every Nth call instead of at a few calls.
const everyVar = "NCZARR_REPLACED_EVERY"

// killPoints lists the kills of a regular run, by kind of store and by
// concurrent activity, in thousandths of the calls of a copy.
var killPoints = map[string]map[string][]int{
	"file": {"alone": {985}, "reader": {400}, "writer": {960}, "contained": {990}},
	"zip":  {"alone": {970}, "holder": {900}, "contained": {900}},
	"s3":   {"alone": {550}, "reader": {800}, "writer": {970}},
}

// TestReplaced kills copies that replace a dataset while other activities use it, and
// checks what remains.
func TestReplaced(t *testing.T) {
	t.Parallel()
	need(t, "numcodecs")
	src := sources(t)
	for _, kind := range []string{"file", "zip", "s3"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, kind, src)
			for _, concurrent := range []string{"alone", "reader", "dump", "writer", "holder", "contained"} {
				if kind == "s3" && concurrent == "dump" { // for a bucket, "reader" covers this case, because a dump of a mixed dataset is hard to verify
					continue
				}
				t.Run(concurrent, func(t *testing.T) { a.campaign(t, concurrent) })
			}
		})
	}
}

// TestReplacedChecker damages a dataset in many ways. The checker must detect each kind of
// damage.
func TestReplacedChecker(t *testing.T) {
	t.Parallel()
	need(t, "numcodecs")
	src, place := sources(t), t.TempDir()
	var names []string
	chunk := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, damage := range map[string]func(root string) error{
		"old":     func(string) error { return nil },
		"absent":  os.RemoveAll,
		"fill":    func(root string) error { return os.Remove(filepath.Join(root, "a/1.1")) },
		"mixture": func(root string) error { return os.WriteFile(filepath.Join(root, "a/1.1"), chunk("new/a/1.1"), 0o666) },
		"cut":     func(root string) error { return os.Truncate(filepath.Join(root, "g/b/2"), 5) },
		"empty":   func(root string) error { return os.Truncate(filepath.Join(root, ".zattrs"), 0) },
		"beyond":  func(root string) error { return os.WriteFile(filepath.Join(root, "a/9.9"), chunk("old/a/1.1"), 0o666) },
		"more":    func(root string) error { return os.WriteFile(filepath.Join(root, ".nczreplaced"), nil, 0o666) },
		"less":    func(root string) error { return os.RemoveAll(filepath.Join(root, "only_old")) },
		"other": func(root string) error {
			return os.WriteFile(filepath.Join(root, ".zattrs"), chunk("new/.zattrs"), 0o666)
		},
	} {
		root := filepath.Join(place, name)
		copyTree(t, filepath.Join(src, "old"), root)
		if err := damage(root); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	writeFile(t, filepath.Join(place, "more.txt"), "x")
	v := look(t, "file", place, names...)
	for name, s := range v.Stores {
		want := name
		if name != "old" && name != "absent" {
			want = "neither"
		}
		if s.State != want {
			t.Errorf("%s has the unexpected state %s: %s", name, s.State, s.Why)
		}
	}
	if len(v.Stores) != len(names) || len(v.Files) != 1 || v.Files["more.txt"] == "" {
		t.Errorf("want one result per store and the file more.txt, got %d and %q", len(v.Stores), v.Files)
	}
}

// sources creates the datasets that replaced.py defines and returns their directory.
func sources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, "replaced.py", "make", dir)
	return dir
}

// arena is a directory or bucket with a dataset that is replaced, and with other files.
type arena struct {
	src   string
	place string // local directory of the dataset, or the directory in which the server stores it
	saved string // copy of the initial content of place
	name  string // name of the dataset in place
	kind  string
	dst   string // URL of the dataset for nczctl
	aside string // URL for concurrent commands, whose requests are not counted
	env   []string
	tmp   string
	gate  *s3server.Gate // nil for local stores
	known map[string]contents
	dumps map[string]string // names of the datasets by their dumps
	calls int               // number of calls or requests of an undisturbed copy

	before map[string]string // initial description of everything except the dataset
}

func newArena(t *testing.T, kind, src string) *arena {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	a := &arena{src: src, kind: kind, saved: filepath.Join(dir, "saved"), place: filepath.Join(dir, "place"), name: "d.zarr", tmp: t.TempDir(), known: map[string]contents{}, dumps: map[string]string{}}
	a.env = append(os.Environ(), "TMPDIR="+a.tmp, "HOME="+home, "XDG_CONFIG_HOME=", "PATH="+filepath.Dir(nczctl)+":"+os.Getenv("PATH"))
	settings := filepath.Join(home, ".config", "nczarr")
	writeFile(t, filepath.Join(settings, "config.toml"), "[plugins]\nstart_timeout = \"5m\"\n")
	switch kind {
	case "zip":
		a.name = "d.zip"
		fallthrough
	case "file":
		a.dst = filepath.Join(a.place, a.name)
		a.aside = a.dst
	case "s3":
		srv := s3server.Start(t)
		a.gate, a.place = srv.NewGate(t), filepath.Join(srv.Root, srv.Bucket, "place")
		a.dst = a.gate.Endpoint + "/" + srv.Bucket + "/place/" + a.name + "#mode=nczarr,s3"
		a.aside = srv.URL("place/"+a.name, "nczarr,s3")
		a.env = append(a.env, srv.Env()...)
	}
	if kind != "s3" {
		if err := os.Mkdir(a.place, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	a.quick(t, "copy", filepath.Join(src, "old"), a.dst)
	for _, name := range []string{
		"notes.txt", ".hidden", a.name + ".bak/keep", a.name + "2", ".nczarr-stage-ABCDEFGHIJ/keep", a.name + ".nczstage-abcdefghij/keep", "a/0.0",
	} {
		writeFile(t, filepath.Join(a.place, name), "other "+name)
	}
	for _, name := range []string{"old", "new", "other"} {
		var err error
		if a.known[name], err = read(filepath.Join(src, name)); err != nil {
			t.Fatal(err)
		}
	}
	copyTree(t, a.place, a.saved)
	a.note(t, "old")
	a.calls = a.count(t)
	a.note(t, "new")
	is, files := a.look(t)
	if is.State != "new" || is.Claimed {
		t.Fatalf("an undisturbed copy creates %+v", is)
	}
	a.before = files
	return a
}

// note records the current dump of the dataset under a name.
func (a *arena) note(t *testing.T, name string) {
	t.Helper()
	text, err := a.text()
	if err != nil {
		t.Fatal(err)
	}
	a.dumps[text] = name
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// copyTree copies a directory with all attributes of its files, because the S3 server
// stores the metadata of objects in file attributes.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// reset restores the initial content of place.
func (a *arena) reset(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(a.place); err != nil {
		t.Fatal(err)
	}
	copyTree(t, a.saved, a.place)
}

// command returns a command that runs nczctl with args.
func (a *arena) command(args ...string) *exec.Cmd {
	c := exec.Command(nczctl, args...)
	c.Dir, c.Env = a.tmp, a.env
	return c
}

// overwrite returns the command that replaces the dataset at to with source. If
// contained is set, the command runs in its own PID namespace, so that its process id
// is meaningless outside.
func (a *arena) overwrite(source, to string, contained bool) *exec.Cmd {
	c := a.command("copy", "--overwrite", "--memory", "256KiB", filepath.Join(a.src, source), to)
	if contained {
		c.Args = append(append([]string{"unshare"}, containing...), c.Args...)
		c.Path, c.Err = exec.LookPath("unshare")
	}
	return c
}

// containing holds the arguments of unshare. The contained processes end with unshare.
var containing = []string{"--pid", "--fork", "--mount-proc", "--kill-child"}

// quick runs nczctl without plugin processes. The command must succeed.
func (a *arena) quick(t *testing.T, args ...string) {
	t.Helper()
	if msg := a.fails(args...); msg != "" {
		t.Fatalf("nczctl %q: %s", args, msg)
	}
}

// campaign kills copies while another activity runs concurrently.
func (a *arena) campaign(t *testing.T, concurrent string) {
	if concurrent == "contained" {
		if out, err := exec.CommandContext(t.Context(), "unshare", append(containing, "true")...).CombinedOutput(); err != nil {
			t.Skipf("cannot create a PID namespace: %v: %s", err, out)
		}
	}
	k := &killRun{arena: a, concurrent: concurrent, contained: concurrent == "contained"}
	tally := map[string]int{}
	points := a.points(t, killPoints[a.kind][concurrent])
	for i, at := range points {
		k.at, k.victim = at, []killpoint.Victim{killpoint.Root, killpoint.Caller, killpoint.Both}[i%3]
		tally[k.killOnce(t)]++
	}
	t.Logf("%d calls, %d kills: %v", a.calls, len(points), tally)
}

// points returns the calls at which this run kills: the calls at the given thousandths of
// all calls, or every nth call.
func (a *arena) points(t *testing.T, where []int) []int {
	t.Helper()
	every, err := strconv.Atoi(cmp.Or(os.Getenv(everyVar), "0"))
	if err != nil {
		t.Fatalf("%s: %v", everyVar, err)
	}
	var out []int
	if every == 0 {
		for _, w := range where {
			out = append(out, 1+a.calls*w/1000)
		}
		return out
	}
	for at := 1 + int(testseed.New(t)%uint64(every)); at <= a.calls; at += every { // the remainder fits in an int
		out = append(out, at)
	}
	return out
}

// killRun describes one kill and the concurrent activity.
type killRun struct {
	*arena
	concurrent string
	contained  bool
	at         int
	victim     killpoint.Victim
}

// count runs an undisturbed copy and counts its calls or requests.
func (a *arena) count(t *testing.T) int {
	t.Helper()
	var msg bytes.Buffer
	c := a.overwrite("new", a.dst, false)
	c.Stderr = &msg
	if a.gate != nil {
		a.gate.Arm(0, nil)
		if err := c.Run(); err != nil {
			t.Fatalf("copy: %v: %s", err, msg.Bytes())
		}
		return a.gate.Arm(0, nil)
	}
	out, err := killpoint.Run(c, killpoint.Plan{})
	if err != nil || out.Code != 0 {
		t.Fatalf("copy: %+v, %v: %s", out, err, msg.Bytes())
	}
	return out.Calls
}

// killOnce kills one copy, checks the result and returns the outcome as one word.
func (k *killRun) killOnce(t *testing.T) string {
	t.Helper()
	k.reset(t)
	end := k.startConcurrent(t)
	o := k.kill(t)
	o.others = end()
	errorf := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s killed at %d (%s), exit code %d, %q: "+format, append([]any{k.victim, k.at, o.point, o.code, o.stderr}, args...)...)
	}
	return k.examine(t, o, errorf)
}

// ending describes how a copy ended.
type ending struct {
	code   int
	stderr string
	point  string
	others bool // another copy may have replaced the dataset
}

// examine checks the files that a copy has left behind. It runs the commands that error
// messages recommend, and checks that another copy then succeeds.
func (a *arena) examine(t *testing.T, o ending, errorf func(string, ...any)) string {
	t.Helper()
	is, files := a.look(t)
	a.checkOthers(files, false, errorf)
	if o.code == 0 && is.State == "old" {
		errorf("nczctl exited with 0, but the old dataset is still in place")
	}
	outcome := is.State
	if msg := a.fails("dump", "-n", "x", a.dst); msg != "" {
		outcome = "finished"
		is = a.finish(t, msg, errorf)
	}
	if is.State != "new" && is.State != "old" && (is.State != "other" || !o.others) {
		errorf("found %+v", is)
	}
	again := []string{"copy", "--overwrite", filepath.Join(a.src, "new"), a.dst}
	if msg := a.fails(again...); msg != "" { // readers can use the old dataset although its place is already claimed
		if !is.Claimed {
			errorf("another copy fails: %s", msg)
		}
		outcome += " and claimed"
		a.finish(t, msg, errorf)
		if msg := a.fails(again...); msg != "" {
			errorf("another copy fails: %s", msg)
		}
	}
	a.quick(t, "clean", "--remove", a.dst)
	if is, files = a.look(t); is.State != "new" || is.Claimed {
		errorf("found %+v after another copy", is)
	}
	a.checkOthers(files, true, errorf)
	return outcome
}

// fails runs nczctl without plugin processes. It returns the error output if nczctl
// fails, and otherwise an empty string.
func (a *arena) fails(args ...string) (msg string) {
	c := a.command(append([]string{"--isolation=inproc", "-q"}, args...)...)
	var out bytes.Buffer
	c.Stderr = &out
	if err := c.Run(); err != nil {
		return cmp.Or(out.String(), err.Error())
	}
	return ""
}

// recommended matches a command that an error message recommends.
var recommended = regexp.MustCompile(`nczctl (?:copy --resume-replace|clean --remove) (?:'[^']*'|\S+)`)

// finish runs the command that an error message recommends, and returns the state
// afterwards.
func (a *arena) finish(t *testing.T, msg string, errorf func(string, ...any)) found {
	t.Helper()
	command := recommended.FindString(msg)
	if command == "" {
		errorf("the error message recommends no command: %s", msg)
	}
	c := exec.CommandContext(t.Context(), "sh", "-c", command)
	c.Dir, c.Env = a.tmp, a.env
	if out, err := c.CombinedOutput(); err != nil {
		errorf("%s: %v: %s", command, err, out)
	}
	is, files := a.look(t)
	a.checkOthers(files, false, errorf)
	return is
}

// kill runs a copy until it ends or is killed.
func (k *killRun) kill(t *testing.T) ending {
	t.Helper()
	var msg bytes.Buffer
	c := k.overwrite("new", k.dst, k.contained)
	c.Stderr = &msg
	if k.gate == nil {
		out, err := killpoint.Run(c, killpoint.Plan{At: k.at, Victim: k.victim})
		if err != nil {
			t.Fatalf("%v: %s", err, msg.Bytes())
		}
		return ending{code: out.Code, stderr: msg.String(), point: out.Point}
	}
	started := make(chan struct{})
	k.gate.Arm(k.at, func() {
		<-started
		_ = c.Process.Kill() // the plugins of the command end too
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	close(started)
	_ = c.Wait() // the exit code is checked later
	k.gate.Arm(0, nil)
	for deadline := time.Now().Add(killpoint.Patience); k.concurrent != "writer" && running(k.tmp); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("processes outlive nczctl")
		}
	}
	k.gate.Wait()
	return ending{code: c.ProcessState.ExitCode(), stderr: msg.String(), point: "a request"}
}

// running reports whether any process has a temporary directory below tmp.
func running(tmp string) bool {
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range procs {
		env, _ := os.ReadFile(name)
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00TMPDIR="+tmp+"/")) {
			return true
		}
	}
	return false
}

// startConcurrent starts the concurrent activity. end stops it or waits for it, and
// reports whether another copy may have replaced the dataset.
func (k *killRun) startConcurrent(t *testing.T) (end func() bool) {
	t.Helper()
	switch k.concurrent {
	case "reader":
		return k.readers(t, k.library)
	case "dump":
		return k.readers(t, k.dump)
	case "holder":
		return k.holder(t)
	case "writer", "contained":
	default:
		return func() bool { return false }
	}
	c := k.overwrite("other", k.aside, k.contained)
	var msg bytes.Buffer
	c.Stderr = &msg
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return func() bool {
		if err := c.Wait(); err != nil && !allowedErrors.Match(msg.Bytes()) {
			t.Errorf("the concurrent copy: %v: %s", err, msg.Bytes())
		}
		return true
	}
}

// holder opens the dataset and repeatedly writes one element of the first chunk with its
// current value, until end is called or a write fails because the dataset is gone. The
// new dataset must not contain any of these writes.
func (k *killRun) holder(t *testing.T) (end func() bool) {
	t.Helper()
	ds, err := open.Open(t.Context(), k.aside, &dataset.Options{Registry: registry.New(drivers.New(), filters.Provider()), Update: true})
	if err != nil {
		t.Fatal(err)
	}
	v, err := ds.Root().Var("a")
	if err != nil {
		t.Fatal(err)
	}
	sel := chunk.Selection{Start: []int64{0, 1}, Count: []int64{1, 1}}
	values := v.NewSlice(1)
	if err := v.Read(t.Context(), sel, values); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for err == nil {
			if err = v.Write(t.Context(), sel, values); err == nil {
				err = ds.Flush(t.Context())
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return func() bool {
		close(stop)
		wg.Wait()
		if aerr := ds.Abort(t.Context()); err == nil {
			err = aerr
		}
		if err != nil && !allowedErrors.MatchString(err.Error()) {
			t.Errorf("a writer concurrent with %s killed at %d: %v", k.victim, k.at, err)
		}
		return false
	}
}

// allowedErrors matches the errors that are allowed while a dataset is being replaced. A
// second copy may find a dataset in a bucket without its root document.
var allowedErrors = regexp.MustCompile(`replaced|was replacing|is gone|no longer exists|another process|changed|something other than a dataset`)

// readers repeatedly calls once, which reads the dataset, until end is called. If the
// read succeeds with a wrong result, once returns a description of the result.
func (k *killRun) readers(t *testing.T, once func() (wrong string, err error)) (end func() bool) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			wrong, err := once()
			switch {
			case err != nil && !allowedErrors.MatchString(err.Error()):
				t.Errorf("a reader concurrent with %s killed at %d: %v", k.victim, k.at, err)
			case err == nil && wrong != "":
				t.Errorf("a reader concurrent with %s killed at %d: %s", k.victim, k.at, wrong)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return func() bool {
		close(stop)
		wg.Wait()
		return false
	}
}

// contents holds the values of a dataset, by path and shape of the variable.
type contents map[string]elements

// elements holds the values of a variable.
type elements struct {
	data []byte
	size int // size of one element in bytes
}

// read reads all values of a dataset with the library.
func read(url string) (contents, error) {
	ctx := context.Background()
	ds, err := open.Open(ctx, url, &dataset.Options{Registry: registry.New(drivers.New(), filters.Provider())})
	if err != nil {
		return nil, err
	}
	defer ds.Close(ctx)
	out := contents{}
	err = out.add(ctx, ds.Root())
	for _, p := range ds.Problems() {
		err = cmp.Or(err, p.Err)
	}
	return out, cmp.Or(err, ds.CheckUnchanged(ctx))
}

func (c contents) add(ctx context.Context, g *dataset.Group) error {
	for _, v := range g.Vars() {
		n := int64(1)
		for _, size := range v.Shape() {
			n *= size
		}
		values := v.NewSlice(n)
		if err := v.Read(ctx, v.All(), values); err != nil {
			return err
		}
		data, err := binary.Append(nil, binary.LittleEndian, values)
		if err != nil {
			return err
		}
		c[fmt.Sprint(v.Path(), v.Shape())] = elements{data, len(data) / int(n)}
	}
	for _, sub := range g.Groups() {
		if err := c.add(ctx, sub); err != nil {
			return err
		}
	}
	return nil
}

// library reads the dataset with the library. The result must be the old or the new
// dataset. In a bucket, a reader that has the dataset open may get chunks of both
// datasets (decision 28), but never the fill value for a chunk that exists in either of
// them.
func (k *killRun) library() (wrong string, err error) {
	got, err := read(k.aside)
	if err != nil {
		return "", err
	}
	from, to := k.known["old"], k.known["new"]
	if got.equal(from) || got.equal(to) {
		return "", nil
	}
	if k.gate == nil {
		return "neither the old dataset nor the new one", nil
	}
	for name, e := range got {
		a, b := from[name], to[name]
		for i := 0; i < len(e.data); i += e.size {
			part := e.data[i : i+e.size]
			if (a.data == nil || !bytes.Equal(part, a.data[i:i+e.size])) && (b.data == nil || !bytes.Equal(part, b.data[i:i+e.size])) {
				return fmt.Sprintf("element %d of %s is %x, which is in neither dataset", i/e.size, name, part), nil
			}
		}
	}
	return "", nil
}

func (c contents) equal(other contents) bool {
	return maps.EqualFunc(c, other, func(a, b elements) bool { return bytes.Equal(a.data, b.data) })
}

// dump reads the dataset with nczctl.
func (k *killRun) dump() (wrong string, err error) {
	text, err := k.text()
	switch {
	case err == nil && k.dumps[text] == "":
		return "neither the old dataset nor the new one: " + text, nil
	case err != nil && strings.Contains(err.Error(), "permission denied"):
		return "", nil // the driver process can read only the files that existed when it started
	}
	return "", err
}

func (a *arena) text() (string, error) {
	var out, msg bytes.Buffer
	c := a.command("dump", "-n", "x", a.dst)
	c.Stdout, c.Stderr = &out, &msg
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, msg.Bytes())
	}
	return out.String(), nil
}

// view is the output of replaced.py for a place.
type view struct {
	Stores map[string]found  // the datasets by name
	Files  map[string]string // descriptions of all other files
}

// found is the state of a store.
type found struct {
	State   string // old, new, other, absent or neither
	Why     string
	Claimed bool // a command has announced that it will replace the store
}

// look returns the state of the dataset and descriptions of all other files.
func (a *arena) look(t *testing.T) (found, map[string]string) {
	t.Helper()
	storage := "file"
	if a.kind == "zip" {
		storage = "zip"
	}
	v := look(t, storage, a.place, a.name)
	return v.Stores[a.name], v.Files
}

func look(t *testing.T, storage, place string, names ...string) view {
	t.Helper()
	text := must(t, "replaced.py", append([]string{"look", "--storage", storage, place}, names...)...)
	var v view
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// remains matches the names that a killed copy may leave until another command removes
// them.
var remains = regexp.MustCompile(`^(\.nczarr-stage-[A-Z2-7]{10}|\.d\.zip\.[0-9a-f]{16}\.tmp|d\.zarr\.nczstage-[a-z2-7]{10})(/|$)`)

// checkOthers checks that all other files are unchanged, and that no new files exist,
// except files that may remain until another command removes them.
func (a *arena) checkOthers(now map[string]string, cleaned bool, errorf func(string, ...any)) {
	for name, was := range a.before {
		if now[name] != was {
			errorf("%s changed from %q to %q", name, was, now[name])
		}
	}
	for name := range now {
		if a.before[name] == "" && (cleaned || !remains.MatchString(name)) {
			errorf("%s was left behind", name)
		}
	}
}
