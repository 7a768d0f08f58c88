package config_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// files is an in-memory file system for the loaders.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	if text, ok := f[name]; ok {
		if text == "forbidden" {
			return nil, fs.ErrPermission
		}
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

const everything = `
# every key of every table
[drivers.s3]
endpoint = "http://localhost:9000"
retries = 4
ratio = 0.5
nested = { a = [1, "two", true], b.c = 3 }

[drivers.file]

[filters.blosc]
threads = 2

[plugins]
dirs = ["plugins", "/opt/nczarr/plugins"]
lock_file = "my.lock"
allow_unpinned = true
isolation = "process"
start_timeout = "1m30s"
call_timeout = "0s"
stop_timeout = "250ms"
max_restarts = 0
sandbox = "require"
roots = ["data"]
max_memory = "1GiB"

[remote]
attempts = 7
retry_budget = "90s"
call_timeout = "10m"
in_flight = 12
merge_gap = "1MiB"

[cache]
dir = "/var/cache/nczarr"
max_age = "1h"
size = 1000

[limits]
memory = "2MiB"
max_chunk = "1.5GiB"
max_metadata = "10 MB"
max_elements = 17
max_keys = 18
max_documents = "20 MB"
max_listing = "3KiB"
max_chunks = 20
max_data = "21MB"
workers = 19
`

func TestParseEverything(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("/etc/nc/config.toml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	wantPlugins := config.Plugins{
		Dirs: []string{"/etc/nc/plugins", "/opt/nczarr/plugins"}, LockFile: "/etc/nc/my.lock", AllowUnpinned: true,
		Isolation: config.IsolationProcess, StartTimeout: 90 * time.Second, StopTimeout: 250 * time.Millisecond,
		Sandbox: config.SandboxRequire, Roots: []string{"/etc/nc/data"}, MaxMemory: 1 << 30,
	}
	if !reflect.DeepEqual(c.Plugins, wantPlugins) {
		t.Errorf("plugins\nwant %+v\n got %+v", wantPlugins, c.Plugins)
	}
	if want := (config.Remote{Attempts: 7, RetryBudget: 90 * time.Second, CallTimeout: 10 * time.Minute, InFlight: 12, MergeGap: 1 << 20}); c.Remote != want {
		t.Errorf("remote: want %+v, got %+v", want, c.Remote)
	}
	if want := (config.Cache{Dir: "/var/cache/nczarr", Size: 1000, MaxAge: time.Hour}); c.Cache != want {
		t.Errorf("cache: want %+v, got %+v", want, c.Cache)
	}
	wantLimits := config.Limits{Memory: 2 << 20, MaxChunk: 3 << 29, MaxMetadata: 10_000_000, MaxElements: 17, MaxKeys: 18, MaxDocuments: 20_000_000, MaxListing: 3 << 10, MaxChunks: 20, MaxData: 21_000_000, Workers: 19}
	if c.Limits != wantLimits {
		t.Errorf("limits: want %+v, got %+v", wantLimits, c.Limits)
	}
	const wantJSON = `{"endpoint":"http://localhost:9000","nested":{"a":[1,"two",true],"b":{"c":3}},"ratio":0.5,"retries":4}`
	if got := string(c.Drivers["s3"].JSON()); got != wantJSON {
		t.Errorf("drivers.s3\nwant %s\n got %s", wantJSON, got)
	}
	if o, ok := c.Drivers["file"]; !ok || o.JSON() != nil {
		t.Errorf("drivers.file: want a table without options, got %v, %v", o, ok)
	}
	if got := string(c.Filters["blosc"].JSON()); got != `{"threads":2}` {
		t.Errorf("filters.blosc: got %s", got)
	}
	for key, want := range map[string]string{
		"drivers.s3.endpoint": "/etc/nc/config.toml:4", "limits.workers": "/etc/nc/config.toml:49", "plugins.nothing": "",
	} {
		if got := c.Where(key); got != want {
			t.Errorf("Where(%q): want %q, got %q", key, want, got)
		}
	}
}

// TestEveryKeyIsTested checks that the test document contains every key, and that every
// key is documented.
func TestEveryKeyIsTested(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("c.toml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range config.Keys() {
		if k.Type != "table" && c.Where(k.Name) == "" {
			t.Errorf("%s is not in the test document", k.Name)
		}
		if k.Doc == "" || k.Type == "" || k.Type != "table" && k.Default == "" {
			t.Errorf("%s lacks documentation: %+v", k.Name, k)
		}
	}
}

// TestDefaults checks that a file with the documented defaults changes nothing.
func TestDefaults(t *testing.T) {
	t.Parallel()
	def := config.Default()
	for _, k := range config.Keys() {
		if k.Type == "table" {
			continue
		}
		table, key, _ := strings.Cut(k.Name, ".")
		c, err := config.Parse("c.toml", []byte("["+table+"]\n"+key+" = "+k.Default+"\n"))
		if err != nil {
			t.Errorf("%s = %s: %v", k.Name, k.Default, err)
			continue
		}
		if !reflect.DeepEqual([]any{c.Plugins, c.Cache, c.Limits}, []any{def.Plugins, def.Cache, def.Limits}) {
			t.Errorf("%s = %s is not the default", k.Name, k.Default)
		}
	}
	want := config.Limits{MaxChunk: 1 << 30, MaxMetadata: 64 << 20, MaxElements: 1 << 30, MaxKeys: 1e7, MaxDocuments: 256 << 20, MaxListing: 512 << 20, MaxChunks: 1 << 28, MaxData: 16 << 40}
	if def.Limits != want {
		t.Errorf("limits: want %+v, got %+v", want, def.Limits)
	}
	if def.Plugins.Isolation != config.IsolationAuto || def.Plugins.AllowUnpinned || def.Cache.Dir != "" {
		t.Errorf("unsafe or surprising defaults: %+v %+v", def.Plugins, def.Cache)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// Syntax.
		"\nx = = 1":                `"c.toml:2": invalid argument: `,
		"a = 1\na = 2":             `"c.toml:2": invalid argument: `,
		"[limits]\nworkers = \xff": `"c.toml:2": invalid argument: `,
		// Unknown names.
		"\n\n[limit]":                                `"c.toml:3": invalid argument: unknown table or key "limit"; did you mean "limits"? (tables are drivers, filters, plugins, remote, cache, limits)`,
		"[driver.s3]\nx = 1":                         `"c.toml:1": invalid argument: unknown table or key "driver"; did you mean "drivers"?`,
		"verbose = true":                             `"c.toml:1": invalid argument: unknown table or key "verbose" (tables are`,
		"[plugins]\n\ndir = []":                      `"c.toml:3": invalid argument: unknown key "plugins.dir"; did you mean "dirs"? (keys of [plugins] are dirs, lock_file,`,
		"[cache]\nsize = 1\n[limits]\nworker = 1":    `"c.toml:4": invalid argument: unknown key "limits.worker"; did you mean "workers"?`,
		"limits.max_chunc = 1":                       `"c.toml:1": invalid argument: unknown key "limits.max_chunc"; did you mean "max_chunk"?`,
		"limits = { workers = 1, colour = \"red\" }": `"c.toml:1": invalid argument: unknown key "limits.colour" (keys of`,
		"[limits.deep]\n[limits.deep.er]\nx = 1":     `"c.toml:1": invalid argument: unknown key "limits.deep" (keys of`,
		"[limits]\nb = 1\na = 1":                     `"c.toml:2": invalid argument: unknown key "limits.b"`,
		// Wrong shapes.
		"limits = 1":              `"c.toml:1": invalid argument: "limits" must be a table`,
		"[[limits]]\nworkers = 1": `"c.toml:1": invalid argument: "limits" must be a table`,
		"[drivers]\nx = 1":        `"c.toml:2": invalid argument: drivers.x must be a table: [drivers.NAME] holds the options of NAME`,
		"[filters.Blosc]":         `"c.toml:1": invalid argument: "Blosc" is not a valid name in [filters.NAME]`,
		"[filters.\"\"]":          `"c.toml:1": invalid argument: "" is not a valid name`,
		// Wrong values.
		"[limits]\nworkers = \"two\"":          `"c.toml:2": invalid argument: limits.workers: expected an integer, found a string`,
		"[limits]\nworkers = 1.5":              `"c.toml:2": invalid argument: limits.workers: expected an integer, found a float`,
		"[limits]\nworkers = -1":               `"c.toml:2": invalid argument: limits.workers: -1 is not between 0 and 4096`,
		"[limits]\nmax_keys = 0":               `"c.toml:2": invalid argument: limits.max_keys: 0 is not between 1 and`,
		"[limits]\nmax_chunk = \"12 parsecs\"": `"c.toml:2": invalid argument: limits.max_chunk: "12 parsecs" is not a size such as "256MiB" or "4GB"`,
		"[limits]\nmax_chunk = true":           `"c.toml:2": invalid argument: limits.max_chunk: expected a size such as "256MiB", found a boolean`,
		"[limits]\nmax_chunk = 0":              `"c.toml:2": invalid argument: limits.max_chunk: a size must be positive`,
		"[limits]\nmax_chunk = \"0MiB\"":       `"c.toml:2": invalid argument: limits.max_chunk: a size must be positive`,
		"[plugins]\nallow_unpinned = 1":        `"c.toml:2": invalid argument: plugins.allow_unpinned: expected true or false, found an integer`,
		"[plugins]\nisolation = \"inproces\"":  `"c.toml:2": invalid argument: plugins.isolation: "inproces" is not one of auto, process, inproc; did you mean "inproc"?`,
		"[plugins]\nisolation = []":            `"c.toml:2": invalid argument: plugins.isolation: expected a string, found an array`,
		"[plugins]\nstart_timeout = 10":        `"c.toml:2": invalid argument: plugins.start_timeout: expected a duration such as "10s", found an integer`,
		"[plugins]\nstart_timeout = \"10\"":    `"c.toml:2": invalid argument: plugins.start_timeout: "10" is not a duration such as "10s" or "1m30s"`,
		"[plugins]\nstart_timeout = \"0s\"":    `"c.toml:2": invalid argument: plugins.start_timeout: 0s is less than the minimum of 1ms`,
		"[plugins]\ndirs = \"x\"":              `"c.toml:2": invalid argument: plugins.dirs: expected an array of paths, found a string`,
		"[plugins]\ndirs = [1]":                `"c.toml:2": invalid argument: plugins.dirs: expected an array of paths, found an integer`,
		"[plugins]\ndirs = [\"\"]":             `"c.toml:2": invalid argument: plugins.dirs: the path is empty`,
		"[plugins]\ndirs = [\"~/p\"]":          `"c.toml:2": invalid argument: plugins.dirs: "~" is not expanded; write the full path`,
		"[cache]\ndir = 1979-05-27":            `"c.toml:2": invalid argument: cache.dir: expected a path, found a date or time`,
		"[cache]\ndir = {}":                    `"c.toml:2": invalid argument: cache.dir: expected a path, found a table`,
		"[cache]\ndir = \"a\\u0000b\"":         `"c.toml:2": invalid argument: cache.dir: the path contains a NUL character`,
		"[cache]\ndir = \"~\"":                 `"c.toml:2": invalid argument: cache.dir: "~" is not expanded`,
		// Values that JSON cannot represent.
		"[drivers.x]\na = nan":            `"c.toml:2": invalid argument: drivers.x.a: a number must be finite`,
		"[drivers.x]\n\na = [[1, -inf]]":  `"c.toml:3": invalid argument: drivers.x.a: a number must be finite`,
		"[drivers.x]\na.b.c = 07:32:00":   `"c.toml:2": invalid argument: drivers.x.a: a date or time must be written as a string`,
		"[[drivers.x.a]]\nb = 1979-05-27": `"c.toml:1": invalid argument: drivers.x.a: a date or time must be written as a string`,
	} {
		_, err := config.Parse("c.toml", []byte(text))
		if err == nil {
			t.Errorf("%q: want error %q, got nil", text, want)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "read configuration "+want) || strings.Contains(got, "\n") {
			t.Errorf("%q\nwant %q\n got %q", text, want, got)
		}
		if ncerr.KindOf(err) != ncerr.ErrInvalid {
			t.Errorf("%q: want kind ErrInvalid, got %s", text, ncerr.KindOf(err).Name())
		}
	}
	_, err := config.Parse("c.toml", make([]byte, 1<<16+1))
	if ncerr.KindOf(err) != ncerr.ErrLimit {
		t.Errorf("a huge file: want ErrLimit, got %v", err)
	}
	_, err = config.Parse("c.toml", []byte("\n#"+strings.Repeat("x", 1<<11)))
	if ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), `"c.toml:2"`) {
		t.Errorf("a huge line: want ErrLimit at c.toml:2, got %v", err)
	}
}

// TestNoValueInDriverErrors checks that errors do not contain the values of driver
// options, which may be secret.
func TestNoValueInDriverErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"[drivers.s3]\nsecret = [\"hunter2\", nan]", "[drivers]\ns3 = \"hunter2\"", "[drivers.S3]\nsecret = \"hunter2\"",
		"[cache]\nsize = [\"hunter2\"]",
	} {
		if _, err := config.Parse("c.toml", []byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		explicit string
		env      config.Env
		want     []config.Source
	}{
		"nothing known": {"", config.Env{}, nil},
		"home":          {"", config.Env{Home: "/h"}, []config.Source{{"/h/.config/nczarr/config.toml", false}}},
		"xdg": {
			"",
			config.Env{Home: "/h", Vars: map[string]string{"XDG_CONFIG_HOME": "/x"}},
			[]config.Source{{"/x/nczarr/config.toml", false}},
		},
		"relative xdg": {
			"",
			config.Env{Home: "/h", Vars: map[string]string{"XDG_CONFIG_HOME": "x"}},
			[]config.Source{{"/h/.config/nczarr/config.toml", false}},
		},
		"all": {
			"flag.toml",
			config.Env{Home: "/h", Cwd: "/w", Vars: map[string]string{"NCZARR_CONFIG": "/e.toml"}},
			[]config.Source{{"/h/.config/nczarr/config.toml", false}, {"/e.toml", true}, {"/w/flag.toml", true}},
		},
	} {
		if got := config.Files(c.explicit, c.env); !slices.Equal(got, c.want) {
			t.Errorf("%s: want %v, got %v", name, c.want, got)
		}
	}
}

func TestLoadMerges(t *testing.T) {
	t.Parallel()
	disk := files{
		"/low.toml":      "[drivers.s3]\na = 1\nb = 1\n[filters.f]\nx = 1\n[plugins]\ndirs = [\"one\", \"two\"]\nmax_restarts = 7\n[limits]\nworkers = 1",
		"/sub/high.toml": "[drivers.s3]\nb = 2\n[drivers.zip]\nc = 3\n[plugins]\ndirs = [\"three\"]\n[limits]\nmax_keys = 2",
		"/bad.toml":      "[limits]\n\nx = 1",
		"/no.toml":       "forbidden",
	}
	c, err := config.Load([]config.Source{{"/missing.toml", false}, {"/low.toml", true}, {"/sub/high.toml", true}}, disk.read)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"s3": `{"a":1,"b":2}`, "zip": `{"c":3}`} {
		if got := string(c.Drivers[name].JSON()); got != want {
			t.Errorf("drivers.%s: want %s, got %s", name, want, got)
		}
	}
	if !slices.Equal(c.Plugins.Dirs, []string{"/sub/three"}) || c.Plugins.MaxRestarts != 7 || c.Limits.Workers != 1 || c.Limits.MaxKeys != 2 {
		t.Errorf("merged: %+v %+v", c.Plugins, c.Limits)
	}
	if got := c.Where("drivers.s3.a") + " " + c.Where("drivers.s3.b"); got != "/low.toml:2 /sub/high.toml:2" {
		t.Errorf("Where: %s", got)
	}
	if got := c.LockPath(); got != filepath.Join("/sub", "plugins.lock") {
		t.Errorf("LockPath: %s", got)
	}
	for path, want := range map[string]ncerr.Kind{
		"/gone.toml": ncerr.ErrInvalid, "/bad.toml": ncerr.ErrInvalid, "/no.toml": ncerr.ErrPermission,
	} {
		_, err := config.Load([]config.Source{{path, true}}, disk.read)
		if ncerr.KindOf(err) != want {
			t.Errorf("%s: want kind %s, got %v", path, want.Name(), err)
		}
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s is not in the error: %v", path, err)
		}
	}
}

func TestLockPath(t *testing.T) {
	t.Parallel()
	c, err := config.Load([]config.Source{{"/h/nczarr/config.toml", false}}, files{}.read)
	if err != nil || c.LockPath() != "/h/nczarr/plugins.lock" {
		t.Errorf("no file: want /h/nczarr/plugins.lock, got %v, %v", c.LockPath(), err)
	}
	if got := config.Default().LockPath(); got != "" {
		t.Errorf("without sources: want an empty path, got %q", got)
	}
	c, err = config.Parse("/e/c.toml", []byte("[plugins]\nlock_file = \"l\""))
	if err != nil || c.LockPath() != "/e/l" {
		t.Errorf("lock_file: want /e/l, got %v, %v", c.LockPath(), err)
	}
}

// TestLoadFromDisk checks Load with os.ReadFile.
func TestLoadFromDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "c.toml")
	if err := os.WriteFile(name, []byte("[cache]\ndir = \"c\""), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load([]config.Source{{filepath.Join(dir, "none"), false}, {name, true}}, os.ReadFile)
	if err != nil || c.Cache.Dir != filepath.Join(dir, "c") {
		t.Errorf("want the cache in %s, got %+v, %v", dir, c, err)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	good := map[string]config.Size{
		"0": 0, "1": 1, "17B": 17, "1kB": 1000, "1KB": 1000, "1KiB": 1024, "256MiB": 256 << 20, "2 GB": 2e9, "1.5GiB": 3 << 29,
		"0.1kB": 100, "3TiB": 3 << 40, "64M": 64 << 20, "10k": 10 << 10, "2G": 2 << 30, "1TB": 1e12, "9223372036854775807": 1<<63 - 1, "8388607TiB": 8388607 << 40,
	}
	for text, want := range good {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q): want %d, got %d, %v", text, want, got, err)
		}
	}
	for _, text := range []string{
		"", "MiB", "-1", "+1", "1.5", "1.5B", "1e3", "1 ", " 1", "1  MiB", "1mib", "1m", "0x10", "1.MiB", ".5MiB", "1..5MiB",
		"8388608TiB", "9223372036854775808", "99999999999999999999TiB", "1MiB2", "NaNMiB", "١MiB",
	} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
	for _, s := range slices.Sorted(maps.Values(good)) {
		if back, err := config.ParseSize(s.String()); err != nil || back != s {
			t.Errorf("%d prints as %q, which parses as %d, %v", int64(s), s, back, err)
		}
	}
	if got := config.Size(256 << 20).String(); got != "256MiB" {
		t.Errorf("want 256MiB, got %s", got)
	}
}

// TestGrants checks Options.Grants.
func TestGrants(t *testing.T) {
	t.Parallel()
	grants, rest, err := config.Options{"grants": []any{"network", "env:X"}, "level": int64(3)}.Grants()
	if err != nil || len(grants) != 2 || grants[1] != "env:X" || string(rest.JSON()) != `{"level":3}` {
		t.Errorf("got %q, %v, %v", grants, rest, err)
	}
	for _, bad := range []any{"network", []any{"network", int64(1)}, int64(1)} {
		if _, _, err := (config.Options{"grants": bad}).Grants(); !errors.Is(err, ncerr.ErrInvalid) {
			t.Errorf("%v: want ErrInvalid, got %v", bad, err)
		}
	}
	if grants, rest, err := (config.Options{"a": true}).Grants(); grants != nil || len(rest) != 1 || err != nil {
		t.Errorf("got %q, %v, %v", grants, rest, err)
	}
}

// TestBadTOMLShowsNoSecret checks that the error for a file with invalid TOML does not
// repeat any part of the file.
func TestBadTOMLShowsNoSecret(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"password=hunter2", `password="hunter2`, "password=12hunter2", "password='hunter2", `password="a\hunter2"`, "password hunter2",
		`password="x" hunter2`, `password=[hunter2]`, "password=2024-13-13hunter2", "password=0xhunter2", "password=99999999999999999999hunter2",
		`password="it's \"hunter2\" \q"`, "password=hunter2'x", "password=99999999999999999999",
	} {
		_, err := config.Parse("f.toml", []byte("[drivers.http]\n"+line+"\n"))
		if ncerr.KindOf(err) != ncerr.ErrInvalid || !strings.Contains(err.Error(), "f.toml:2") {
			t.Errorf("%s: want ErrInvalid at f.toml:2, got %v", line, err)
		}
		if text := err.Error(); strings.Contains(text, "hunter") || strings.Contains(text, "99999") {
			t.Errorf("%s: the error contains the value: %v", line, err)
		}
	}
}
