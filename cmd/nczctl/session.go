package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// session is what a command needs to open datasets: settings, and the host of
// the plugins.
type session struct {
	cfg    *config.Config
	urlEnv *ncurl.Env
	host   *host.Host
	stats  *layer.Stats     // requests to stores
	cached layer.CacheStats // what the local cache did
}

// start makes the session at its first use. url is the command's dataset: a
// log key in its fragment turns logging on.
func (a *app) start(_ context.Context, url string) (*session, error) {
	if a.session != nil {
		return a.session, nil
	}
	if err := a.startLog(url); err != nil {
		return nil, err
	}
	env := a.surroundings()
	cfg, err := config.Load(config.Files(a.flags.config, env), os.ReadFile)
	if err != nil {
		return nil, err
	}
	s := &session{cfg: cfg, urlEnv: a.urlSettings(env), stats: layer.NewStats()}
	s.urlEnv.S3Endpoint, _ = cfg.Drivers[ncurl.DriverS3]["endpoint"].(string) // another type is the driver's to refuse
	if s.host, err = a.startHost(cfg); err != nil {
		return nil, err
	}
	a.session = s
	return s, nil
}

// surroundings collects what the configuration files depend on.
func (a *app) surroundings() config.Env {
	home, _ := os.UserHomeDir() // without one its files are not looked for
	cwd, _ := os.Getwd()
	env := config.Env{Home: home, Cwd: cwd, Vars: make(map[string]string)}
	for _, line := range os.Environ() {
		if name, value, ok := strings.Cut(line, "="); ok {
			env.Vars[name] = value
		}
	}
	return env
}

// urlSettings reads the files that URL inference depends on. What is wrong in
// them is told, and does not stop: they are shared with other programs.
func (a *app) urlSettings(env config.Env) *ncurl.Env {
	u := &ncurl.Env{Cwd: env.Cwd, Vars: env.Vars, Profiles: make(map[string]ncurl.Profile)}
	files := config.RCFiles(env)
	for i := range files {
		files[i].Local = files[i].Local && !a.flags.localRC
	}
	rc, problems := config.LoadRC(files, config.ReadFile)
	for _, e := range rc {
		u.RC = append(u.RC, ncurl.RCEntry(e))
	}
	profiles, more := config.LoadAWS(config.AWSFiles(env), config.ReadFile)
	for name, p := range profiles {
		u.Profiles[name] = ncurl.Profile(p)
	}
	for _, err := range append(problems, more...) {
		a.warn("%v", err)
	}
	return u
}

// isolationVar is the environment variable that takes the place of
// --isolation.
const isolationVar = "NCZARR_ISOLATION"

// isolation is where drivers and filters run: as the flag says, else the
// environment, else the configuration.
func (a *app) isolation(cfg *config.Config) string {
	if a.flags.isolation != "" {
		return a.flags.isolation
	}
	if v := a.env(isolationVar); v != "" {
		return v
	}
	return string(cfg.Plugins.Isolation)
}

// startHost makes the registry of drivers and filters.
func (a *app) startHost(cfg *config.Config) (*host.Host, error) {
	o, err := a.hostOptions(cfg)
	if err != nil {
		return nil, err
	}
	return host.New(o)
}

// hostOptions returns what flags and configuration say of drivers and filters.
func (a *app) hostOptions(cfg *config.Config) (*host.Options, error) {
	mode, err := host.ParseIsolation(a.isolation(cfg))
	if err != nil {
		return nil, &usageError{err}
	}
	lock, err := readLock(cfg.LockPath())
	if err != nil {
		return nil, err
	}
	o := &host.Options{
		Self: a.self, Isolation: mode, Dirs: append(a.flags.pluginDir, cfg.Plugins.Dirs...), Lock: lock,
		Only: a.onlyPlugin, AllowUnpinned: a.flags.unpinned || cfg.Plugins.AllowUnpinned, Logger: a.log,
		StartTimeout: cfg.Plugins.StartTimeout, StopTimeout: max(cfg.Plugins.StopTimeout, time.Nanosecond),
		Sandbox: host.Sandbox(cfg.Plugins.Sandbox), Roots: cfg.Plugins.Roots,
		MaxMemory: orNone(int64(cfg.Plugins.MaxMemory)), MaxRestarts: int(orNone(int64(cfg.Plugins.MaxRestarts))), CallTimeout: time.Duration(orNone(int64(cfg.Plugins.CallTimeout))),
	}
	if a.flags.requireSandbox {
		o.Sandbox = host.SandboxRequire
	}
	if err := grantedBy(cfg, o); err != nil {
		return nil, err
	}
	return o, nil
}

// orNone gives the host's way to say none, which is negative, for the
// configuration's, which is zero.
func orNone(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

// grantedBy takes over what the tables of drivers and filters say: options
// and grants.
func grantedBy(cfg *config.Config, o *host.Options) error {
	o.Defaults = make(map[string]json.RawMessage)
	o.DriverGrants, o.FilterGrants = make(map[string][]string), make(map[string][]string)
	for name, table := range cfg.Drivers {
		grants, rest, err := checkedGrants(cfg, "drivers."+name, table)
		if err != nil {
			return err
		}
		o.Defaults[name], o.DriverGrants[name] = rest.JSON(), grants
	}
	for name, table := range cfg.Filters {
		grants, rest, err := checkedGrants(cfg, "filters."+name, table)
		if err != nil {
			return err
		}
		for key := range rest {
			return ncerr.Errorf(ncerr.ErrInvalid, "read configuration", cfg.Where("filters."+name+"."+key), "unknown key %q: a filter's table has grants only", key)
		}
		o.FilterGrants[name] = grants
	}
	return nil
}

func checkedGrants(cfg *config.Config, table string, o config.Options) ([]string, config.Options, error) {
	grants, rest, err := o.Grants()
	for _, text := range grants {
		if err == nil {
			_, err = driver.ParseGrant(text)
		}
	}
	if err != nil {
		return nil, nil, ncerr.New(ncerr.ErrInvalid, "read configuration", cfg.Where(table+".grants"), err)
	}
	return grants, rest, nil
}

// readLock reads the lock file of the plugins; one that is not there pins
// nothing.
func readLock(path string) (*host.Lock, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &inputError{"read", path, err}
	}
	return host.ParseLock(path, data)
}

// options gives the options of opening a dataset.
func (s *session) options(a *app) *nczarr.Options {
	limits := s.cfg.Limits
	o := &nczarr.Options{
		Registry: s.host, URLEnv: s.urlEnv, Log: a.log, Workers: limits.Workers, SingleWriter: true,
		UseConsolidated: a.flags.consolidated.use,
		Limits: nczarr.Limits{
			MaxMetadata: int64(limits.MaxMetadata), MaxDocuments: int64(limits.MaxDocuments), MaxChunk: int64(limits.MaxChunk),
			MaxElements: limits.MaxElements, MaxChunks: limits.MaxChunks, MaxData: int64(limits.MaxData),
			MaxKeys: int(min(limits.MaxKeys, math.MaxInt32)), MaxListing: int64(limits.MaxListing),
		},
	}
	// The library has to see what is set: it adds what a format asks for.
	o.DriverOptions = make(map[string][]byte)
	for name, options := range s.cfg.Drivers {
		_, rest, _ := options.Grants() // checked at the start
		o.DriverOptions[name] = rest.JSON()
	}
	o.Wrap = func(m driver.Map) driver.Map {
		m = layer.Measure(m, s.stats)
		if a.tracing {
			m = layer.Log(m, a.log)
		}
		return m
	}
	o.Remote, o.MergeGap = s.remote(a), int64(s.cfg.Remote.MergeGap)
	return o
}

// remote gives the options for stores that take their time.
func (s *session) remote(a *app) layer.RemoteOptions {
	r := s.cfg.Remote
	o := layer.RemoteOptions{
		Retry:       layer.RetryOptions{Attempts: r.Attempts, Budget: r.RetryBudget},
		CallTimeout: r.CallTimeout, InFlight: r.InFlight,
	}
	o.Retry.OnRetry = func(op, key string, err error, wait time.Duration) {
		s.stats.Retried(op, key, err, wait)
		a.log.Debug("retry", "op", op, "key", key, "wait", wait, "error", err)
	}
	if c := s.cfg.Cache; c.Dir != "" {
		o.Cache = &layer.CacheOptions{Dir: c.Dir, Size: int64(c.Size), MaxAge: c.MaxAge, Stats: &s.cached, Identity: reader(a.surroundings().Vars)}
	}
	return o
}

// reader names who reads, by the variables that drivers find logins through.
// The cache writes only a hash of it.
func reader(vars map[string]string) string {
	secrets := []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"}
	var who []string
	for name, value := range vars {
		aws := strings.HasPrefix(name, "AWS_") && !slices.Contains(secrets, name)
		if aws || name == "NC_TEST_AWS_DIR" || name == "HOME" || name == "NETRC" {
			who = append(who, name+"="+value)
		}
	}
	slices.Sort(who)
	return fmt.Sprintf("%q", who)
}

// close ends what the session started.
func (a *app) close(ctx context.Context) error {
	var err error
	if a.session != nil {
		// A cancelled command still stops its plugins, within bounds.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = a.session.host.Close(end)
	}
	if a.logFile != nil {
		err = errors.Join(err, a.logFile.Close())
	}
	return err
}

// logFileVar is the environment variable that takes the place of --log-file.
const logFileVar = "NCZARR_LOG_FILE"

// startLog sets up the one log that --trace, --log-file, the fragment key log,
// NCLOGGING and NCTRACING feed. Only the flag and the environment name a file:
// a URL may come from somebody else.
//
// Source: netcdf-c nclog.c (the variables).
func (a *app) startLog(url string) error {
	level, on := a.logLevel()
	name := a.flags.logFile
	if name == "" {
		name = a.env(logFileVar)
	}
	asked, named := logInFragment(url)
	if named {
		a.warn("a URL cannot name a log file: the log goes to standard error, or to the file of --log-file")
	}
	if !on && (asked || name != "") {
		level, on = slog.LevelInfo, true
	}
	if !on {
		a.log = slog.New(&warnings{a: a})
		return nil
	}
	out := a.err
	if name != "" {
		f, err := openLog(name)
		if err != nil {
			return &inputError{"open log", name, err}
		}
		a.logFile, out = f, f
	}
	a.tracing = level <= slog.LevelDebug
	a.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	return nil
}

// logInFragment reports whether the fragment of a URL asks for a log, and
// whether it names a file for it.
func logInFragment(url string) (asked, named bool) {
	_, fragment, _ := strings.Cut(url, "#")
	for item := range strings.SplitSeq(fragment, "&") {
		if key, file, _ := strings.Cut(item, "="); strings.EqualFold(key, "log") {
			asked, named = true, named || file != ""
		}
	}
	return asked, named
}

// openLog opens a log to append to, for its owner alone where it is new. It
// follows no link and takes only a regular file, so that it never waits.
func openLog(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY|openAsIs, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("this is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// logLevel gives the level that flags and environment ask for.
func (a *app) logLevel() (slog.Level, bool) {
	if a.flags.trace {
		return slog.LevelDebug, true
	}
	if text := a.env("NCTRACING"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			if n >= 3 {
				return slog.LevelDebug, true
			}
			return slog.LevelInfo, n > 0
		}
	}
	switch text := strings.ToLower(a.env("NCLOGGING")); text {
	case "", "0", "off", "false", "no":
		return 0, false
	case "error", "err":
		return slog.LevelError, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "debug", "trace":
		return slog.LevelDebug, true
	default:
		return slog.LevelInfo, true
	}
}

// warnings is the log when nobody asked for one: warnings become plain lines
// for people, the rest is dropped.
type warnings struct {
	slog.Handler
	a     *app
	attrs []slog.Attr
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && !w.a.flags.quiet || l >= host.LevelAlert
}

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "left out" { // the command reports these itself, as errors
		return nil
	}
	text := "warning: " + r.Message
	add := func(at slog.Attr) bool {
		text += " " + at.Key + "=" + strconv.Quote(at.Value.String())
		return true
	}
	for _, at := range w.attrs {
		add(at)
	}
	r.Attrs(add)
	if r.Level >= host.LevelAlert {
		fmt.Fprintln(w.a.err, "nczctl: "+text) // also with --quiet
		return nil
	}
	w.a.warn("%s", text)
	return nil
}

func (w *warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warnings{a: w.a, attrs: append(w.attrs[:len(w.attrs):len(w.attrs)], attrs...)}
}

func (w *warnings) WithGroup(string) slog.Handler { return w }
