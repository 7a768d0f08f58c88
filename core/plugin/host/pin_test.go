package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/file"
)

// testSum returns the checksum of this program, which is also the executable of the
// test plugins.
func testSum(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(exe)
	return hex.EncodeToString(sum[:])
}

// setSecret sets $ESCAPE_SECRET in the environment of a host.
func setSecret(opts *host.Options) {
	opts.Environ = func() []string { return []string{"ESCAPE_SECRET=open"} }
	getenv := opts.Getenv
	opts.Getenv = func(name string) string {
		if name == "ESCAPE_SECRET" {
			return "open"
		}
		return getenv(name)
	}
}

// TestClaims checks that a plugin receives no grants for names that are neither in its
// file name nor in its pin, and does not serve these names.
func TestClaims(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		grant   string
		filters []string // in the pin; nil without a pin
		want    string
	}{
		"own file name":  {"trouble", nil, "succeeded"},
		"another plugin": {"twice", nil, "refused"},
		"name in pin":    {"twice", []string{"trouble", "twice"}, "succeeded"},
		"not in pin":     {"twice", []string{"trouble", "xor"}, "refused"},
		"V3 name":        {"test.xor", []string{"trouble", "xor"}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := zooOptions(t, "good", "nczarr-filter-trouble")
			opts.Builtin.Openers = []driver.Opener{file.New()}
			opts.FilterGrants = map[string][]string{tc.grant: {"env:ESCAPE_SECRET"}}
			setSecret(&opts)
			if tc.filters != nil {
				opts.Lock = &host.Lock{Plugins: []host.Pin{{File: "nczarr-filter-trouble", SHA256: testSum(t), Filters: tc.filters}}}
				other := host.Pin{File: "nczarr-filter-trouble", SHA256: strings.Repeat("0", 64), Filters: []string{"twice", "test.xor"}}
				opts.Lock.Plugins = append(opts.Lock.Plugins, other) // a later version may serve more
			}
			h := newHost(t, opts)
			for range 2 { // the second call uses the known description
				got := "nothing"
				pl, _ := pipeline(t, h, 4096, codecdriver.Step{ID: "trouble", Params: []byte(`{"mode":"attack:read the environment"}`)})
				err := pl.DecodeMany(t.Context(), []codecdriver.Job{{Src: []byte("ESCAPE_SECRET"), Limit: 4096}}, func(_ int, out []byte, _ error) { got = string(out) })
				if err != nil || got != tc.want && runtime.GOOS == "linux" {
					t.Errorf("want %q, got %q, %v", tc.want, got, err)
				}
			}
			if _, err := h.Filter("unknown"); !errors.Is(err, ncerr.ErrNoFilter) {
				t.Errorf("want ErrNoFilter, got %v", err)
			}
			if _, err := h.Filter("test.xor"); !errors.Is(err, ncerr.ErrNoFilter) {
				t.Errorf("a name that the plugin only claims: want ErrNoFilter, got %v", err)
			}
		})
	}
}

// TestOwners checks that the plugin with a driver's file name serves the driver, even
// if another plugin claims the name or has it in its pin.
func TestOwners(t *testing.T) {
	t.Parallel()
	for name, pinned := range map[string][]string{"claimed": nil, "pinned": {"evil", "tape"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := zooOptions(t, "greedy", "nczarr-driver-evil", "nczarr-driver-tape")
			if pinned != nil {
				opts.Lock = &host.Lock{Plugins: []host.Pin{{File: "nczarr-driver-evil", SHA256: testSum(t), Drivers: pinned}}}
			}
			h := newHost(t, opts)
			if err := h.Discover(t.Context()); err != nil {
				t.Fatal(err)
			}
			open(t, h, "tape", driver.OpenSpec{Path: t.TempDir()})
			for _, p := range h.Plugins() {
				if strings.HasPrefix(p.Serves, "driver:tape") && filepath.Base(p.Path) != "nczarr-driver-tape" {
					t.Errorf("%s serves the driver tape", p.Path)
				}
			}
		})
	}
}

// TestOnly checks that a host with OnlyPlugin runs no other plugin, accepts all names
// that the plugin claims, and has no built-ins, which would take precedence.
func TestOnly(t *testing.T) {
	t.Parallel()
	opts := zooOptions(t, "greedy", "nczarr-driver-evil", "nczarr-driver-tape", "nczarr-filter-zstd")
	opts.OnlyPlugin, opts.AllowUnpinned = filepath.Join(opts.Dirs[0], "nczarr-driver-evil"), false
	opts.Builtin.Openers = []driver.Opener{trouble{name: "tape"}}
	opts.DriverGrants = map[string][]string{"tape": {"env:ESCAPE_SECRET"}}
	setSecret(&opts)
	h := newHost(t, opts)
	if err := h.Discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := open(t, h, "tape", driver.OpenSpec{Path: t.TempDir()})
	if got, err := get(t.Context(), m, "attack:read the environment=ESCAPE_SECRET"); err != nil || got != "refused" && runtime.GOOS == "linux" {
		t.Errorf("a grant for a name that the plugin only claims: want refused, got %q, %v", got, err)
	}
	for _, p := range h.Plugins() {
		if filepath.Base(p.Path) != "nczarr-driver-evil" {
			t.Errorf("unexpected plugin %+v", p)
		}
	}
}

// TestThirdParty checks that a third-party plugin serves drivers and filters over mutual
// TLS, and that a plugin without TLS serves a driver. The pin of the first plugin contains
// its filters, except for the name test.xor.
func TestThirdParty(t *testing.T) {
	t.Parallel()
	opts := zooOptions(t, "good", "nczarr-driver-good")
	opts.Builtin.Openers = []driver.Opener{file.New()} // no filters, which would take precedence
	opts.Lock = &host.Lock{Plugins: []host.Pin{{File: "nczarr-driver-good", SHA256: testSum(t), Filters: []string{"xor", "twice", "trouble"}}}}
	h := newHost(t, opts)
	m := open(t, h, "good", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
	if pid, err := get(t.Context(), m, "pid"); err != nil || pid == "" {
		t.Errorf("got %q, %v", pid, err)
	}
	p, err := h.Filter("twice")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Describe()) != 3 {
		t.Errorf("want 3 filters, got %+v", p.Describe())
	}
	if _, _, err := p.Open("twice", nil, codecdriver.Spec{MaxBytes: 1}); err != nil {
		t.Error(err)
	}
	var names []string
	for _, d := range h.Drivers() {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "file good" {
		t.Errorf("want the drivers file and good, got %q", got)
	}
	info := h.Plugins()[0]
	if info.Version != "1.2.3" || !info.Pinned || len(info.SHA256) != 64 || info.Path == "" {
		t.Errorf("got %+v", info)
	}
	bare := zooOptions(t, "bare", "nczarr-driver-good") // without TLS
	open(t, newHost(t, bare), "good", driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
}

// TestPins checks that a plugin runs only if it matches its pin, or if it has no pin
// and unpinned plugins are allowed.
func TestPins(t *testing.T) {
	t.Parallel()
	good := host.Pin{File: "nczarr-driver-good", Name: "good", Version: "1.2.3", SHA256: testSum(t), Drivers: []string{"good"}, Filters: []string{"xor"}}
	change := func(f func(*host.Pin)) *host.Lock {
		p := good
		f(&p)
		return &host.Lock{Plugins: []host.Pin{p}}
	}
	for name, tc := range map[string]struct {
		lock    *host.Lock
		allowed bool
		want    string
	}{
		"pinned":            {change(func(*host.Pin) {}), false, ""},
		"unpinned":          {nil, false, "not in the lock file"},
		"unpinned, allowed": {nil, true, ""},
		"another checksum":  {change(func(p *host.Pin) { p.SHA256 = strings.Repeat("0", 64) }), true, "changed or replaced"},
		"another version":   {change(func(p *host.Pin) { p.Version = "1.2.4" }), false, `version "1.2.3"`},
		"another filter":    {change(func(p *host.Pin) { p.Filters = []string{"xor", "yor"} }), false, `no filter named "yor"`},
		"another name":      {change(func(p *host.Pin) { p.Name = "better" }), false, `is named "good"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := zooOptions(t, "good", "nczarr-driver-good")
			opts.Lock, opts.AllowUnpinned = tc.lock, tc.allowed
			opts.Builtin.Openers = []driver.Opener{file.New()}
			h := newHost(t, opts)
			o, err := h.Driver("good")
			if err != nil {
				t.Fatal(err)
			}
			m, err := o.Open(t.Context(), driver.OpenSpec{Path: filepath.Join(t.TempDir(), "s"), Mode: driver.Create})
			if tc.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if err := m.Close(context.Background()); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want ErrPlugin with %q, got %v", tc.want, err)
			}
			if tc.lock != nil { // the host finds the filter without starting the plugin
				if _, err := h.Filter("xor"); err != nil {
					t.Errorf("a filter that is only in the lock file: %v", err)
				}
			}
		})
	}
}

func TestUnfitFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"nczarr-driver-open": 0o777, "nczarr-driver-text": 0o755, "nczarr-driver-plain": 0o644, "nczarr-driver-": 0o755, "other": 0o755} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("no program"), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	h := newHost(t, host.Options{Dirs: []string{dir, dir, filepath.Join(dir, "absent")}, AllowUnpinned: true})
	for name, want := range map[string]string{"open": "writable by everybody", "text": "cannot execute the plugin"} {
		o, err := h.Driver(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Open(t.Context(), driver.OpenSpec{Path: "x"}); !errors.Is(err, ncerr.ErrPlugin) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", name, want, err)
		}
	}
	if _, err := h.Driver("plain"); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("a file that is not executable: want ErrUnsupported, got %v", err)
	}
	if n := len(h.Plugins()); n != 2 {
		t.Errorf("want 2 plugins, got %+v", h.Plugins())
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	dir, data := plugins(t, "nczarr-filter-a"), t.TempDir()
	own := filepath.Join(data, "nczarr", "plugins")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	exe, _ := os.Executable()
	for _, n := range []string{"nczarr-filter-a", "nczarr-filter-b"} {
		if err := os.Symlink(exe, filepath.Join(own, n)); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"NCZARR_PLUGIN_PATH": "relative" + string(os.PathListSeparator) + dir, "XDG_DATA_HOME": data, "PATH": dir}
	h := newHost(t, host.Options{Getenv: func(n string) string { return env[n] }})
	var got []string
	for _, i := range h.Plugins() {
		got = append(got, i.Path)
	}
	want := []string{filepath.Join(dir, "nczarr-filter-a"), filepath.Join(own, "nczarr-filter-b")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	l := &host.Lock{Plugins: []host.Pin{
		{File: "nczarr-filter-z", Name: "z", Version: "2", SHA256: sum, Filters: []string{"z"}},
		{File: "nczarr-driver-a", Name: "a", Version: "1", SHA256: sum, Drivers: []string{"a", "b"}},
	}}
	text, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := host.ParseLock("x.lock", text)
	if err != nil || len(back.Plugins) != 2 || !reflect.DeepEqual(back.Plugins[0], l.Plugins[1]) || !reflect.DeepEqual(back.Plugins[1], l.Plugins[0]) {
		t.Errorf("got %+v, %v from\n%s", back, err, text)
	}
	for bad, want := range map[string]string{
		"[[plugin]]\nfile = 3": "line 2",
		"[[plugin]]\nfile = \"nczarr-driver-a\"\nsha256 = \"" + sum + "\"\nsha1 = \"x\"": `"plugin.sha1"`,
		"[[plugin]]\nfile = \"a.out\"\nsha256 = \"" + sum + "\"":                         "nczarr-driver-NAME",
		"[[plugin]]\nfile = \"nczarr-driver-a\"\nsha256 = \"abc\"":                       "64 hexadecimal digits",
	} {
		if _, err := host.ParseLock("x.lock", []byte(bad)); !errors.Is(err, ncerr.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.lock") {
			t.Errorf("%q: want %q, got %v", bad, want, err)
		}
	}
}

func FuzzLock(f *testing.F) {
	f.Add([]byte("[[plugin]]\nfile = \"nczarr-driver-a\"\nsha256 = \"" + strings.Repeat("ab", 32) + "\"\n"))
	f.Add([]byte("plugin = 1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := host.ParseLock("x", data)
		if err != nil {
			return
		}
		text, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := host.ParseLock("x", text); err != nil {
			t.Errorf("cannot parse the encoded lock file: %v\n%s", err, text)
		}
	})
}
