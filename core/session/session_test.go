package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/session"
)

var self plugin.Self

func TestMain(m *testing.M) {
	self = session.Main()
	os.Exit(m.Run())
}

// machine is the environment of one test. A configuration file with no text does not
// exist.
type machine struct {
	dir  string
	user string // the user's configuration file
	file string // the file of $NCZARR_CONFIG
	last string // the file of Options.Config
	vars map[string]string
	opts session.Options
}

// open creates a session with the home directory dir/home and the current directory
// dir/cwd.
func (m machine) open(t *testing.T) (*session.Session, error) {
	t.Helper()
	env := &config.Env{Home: filepath.Join(m.dir, "home"), Cwd: filepath.Join(m.dir, "cwd"), Vars: map[string]string{}}
	for name, value := range m.vars {
		env.Vars[name] = value
	}
	put(t, m.dir, "home/.config/nczarr/config.toml", m.user)
	if m.file != "" {
		env.Vars["NCZARR_CONFIG"] = put(t, m.dir, "env.toml", m.file)
	}
	if m.last != "" {
		m.opts.Config = put(t, m.dir, "last.toml", m.last)
	}
	m.opts.Env = env
	s, err := session.New(&m.opts)
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

// put writes a file and returns its path. It writes nothing if text is empty.
func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if text == "" {
		return path
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestPrecedence sets an option in several places and checks which value is used.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	isolation := func(s *session.Session) any { return s.HostOptions().Isolation }
	chunk := func(s *session.Session) any { return s.Options().Limits.MaxChunk }
	sandbox := func(s *session.Session) any { return s.HostOptions().Sandbox }
	unpinned := func(s *session.Session) any { return s.HostOptions().AllowUnpinned }
	process, inproc := "[plugins]\nisolation = \"process\"\n", "[plugins]\nisolation = \"inproc\"\n"
	for name, tc := range map[string]struct {
		machine
		got  func(*session.Session) any
		want any
	}{
		"isolation by default":                 {machine{opts: session.Options{Self: self}}, isolation, host.Auto},
		"isolation by default, without Main":   {machine{}, isolation, host.InProcess},
		"isolation of the user's file":         {machine{user: process}, isolation, host.Process},
		"isolation of the second file":         {machine{user: inproc, file: process}, isolation, host.Process},
		"isolation of the last file":           {machine{user: inproc, file: inproc, last: process}, isolation, host.Process},
		"isolation of the environment":         {machine{last: inproc, vars: map[string]string{"NCZARR_ISOLATION": "process"}}, isolation, host.Process},
		"isolation of the options":             {machine{last: inproc, vars: map[string]string{"NCZARR_ISOLATION": "inproc"}, opts: session.Options{Isolation: "process"}}, isolation, host.Process},
		"a limit by default":                   {machine{}, chunk, int64(1 << 30)},
		"a limit of the last file that has it": {machine{user: "limits.max_chunk = 1", file: "limits.max_chunk = 2", last: "limits.workers = 3"}, chunk, int64(2)},
		"workers":                              {machine{user: "limits.workers = 3"}, func(s *session.Session) any { return s.Options().Workers }, 3},
		"unpinned by default":                  {machine{}, unpinned, false},
		"unpinned in the file":                 {machine{user: "plugins.allow_unpinned = true"}, unpinned, true},
		"unpinned in the options":              {machine{user: "plugins.allow_unpinned = false", opts: session.Options{AllowUnpinned: true}}, unpinned, true},
		"the sandbox of the file":              {machine{user: "plugins.sandbox = \"off\""}, sandbox, host.SandboxOff},
		"the sandbox of the options":           {machine{user: "plugins.sandbox = \"off\"", opts: session.Options{RequireSandbox: true}}, sandbox, host.SandboxRequire},
		"directories of plugins": {
			machine{user: "plugins.dirs = [\"/b\"]", opts: session.Options{PluginDirs: []string{"/a"}}},
			func(s *session.Session) any { return strings.Join(s.HostOptions().Dirs, " ") }, "/a /b",
		},
		"no time-out of calls": {
			machine{user: "plugins.call_timeout = \"0s\""},
			func(s *session.Session) any { return s.HostOptions().CallTimeout < 0 }, true,
		},
		"retries": {
			machine{user: "remote.attempts = 9", file: "remote.in_flight = 7"},
			func(s *session.Session) any {
				r := s.Options().Remote
				return fmt.Sprint(r.Retry.Attempts, r.InFlight, r.Cache)
			},
			"9 7 <nil>",
		},
		"options of drivers": {
			machine{user: "[drivers.s3]\nendpoint = \"http://a\"\nregion = \"r\"\ngrants = [\"tcp:9000\"]", file: "drivers.s3.endpoint = \"http://b\""},
			func(s *session.Session) any {
				h := s.HostOptions()
				return fmt.Sprintf("%s %s %s %s", s.Options().DriverOptions["s3"], h.Defaults["s3"], h.DriverGrants["s3"], s.Options().URLEnv.S3Endpoint)
			},
			`{"endpoint":"http://b","region":"r"} {"endpoint":"http://b","region":"r"} [tcp:9000] http://b`,
		},
		"grants of filters": {
			machine{user: "filters.x.grants = [\"env:TOKEN\"]"},
			func(s *session.Session) any { return fmt.Sprint(s.HostOptions().FilterGrants["x"]) }, "[env:TOKEN]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.dir = t.TempDir()
			s, err := tc.open(t)
			if err != nil {
				t.Fatal(err)
			}
			if got := tc.got(s); got != tc.want {
				t.Errorf("want %v, got %v", tc.want, got)
			}
		})
	}
}

// TestErrors checks the kind of each error, and that the error contains the file and the
// key.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machine
		kind ncerr.Kind
		want string // DIR is replaced by the directory of the machine
	}{
		"a bad value":                     {machine{file: "\n[limits]\nmax_chunk = true"}, ncerr.ErrInvalid, `"DIR/env.toml:3": invalid argument: limits.max_chunk: expected a size`},
		"an unknown key":                  {machine{last: "plugins.isolatoin = \"auto\""}, ncerr.ErrInvalid, `"DIR/last.toml:1": invalid argument: unknown key "plugins.isolatoin"; did you mean "isolation"?`},
		"a missing file":                  {machine{opts: session.Options{Config: "none.toml"}}, ncerr.ErrInvalid, `"DIR/cwd/none.toml"`},
		"grants of no list":               {machine{user: "[drivers.s3]\ngrants = 1"}, ncerr.ErrInvalid, `"DIR/home/.config/nczarr/config.toml:2": read configuration "grants": invalid argument: the value is not a list of strings`},
		"a grant of nothing":              {machine{user: "[drivers.s3]\ngrants = [\"moon\"]"}, ncerr.ErrInvalid, `config.toml:2"`},
		"a filter's options":              {machine{user: "[filters.zlib]\nlevel = 3"}, ncerr.ErrInvalid, `config.toml:2": invalid argument: unknown key "level": the table of a filter has only the key grants`},
		"an isolation":                    {machine{opts: session.Options{Isolation: "wat"}}, ncerr.ErrInvalid, `parse isolation "wat": invalid argument: must be auto, process or inproc`},
		"the environment's":               {machine{vars: map[string]string{"NCZARR_ISOLATION": "wat"}}, ncerr.ErrInvalid, `parse isolation "wat"`},
		"a lock file":                     {machine{user: "plugins.lock_file = \"../../bad.lock\""}, ncerr.ErrInvalid, `read lock file "DIR/home/bad.lock"`},
		"a lock file that cannot be read": {machine{user: "plugins.lock_file = \"..\""}, ncerr.ErrIO, `read DIR/home/.config: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.dir = t.TempDir()
			put(t, tc.dir, "home/bad.lock", "plugin = 3")
			_, err := tc.open(t)
			if got := ncerr.KindOf(err); got != tc.kind {
				t.Errorf("want kind %s, got %v", tc.kind.Name(), err)
			}
			if want := strings.ReplaceAll(tc.want, "DIR", filepath.ToSlash(tc.dir)); err != nil && !strings.Contains(filepath.ToSlash(err.Error()), want) {
				t.Errorf("want %s\n got %v", want, err)
			}
		})
	}
}

// TestLog checks where records of each level are written.
func TestLog(t *testing.T) {
	t.Parallel()
	const url = "x.zarr#mode=zarr&Log"
	for name, tc := range map[string]struct {
		vars map[string]string
		opts session.Options // LogFile is relative to the directory of the machine
		want string          // levels of the records and where they are written
	}{
		"nobody asks":             {nil, session.Options{}, "INFO WARN: logger"},
		"nothing turns it off":    {map[string]string{"NCTRACING": "0", "NCLOGGING": "off"}, session.Options{}, "INFO WARN: logger"},
		"Trace":                   {map[string]string{"NCTRACING": "1"}, session.Options{Trace: true}, "DEBUG INFO WARN: output"},
		"NCTRACING":               {map[string]string{"NCTRACING": "3"}, session.Options{}, "DEBUG INFO WARN: output"},
		"NCTRACING and NCLOGGING": {map[string]string{"NCTRACING": "1", "NCLOGGING": "debug"}, session.Options{}, "INFO WARN: output"},
		"NCTRACING is no number":  {map[string]string{"NCTRACING": "x", "NCLOGGING": "Warn"}, session.Options{}, "WARN: output"},
		"NCLOGGING":               {map[string]string{"NCLOGGING": "notes"}, session.Options{}, "INFO WARN: output"},
		"NCLOGGING and URL":       {map[string]string{"NCLOGGING": "error"}, session.Options{URL: url}, ": output"},
		"URL":                     {nil, session.Options{URL: url}, "INFO WARN: output"},
		"LogFile":                 {map[string]string{"NCZARR_LOG_FILE": "/no/such/file"}, session.Options{LogFile: "a"}, "INFO WARN: a"},
		"LogFile and Trace":       {nil, session.Options{LogFile: "a", Trace: true}, "DEBUG INFO WARN: a"},
		"NCZARR_LOG_FILE":         {map[string]string{"NCZARR_LOG_FILE": "DIR/b"}, session.Options{}, "INFO WARN: b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine{dir: t.TempDir(), vars: map[string]string{}, opts: tc.opts}
			for name, value := range tc.vars {
				m.vars[name] = strings.ReplaceAll(value, "DIR", m.dir)
			}
			if m.opts.LogFile != "" {
				m.opts.LogFile = filepath.Join(m.dir, m.opts.LogFile)
			}
			var output, logger bytes.Buffer
			m.opts.LogOutput, m.opts.Logger = &output, slog.New(slog.NewTextHandler(&logger, nil))
			s, err := m.open(t)
			if err != nil {
				t.Fatal(err)
			}
			o := s.Options()
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
				o.Log.Log(t.Context(), level, "said")
			}
			places := map[string]string{"output": output.String(), "logger": logger.String()}
			for _, name := range []string{"a", "b"} {
				text, _ := os.ReadFile(filepath.Join(m.dir, name)) // most of the files do not exist
				places[name] = string(text)
			}
			levels, where, _ := strings.Cut(tc.want, ": ")
			for name, text := range places {
				var got []string
				for line := range strings.Lines(text) {
					_, rest, _ := strings.Cut(line, "level=")
					level, _, _ := strings.Cut(rest, " ")
					got = append(got, level)
				}
				want := ""
				if name == where {
					want = levels
				}
				if got := strings.Join(got, " "); got != want {
					t.Errorf("%s: want %q, got %q", name, want, got)
				}
			}
		})
	}
}

// TestLogFileError checks that the error for a log file that cannot be opened is an
// fs.PathError with operation "open log".
func TestLogFileError(t *testing.T) {
	t.Parallel()
	m := machine{dir: t.TempDir()}
	m.opts.LogFile = filepath.Join(m.dir, "none", "log")
	_, err := m.open(t)
	var file *fs.PathError
	if !errors.As(err, &file) || file.Op != "open log" || file.Path != m.opts.LogFile || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want open log %s: file does not exist, got %v", m.opts.LogFile, err)
	}
	m.opts.LogFile = m.dir
	if _, err := m.open(t); !errors.As(err, &file) {
		t.Errorf("want a PathError for a directory, got %v", err)
	}
}

// TestWarnings checks that ignored parts of shared files and of the URL are passed to
// Warn, or else are logged.
func TestWarnings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "cwd/.ncrc", "AWS.ENDPOINT=https://evil.example\n")
	open := func(localRC, warn bool) (warned []string, logged string, rc int) {
		var log bytes.Buffer
		m := machine{dir: dir}
		m.opts = session.Options{LocalRC: localRC, URL: "x#log=file", LogOutput: &bytes.Buffer{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if warn {
			m.opts.Warn = func(err error) { warned = append(warned, err.Error()) }
		} else {
			m.opts.URL = ""
		}
		s, err := m.open(t)
		if err != nil {
			t.Fatal(err)
		}
		return warned, log.String(), len(s.Options().URLEnv.RC)
	}
	warned, logged, rc := open(false, true)
	if len(warned) != 2 || !strings.Contains(warned[0], "a URL cannot name a log file") || !strings.Contains(warned[1], "AWS.ENDPOINT ignored") || logged != "" || rc != 0 {
		t.Errorf("want two warnings and no entry, got %q, log %q, %d entries", warned, logged, rc)
	}
	if warned, logged, rc = open(true, true); len(warned) != 1 || logged != "" || rc != 1 {
		t.Errorf("LocalRC: want one warning and one entry, got %q, log %q, %d entries", warned, logged, rc)
	}
	if _, logged, _ = open(false, false); !strings.Contains(logged, "level=WARN") || !strings.Contains(logged, "AWS.ENDPOINT ignored") {
		t.Errorf("want a warning in the log, got %q", logged)
	}
}

// TestCache checks that readers with different logins have different identities, and
// that the identity contains no secret.
func TestCache(t *testing.T) {
	t.Parallel()
	identity := func(vars map[string]string) string {
		m := machine{dir: t.TempDir(), vars: vars, user: "[cache]\ndir = \"c\"\nsize = 5"}
		s, err := m.open(t)
		if err != nil {
			t.Fatal(err)
		}
		c := s.Options().Remote.Cache
		if c == nil || c.Dir != filepath.Join(m.dir, "home", ".config", "nczarr", "c") || c.Size != 5 || c.Stats != s.CacheStats() {
			t.Fatalf("unexpected cache options: %+v", c)
		}
		return c.Identity
	}
	one := identity(map[string]string{"AWS_PROFILE": "one", "AWS_SECRET_ACCESS_KEY": "secret", "LANG": "C"})
	two := identity(map[string]string{"AWS_PROFILE": "two"})
	if again := identity(map[string]string{"AWS_PROFILE": "one"}); one == two || one != again || strings.Contains(one, "secret") {
		t.Errorf("want distinct identities for profiles one and two, and the first one again, got %s, %s and %s", one, two, again)
	}
}

// TestOptionsAreNew checks that changing the returned options does not change the
// session.
func TestOptionsAreNew(t *testing.T) {
	t.Parallel()
	s, err := machine{dir: t.TempDir(), user: "drivers.file.durability = \"fsync\""}.open(t)
	if err != nil {
		t.Fatal(err)
	}
	o, h := s.Options(), s.HostOptions()
	o.Update, o.DriverOptions["file"], h.Poison = true, nil, true
	if o, h := s.Options(), s.HostOptions(); o.Update || o.DriverOptions["file"] == nil || h.Poison {
		t.Errorf("the session changed: %+v", o)
	}
}

// TestProcesses creates and reads a dataset with drivers and filters in separate
// processes, and checks that Close ends them.
func TestProcesses(t *testing.T) {
	t.Parallel()
	m := machine{dir: t.TempDir(), user: "plugins.start_timeout = \"5m\"", opts: session.Options{Self: self, Isolation: "process", Trace: true}}
	var output bytes.Buffer // read after all logging processes have ended
	m.opts.LogOutput = &output
	s, err := m.open(t)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.dir, "x.zarr")
	if err := makeOcean(t.Context(), path, s.Options()); err != nil {
		t.Fatal(err)
	}
	ds, err := open.Open(t.Context(), path, s.Options())
	if err != nil {
		t.Fatal(err)
	}
	if err := ds.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := func() (n int) {
		for _, p := range s.Host().Plugins() {
			if p.PID != 0 {
				n++
			}
		}
		return n
	}
	var stats strings.Builder
	if err := s.Stats().Print(&stats); err != nil || running() == 0 || !strings.Contains(stats.String(), "put") {
		t.Errorf("want running processes and a put in the statistics, got %d processes, error %v, statistics %q", running(), err, stats.String())
	}
	if err := s.Close(); err != nil || running() != 0 || !strings.Contains(output.String(), "op=put") {
		t.Errorf("after Close: want no processes and a put in the log, got %d processes, error %v, log %q", running(), err, output.String())
	}
}
