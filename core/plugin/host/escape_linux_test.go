package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// needSandbox skips the test if the kernel lacks the features under test.
func needSandbox(t *testing.T) {
	t.Helper()
	if k := sandbox.Probe(); !k.Seccomp || k.Landlock < 6 {
		t.Skipf("the kernel lacks required features: it has Landlock version %d, seccomp %t", k.Landlock, k.Seccomp)
	}
}

// createTargets creates targets of attacks: files, servers, an inherited descriptor and
// a process. It returns their paths, addresses and numbers by kind.
func createTargets(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	for _, suffix := range []string{"", ".full", ".doomed"} {
		if err := os.WriteFile(secret+suffix, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("elsewhere", secret+".elsewhere"); err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{"secret": secret, "variable": "ESCAPE_SECRET"}
	for name, addr := range map[string][2]string{"tcp": {"tcp", "127.0.0.1:0"}, "unix": {"unix", filepath.Join(dir, "s")}, "abstract": {"unix", "@" + strconv.Itoa(os.Getpid()) + t.Name()}} {
		l, err := net.Listen(addr[0], addr[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		targets[name] = strings.TrimPrefix(l.Addr().String(), "@")
	}
	fd, err := unix.Open(secret, unix.O_RDONLY, 0) // without O_CLOEXEC, as a careless library would do
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	// Use a descriptor number that the child does not use otherwise.
	const inherited = 77
	if err := unix.Dup2(fd, inherited); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(inherited) })
	targets["fd"] = strconv.Itoa(inherited)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(exe)
	victim.Env = append(os.Environ(), zooEnv+"=sleeps")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	targets["pid"] = strconv.Itoa(victim.Process.Pid)
	return targets
}

// target returns the kind of the target of an attack, which is a key of the map that
// createTargets returns.
func target(attack string) string {
	for part, kind := range map[string]string{
		"TCP": "tcp", "datagram": "tcp", "Unix": "unix", "abstract": "abstract", "inherited": "fd", "environment": "variable",
		"process": "pid", "signal": "pid", "namespace": "pid",
	} {
		if strings.Contains(attack, part) && attack != "connect to an abstract socket" {
			return kind
		}
	}
	if strings.Contains(attack, "abstract") {
		return "abstract"
	}
	return "secret"
}

// attacker returns a function that makes a plugin attempt an attack and returns the
// result.
func attacker(t *testing.T, from origin, mode host.Sandbox) func(attack, arg string) string {
	t.Helper()
	return attackerOn(t, from, mode, sandbox.Probe())
}

// origin is the kind of an attacking plugin.
type origin string

const (
	builtIn     origin = "built in"
	static      origin = "third-party, static"
	interpreted origin = "third-party, interpreted"
)

// interpret replaces the plugin at path with a script whose interpreter is the plugin.
func interpret(t *testing.T, path string) {
	t.Helper()
	exe, err := filepath.EvalSymlinks(path)
	if err == nil {
		err = errors.Join(os.Remove(path), os.WriteFile(path, []byte("#!"+exe+"\n"), 0o755)) // the file must be executable
	}
	if err != nil {
		t.Fatal(err)
	}
}

// attackerOn is like attacker, but the host uses only the given features of the kernel.
func attackerOn(t *testing.T, from origin, mode host.Sandbox, kernel sandbox.Support) func(attack, arg string) string {
	t.Helper()
	opts := host.Options{}
	if from != builtIn {
		opts = zooOptions(t, "good", "nczarr-filter-trouble")
		opts.Builtin.Openers = []driver.Opener{trouble{name: "trouble"}}
		opts.Logger = nil
	}
	switch from {
	case static:
		host.SetAllowList(&opts)
	case interpreted:
		interpret(t, filepath.Join(opts.Dirs[0], "nczarr-filter-trouble"))
	}
	opts.Sandbox = mode
	host.SetKernel(&opts, kernel)
	if mode == host.SandboxOff {
		opts.PassEnv = append(opts.PassEnv, "ESCAPE_SECRET")
		getenv := opts.Getenv
		opts.Getenv = func(name string) string {
			if name == "ESCAPE_SECRET" {
				return "open"
			}
			if getenv == nil {
				return os.Getenv(name)
			}
			return getenv(name)
		}
	}
	h := newHost(t, opts)
	return func(attack, arg string) string {
		pl, _ := pipeline(t, h, 4096, codecdriver.Step{ID: "trouble", Params: []byte(`{"mode":"attack:` + attack + `"}`)})
		got := "nothing"
		err := pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte(arg), Limit: 4096}}, func(_ int, out []byte, err error) {
			if got = string(out); err != nil {
				got = err.Error()
			}
		})
		if err != nil {
			return err.Error()
		}
		return got
	}
}

// TestEscape makes filters attempt all attacks. The attacks must fail in a confined
// process and succeed in an unconfined one; otherwise the test would prove nothing.
func TestEscape(t *testing.T) { // not parallel, because all children inherit a descriptor
	needSandbox(t)
	t.Setenv("ESCAPE_SECRET", "open")
	names := slices.Collect(maps.Keys(openHoles))
	for name := range attacks {
		if name != "read through a link" && name != "fill its directory" && // for drivers only
			(name != "reserve address space" || !raceEnabled) { // the race detector reserves address space
			names = append(names, name)
		}
	}
	// The sandbox permits these attacks; see docs/explanation/security.md.
	permitted := map[string][]origin{
		"stat a file":                    {builtIn, static, interpreted},
		"read a link":                    {builtIn, static, interpreted},
		"read an attribute":              {interpreted},
		"bind an abstract name":          {static, interpreted},
		"allocate uncounted memory":      {static, interpreted}, // the loaders of programs make memory read-only
		"reserve address space":          {static, interpreted},
		"write to its private directory": {interpreted},
		"keep a removed file":            {interpreted},
	}
	slices.Sort(names)
	for _, tc := range []struct { //nolint:paralleltest // the attacks run in sequence
		name string
		from origin
		mode host.Sandbox
		want string
	}{
		{"built in", builtIn, host.SandboxAuto, "refused"},
		{"static", static, host.SandboxAuto, "refused"},
		{"interpreted", interpreted, host.SandboxAuto, "refused"},
		{"unconfined", builtIn, host.SandboxOff, "succeeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			targets := createTargets(t)
			attack := attacker(t, tc.from, tc.mode)
			for _, name := range names {
				want := tc.want
				if slices.Contains(permitted[name], tc.from) {
					want = "succeeded"
				}
				if got := attack(name, targets[target(name)]); got != want {
					t.Errorf("%s: want %q, got %q", name, want, got)
				}
			}
		})
	}
}

// TestSignalsWithoutLandlock checks that the filter of system calls confines signals
// without Landlock.
func TestSignalsWithoutLandlock(t *testing.T) { //nolint:paralleltest // all children of the test inherit a descriptor
	needSandbox(t)
	targets := createTargets(t)
	attack := attackerOn(t, builtIn, host.SandboxAuto, sandbox.Support{Landlock: 5, Seccomp: true})
	if got := attack("signal a process", targets["pid"]); got != "refused" {
		t.Errorf("want %q, got %q", "refused", got)
	}
}

// TestWithoutSeccomp checks that Landlock, limits and the lack of capabilities prevent
// attacks on a kernel without seccomp.
func TestWithoutSeccomp(t *testing.T) { //nolint:paralleltest // all children of the test inherit a descriptor
	needSandbox(t)
	targets := createTargets(t)
	attack := attackerOn(t, builtIn, host.SandboxAuto, sandbox.Support{Landlock: 6, Scoped: sandbox.Probe().Scoped})
	names := []string{"change its root", "raise its limits", "read a file", "connect to an abstract socket", "connect by TCP", "trace a process"}
	if sandbox.Probe().Scoped {
		names = append(names, "signal a process")
	}
	for _, name := range names {
		if got := attack(name, targets[target(name)]); got != "refused" {
			t.Errorf("%s: want %q, got %q", name, "refused", got)
		}
	}
}

// TestDriverGrants checks that a driver of local paths can access its store according to the
// mode of the store, and no other files.
func TestDriverGrants(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	outside := filepath.Join(t.TempDir(), "secret")
	readable := filepath.Join(t.TempDir(), "readable")
	dir := filepath.Join(t.TempDir(), "store")
	link, inside := filepath.Join(dir, "link"), filepath.Join(dir, "inside")
	for _, err := range []error{
		os.Mkdir(dir, 0o700), os.WriteFile(outside, []byte("x"), 0o600), os.WriteFile(inside, []byte("x"), 0o600), os.WriteFile(outside+".full", nil, 0o600), os.WriteFile(inside+".full", nil, 0o600),
		os.WriteFile(readable, []byte("x"), 0o600), os.Symlink(outside, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		mode         driver.Mode
		sandbox      host.Sandbox
		attack, path string
		want         string
	}{
		{driver.Read, host.SandboxAuto, "read a file", inside, "succeeded"},
		{driver.Read, host.SandboxAuto, "list a directory", inside, "succeeded"},
		{driver.Read, host.SandboxAuto, "read a file", outside, "refused"},
		{driver.Read, host.SandboxAuto, "create a file", inside, "refused"},
		{driver.Read, host.SandboxAuto, "read through a link", link, "refused"},
		{driver.Update, host.SandboxAuto, "create a file", inside, "succeeded"},
		{driver.Update, host.SandboxAuto, "create a file", outside, "refused"},
		{driver.Update, host.SandboxAuto, "read through a link", link, "refused"},
		{driver.Update, host.SandboxAuto, "make a file world-writable", outside, "refused"},
		{driver.Update, host.SandboxAuto, "create a link", inside, "refused"},
		{driver.Read, host.SandboxAuto, "open with access mode 3", outside, "refused"},
		{driver.Read, host.SandboxAuto, "open with access mode 3 by openat2", outside, "succeeded"}, // harmless, because the driver cannot change the file
		{driver.Read, host.SandboxAuto, "change the mode of an open file", inside, "refused"},
		{driver.Read, host.SandboxAuto, "set times of an open file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "change the owner of an open file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "set an attribute of an open file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "remove an attribute of an open file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "set flags of an open file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "replace itself", "", "refused"},
		{driver.Update, host.SandboxAuto, "open with access mode 3", outside, "refused"},
		{driver.Update, host.SandboxAuto, "open with access mode 3 by openat2", outside, "refused"},
		{driver.Update, host.SandboxAuto, "change the mode of an open file", inside, "succeeded"},
		{driver.Update, host.SandboxAuto, "change the mode of an open file", outside, "refused"},
		{driver.Update, host.SandboxAuto, "set the set-user-ID bit of an open file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "create a set-user-ID file", inside, "refused"},
		{driver.Update, host.SandboxAuto, "create a set-user-ID file with mknod", inside, "refused"},
		{driver.Update, host.SandboxAuto, "set times", inside, "refused"},
		{driver.Update, host.SandboxAuto, "set times", outside, "refused"},
		{driver.Update, host.SandboxAuto, "set times of an open file", inside, "succeeded"},
		{driver.Update, host.SandboxAuto, "set times of an open file", outside, "refused"},
		{driver.Update, host.SandboxAuto, "change the mode of an open file", readable, "succeeded"}, // not prevented
		{driver.Update, host.SandboxAuto, "watch a directory", inside, "refused"},
		{driver.Update, host.SandboxAuto, "keep a removed file", "", "succeeded"}, // not prevented
		{driver.Update, host.SandboxAuto, "watch an open directory", inside, "refused"},
		{driver.Update, host.SandboxAuto, "take a lease on a file", inside, "refused"},
		{driver.Read, host.SandboxAuto, "take a lease with access mode 3", outside, "refused"},
		{driver.Read, host.SandboxAuto, "read an attribute", outside, "succeeded"}, // not prevented
		{driver.Update, host.SandboxOff, "create a link", inside, "succeeded"},
		{driver.Update, host.SandboxAuto, "fork", "", "refused"},
		{driver.Update, host.SandboxAuto, "fork into namespaces", "", "refused"},
		{driver.Update, host.SandboxOff, "fork", "", "succeeded"},
		{driver.Read, host.SandboxOff, "read through a link", link, "succeeded"},
		{driver.Read, host.SandboxOff, "create a file", inside, "succeeded"},
	} {
		h := newHost(t, host.Options{Sandbox: tc.sandbox, DriverGrants: map[string][]string{"trouble": {"read:" + readable}}})
		m := open(t, h, "trouble", driver.OpenSpec{Path: dir, Mode: tc.mode})
		if got, err := get(t.Context(), m, "attack:"+tc.attack+"="+tc.path); err != nil || got != tc.want {
			t.Errorf("mode %d, %s, %s of %s: want %q, got %q, %v", tc.mode, tc.sandbox, tc.attack, tc.path, tc.want, got, err)
		}
	}
}

// TestThirdPartyPlaces checks where a third-party driver may write. A driver that creates
// a store may write to the directory that contains the store, unless that directory is
// the home directory.
func TestThirdPartyPlaces(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	home := filepath.Join(t.TempDir(), "home")
	separate := filepath.Join(home, "separate")
	if err := os.MkdirAll(filepath.Join(separate, "existing"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		kind, path string
		mode       driver.Mode
		want       string
	}{
		{"good", filepath.Join(separate, "new"), driver.Create, "succeeded"}, // not prevented
		{"good", filepath.Join(separate, "existing"), driver.Update, "refused"},
		{"dir-writer", filepath.Join(separate, "existing"), driver.Update, "succeeded"}, // not prevented
		{"dir-writer", filepath.Join(separate, "existing"), driver.Read, "refused"},
		{"good", filepath.Join(home, "new"), driver.Create, "a separate directory"},
		{"dir-writer", separate, driver.Update, "a separate directory"},
		{"good", home, driver.Update, "a separate directory"},
	} {
		opts := zooOptions(t, tc.kind, "nczarr-driver-good")
		zooVar := opts.Getenv
		opts.Sandbox, opts.Getenv = host.SandboxAuto, func(name string) string {
			if name == "HOME" {
				return home
			}
			return zooVar(name)
		}
		o, err := newHost(t, opts).Driver("good")
		if err != nil {
			t.Fatal(err)
		}
		var got string
		m, err := o.Open(t.Context(), driver.OpenSpec{Path: tc.path, Mode: tc.mode})
		if err == nil {
			got, err = get(t.Context(), m, "attack:create a file="+filepath.Join(separate, "beside"))
			err = errors.Join(err, m.Close(t.Context()))
		}
		if said := fmt.Sprint(got, err); !strings.Contains(said, tc.want) {
			t.Errorf("%s in %s, mode %d: want %q, got %s", tc.kind, tc.path, tc.mode, tc.want, said)
		}
	}
}

// TestSuperuser checks that a driver keeps only the capabilities that its grants
// require.
func TestSuperuser(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if os.Getuid() != 0 {
		t.Skip("this user has no capabilities")
	}
	for _, tc := range []struct {
		mode    driver.Mode
		sandbox host.Sandbox
		want    string
	}{{driver.Read, host.SandboxAuto, "refused"}, {driver.Update, host.SandboxAuto, "succeeded"}, {driver.Read, host.SandboxOff, "succeeded"}} {
		h := newHost(t, host.Options{Sandbox: tc.sandbox})
		m := open(t, h, "trouble", driver.OpenSpec{Path: t.TempDir(), Mode: tc.mode})
		if got, err := get(t.Context(), m, "attack:hold capabilities to change files="); err != nil || got != tc.want {
			t.Errorf("mode %d, %s: want %q, got %q, %v", tc.mode, tc.sandbox, tc.want, got, err)
		}
	}
}

// TestCrowdedDirectory checks that the host kills a driver that fills its private
// directory. newHost checks that the directory is removed.
func TestCrowdedDirectory(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	opts := host.Options{}
	host.SetCheckEvery(&opts, 20*time.Millisecond)
	h := newHost(t, opts)
	m := open(t, h, "trouble", driver.OpenSpec{Path: t.TempDir()})
	first, err := get(t.Context(), m, "pid")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = get(t.Context(), m, "attack:fill its directory=") // the driver may be killed during the attack
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if pid, err := get(t.Context(), m, "pid"); err != nil || pid != first {
			return
		}
	}
	t.Error("the host did not kill the driver")
}

// TestRemoveByLinks checks that removing a store by a path with links removes the store
// and the last link.
func TestRemoveByLinks(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	dir, storeDir := t.TempDir(), t.TempDir()
	store, link := filepath.Join(storeDir, "store"), filepath.Join(dir, "real", "link")
	for _, err := range []error{
		os.Mkdir(store, 0o700), os.Mkdir(filepath.Join(dir, "real"), 0o700),
		os.Symlink(store, link), os.Symlink("real", filepath.Join(dir, "alias")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o, err := newHost(t, host.Options{}).Driver("file")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(t.Context(), driver.OpenSpec{Path: filepath.Join(dir, "alias", "link")}); err != nil {
		t.Error(err)
	}
	for _, path := range []string{store, link} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was not removed: %v", path, err)
		}
	}
}

// TestTaskLimit checks that a driver, with or without network access, cannot create
// processes, and that its number of threads is limited.
func TestTaskLimit(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	for _, name := range []string{"trouble", "networked"} {
		h := newHost(t, host.Options{})
		m := open(t, h, name, driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Endpoint: "http://localhost:1", Mode: driver.Create})
		for _, attack := range []string{"fork", "fork into namespaces"} {
			if got, err := get(t.Context(), m, "attack:"+attack+"="); err != nil || got != "refused" {
				t.Errorf("%s: %s: want refused, got %q, %v", name, attack, got, err)
			}
		}
		text, err := os.ReadFile("/proc/" + strconv.Itoa(h.Plugins()[0].PID) + "/limits")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "Max processes")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			t.Fatalf("no limit of processes in %s", text)
		}
		for _, limit := range fields[:2] { // soft and hard
			if n, err := strconv.Atoi(limit); err != nil || n < 1 || n > 1<<16 {
				t.Errorf("%s: want at most 65536 processes and threads, got the limit %q", name, limit)
			}
		}
	}
}

// TestNetworkGrants checks that a driver with network access can connect only to the
// granted port, and cannot connect to Unix sockets.
func TestNetworkGrants(t *testing.T) { // not parallel, because all children inherit a descriptor
	needSandbox(t)
	t.Setenv("ESCAPE_KEY", "mine")
	t.Setenv("OTHER_KEY", "not mine")
	targets := createTargets(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	h := newHost(t, host.Options{})
	m := open(t, h, "networked", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Endpoint: "http://" + targets["tcp"], Mode: driver.Create})
	for _, tc := range [][3]string{
		{"connect by TCP", targets["tcp"], "succeeded"},
		{"connect by TCP", other.Addr().String(), "refused"},
		{"listen on TCP", "", "refused"},
		{"connect to a Unix socket", targets["unix"], "refused"},
		{"connect to an abstract socket", targets["abstract"], "refused"},
		{"send a datagram", targets["tcp"], "succeeded"}, // required to resolve names
		{"receive datagrams", "", "succeeded"},           // required to resolve names
		{"query network interfaces", "", "succeeded"},
		{"connect by TCP with sendto", other.Addr().String(), "refused"},
		{"connect by TCP with sendmsg", other.Addr().String(), "refused"},
		{"connect by TCP with a socket option", other.Addr().String(), "refused"},
		{"listen on TCP without a port", "", "refused"},
		{"read the environment", "ESCAPE_KEY", "succeeded"},
		{"read the environment", "OTHER_KEY", "refused"},
		{"read a file", targets["secret"], "refused"},
	} {
		if got, err := get(t.Context(), m, "attack:"+tc[0]+"="+tc[1]); err != nil || got != tc[2] {
			t.Errorf("%s %s: want %q, got %q, %v", tc[0], tc[1], tc[2], got, err)
		}
	}
}

// TestThirdPartyNetwork is like TestNetworkGrants, but uses a third-party driver, to
// which other rules apply.
func TestThirdPartyNetwork(t *testing.T) { //nolint:paralleltest // all children of the test inherit a descriptor
	needSandbox(t)
	targets := createTargets(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	_, port, _ := net.SplitHostPort(targets["tcp"])
	for mode, want := range map[host.Sandbox]string{host.SandboxAuto: "refused", host.SandboxOff: "succeeded"} {
		opts := zooOptions(t, "good", "nczarr-driver-good")
		opts.Sandbox, opts.DriverGrants = mode, map[string][]string{"good": {"tcp:" + port}}
		h := newHost(t, opts)
		m := open(t, h, "good", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
		for _, tc := range [][3]string{
			{"connect by TCP", targets["tcp"], "succeeded"},
			{"connect by TCP", other.Addr().String(), want},
			{"connect by TCP with sendto", other.Addr().String(), want},
			{"connect by TCP with sendmsg", other.Addr().String(), want},
			{"connect by TCP with a socket option", other.Addr().String(), want},
			{"connect to an abstract socket", targets["abstract"], want},
			{"create a Unix datagram socket", "", want},
			{"listen on TCP without a port", "", want},
			{"listen on another Unix socket", "", want},
			{"listen under an abstract name", "", want},
			{"supervise its own system calls", "", want},
			{"open with access mode 3", targets["secret"], want},
			{"open with access mode 3 by openat2", targets["secret"], want},
			{"set flags by descriptor", targets["secret"], want},
			{"watch a directory", targets["secret"], want},
			{"send a datagram", targets["tcp"], "succeeded"}, // not prevented
			{"bind an abstract name", "", "succeeded"},       // not prevented
		} {
			if got, err := get(t.Context(), m, "attack:"+tc[0]+"="+tc[1]); err != nil || got != tc[2] {
				t.Errorf("%s: %s %s: want %q, got %q, %v", mode, tc[0], tc[1], tc[2], got, err)
			}
		}
	}
}

// TestBeforeServing checks the calls that a plugin may make only while it starts. It
// must not execute a program from another thread, which has no parent-death signal, or
// listen on a socket to which other users could connect.
func TestBeforeServing(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if k := sandbox.Probe(); !k.Notify || !k.Inspect {
		t.Skipf("the kernel lacks required features: it has seccomp notification %t, pidfd_getfd %t", k.Notify, k.Inspect)
	}
	for _, tc := range []struct{ attack, confined, unconfined string }{
		{"listen under an abstract name", "refused", "succeeded"},
		{"listen on TCP without a port", "refused", "succeeded"},
		{"listen on another Unix socket", "succeeded", "succeeded"}, // permitted, because it is the first listening socket
		{"replace itself from a thread", "refused", "succeeded"},
	} {
		for mode, want := range map[host.Sandbox]string{host.SandboxAuto: tc.confined, host.SandboxOff: tc.unconfined} {
			opts := zooOptions(t, "early:"+tc.attack, "nczarr-driver-good")
			opts.Sandbox, opts.MaxRestarts, opts.DriverGrants = mode, -1, map[string][]string{"good": {"network"}}
			if err := newHost(t, opts).Discover(t.Context()); err == nil || !strings.Contains(err.Error(), "its last output: "+want) {
				t.Errorf("%s: %s: want %q, got %v", mode, tc.attack, want, err)
			}
		}
	}
	opts := zooOptions(t, "", "nczarr-driver-good")
	path := filepath.Join(opts.Dirs[0], "nczarr-driver-good")
	script := "#!/bin/sh\nexec /bin/sh -c 'echo second >&2'\n"
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte(script), 0o755)); err != nil { // the file must be executable
		t.Fatal(err)
	}
	opts.Sandbox, opts.MaxRestarts = host.SandboxAuto, -1
	if err := newHost(t, opts).Discover(t.Context()); err == nil || !strings.Contains(err.Error(), "second") {
		t.Errorf("want a script that executes a program, got %v", err)
	}
}

// TestOtherGrants checks that the grants of a process never grow: stores at different
// locations have separate processes, and stores at the same location share one.
func TestOtherGrants(t *testing.T) {
	t.Parallel()
	h := newHost(t, host.Options{})
	dir := t.TempDir()
	pid := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		got, err := get(t.Context(), open(t, h, "trouble", driver.OpenSpec{Path: path}), "pid")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b, again := pid("a"), pid("b"), pid("a")
	if a != again || a == b {
		t.Errorf("want one process for a and another for b, got %s, %s, %s", a, b, again)
	}
	// A new directory with the same name is a different location, even if it has the
	// same inode number.
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if pid("a") == a {
		t.Error("the process of a store also serves the directory that replaced the store")
	}
}

// TestMemoryCeiling checks that a filter cannot allocate more memory than the limit.
func TestMemoryCeiling(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if raceEnabled {
		t.Skip("the race detector needs more memory than the limit")
	}
	for _, ceiling := range []int64{512 << 20, -1} {
		h := newHost(t, host.Options{MaxMemory: ceiling})
		pl, _ := pipeline(t, h, 100, codecdriver.Step{ID: "trouble", Params: []byte(`{"mode":"allocate"}`)})
		var got string
		var own error
		err := pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte("700"), Limit: 100}}, func(_ int, out []byte, err error) { got, own = string(out), err })
		err = errors.Join(err, own)
		switch {
		case ceiling < 0 && (err != nil || got != "700"):
			t.Errorf("without a limit: got %q, %v", got, err)
		case ceiling > 0 && (!errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "memory")):
			t.Errorf("want ErrPlugin about memory, got %q, %v", got, err)
		}
	}
}

// TestHoles checks that a host reports the restrictions that the kernel cannot enforce.
func TestHoles(t *testing.T) {
	t.Parallel()
	bare := host.Options{Self: self, Isolation: host.Process, TempDir: t.TempDir(), Sandbox: host.SandboxRequire}
	host.SetKernel(&bare, sandbox.Support{})
	h, err := host.New(&bare)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close(context.Background()) }()
	o, err := h.Driver("file")
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.Open(t.Context(), driver.OpenSpec{Path: t.TempDir()})
	if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), "no Landlock") || !strings.Contains(err.Error(), "no seccomp") {
		t.Errorf("want an error that lists the missing features, got %v", err)
	}
	for _, kernel := range []sandbox.Support{{}, {Landlock: 1}, {Landlock: 3, Seccomp: true}, {Landlock: 5, Seccomp: true}} {
		if k := sandbox.Probe(); kernel.Landlock > k.Landlock || kernel.Seccomp && !k.Seccomp {
			t.Skipf("the kernel lacks required features: it has Landlock version %d, seccomp %t", k.Landlock, k.Seccomp)
		}
		log := &logBuffer{}
		opts := host.Options{Logger: textLog(log)}
		host.SetKernel(&opts, kernel)
		h := newHost(t, opts)
		for range 2 {
			open(t, h, "networked", driver.OpenSpec{Path: t.TempDir(), Endpoint: "http://localhost:1"})
		}
		if n := strings.Count(log.String(), "not fully confined"); n != 1 {
			t.Errorf("%+v: want one warning, got %d: %s", kernel, n, log.String())
		}
		if got := h.Plugins()[0].Sandbox; got.Landlock != kernel.Landlock || got.Seccomp != kernel.Seccomp || len(got.Missing) == 0 {
			t.Errorf("%+v: got %+v", kernel, got)
		}
	}
}

// TestAlert checks that an unconfined third-party plugin, without Landlock or without a
// system call filter, is logged at a level that quiet programs show.
func TestAlert(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	full := sandbox.Probe()
	for name, tc := range map[string]struct {
		restrict   func(k *sandbox.Support)
		thirdParty bool
		alerts     int
	}{
		"nothing":     {func(*sandbox.Support) {}, true, 0},
		"no Landlock": {func(k *sandbox.Support) { k.Landlock = 0 }, true, 1},
		"no seccomp":  {func(k *sandbox.Support) { k.Seccomp = false }, true, 1},
		"built in":    {func(k *sandbox.Support) { k.Landlock = 0 }, false, 0},
	} {
		log, driverName, opts := &logBuffer{}, "trouble", host.Options{}
		if tc.thirdParty {
			opts, driverName = zooOptions(t, "good", "nczarr-driver-good"), "good"
		}
		opts.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: host.LevelAlert}))
		kernel := full
		tc.restrict(&kernel)
		host.SetKernel(&opts, kernel)
		h := newHost(t, opts)
		for range 2 {
			open(t, h, driverName, driver.OpenSpec{Path: t.TempDir()})
		}
		if n := strings.Count(log.String(), "third-party plugins are not fully confined"); n != tc.alerts {
			t.Errorf("%s: want %d alerts, got %q", name, tc.alerts, log)
		}
	}
}

// TestSupervised runs a host under a supervisor of system calls, as some containers do.
// Such a host cannot supervise the calls of plugins. It must start them without
// supervision, or refuse to start them if the sandbox is required.
func TestSupervised(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{"auto": "", "require": "listen on any sockets"} {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), zooEnv+"=supervised", "ZOO_DIR="+plugins(t, "nczarr-driver-good"), "ZOO_TMP="+t.TempDir(), "ZOO_SANDBOX="+mode)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if mode == "auto" {
			var pids [2]int
			if _, err := fmt.Sscan(line, &pids[0], &pids[1]); err != nil {
				t.Errorf("%s: want two processes, got %q", mode, line)
			}
		} else if !strings.Contains(line, want) {
			t.Errorf("%s: want %q, got %q", mode, want, line)
		}
	}
}
