package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// Options override the environment and the configuration files. The zero value
// overrides nothing.
type Options struct {
	// Self, from [Main] or plugin.Main, allows running drivers and filters in other
	// processes. With the zero Self, the built-in ones run in this process, and
	// isolation "auto" means "inproc".
	Self plugin.Self
	// Config is the path of a configuration file to read after all others. It must
	// exist. Empty means no such file.
	Config string
	// Isolation selects where drivers and filters run: "auto", "process" or "inproc".
	// Empty means $NCZARR_ISOLATION, or plugins.isolation if that is unset.
	Isolation string
	// PluginDirs are directories to search for plugins, in order, before plugins.dirs.
	PluginDirs []string
	// OnlyPlugin is the path of the only plugin to run, pinned or not; see
	// host.Options.OnlyPlugin. Empty means all plugins.
	OnlyPlugin string
	// AllowUnpinned allows plugins that the lock file does not pin, regardless of
	// plugins.allow_unpinned.
	AllowUnpinned bool
	// RequireSandbox prevents starting a plugin process that cannot be confined to its
	// grants, regardless of plugins.sandbox.
	RequireSandbox bool
	// LocalRC allows the rc files of the current directory, which may be untrusted, to
	// set servers, proxies, certificates, profiles and logins.
	LocalRC bool

	// Memory is the maximum working memory in bytes of all datasets that the program opens
	// together, regardless of limits.memory: see dataset.Options.Budget. 0 means
	// limits.memory.
	Memory int64

	// Trace logs every call to drivers and plugins at slog.LevelDebug. It takes
	// precedence over $NCTRACING, which takes precedence over $NCLOGGING.
	Trace bool
	// LogFile is a file to which the log is appended. Setting it turns the log on. It
	// must be a regular file and not a link. A new file is accessible to its owner
	// only. Empty means $NCZARR_LOG_FILE.
	LogFile string
	// URL is the dataset that the program works on, if known. The key "log" in its
	// fragment turns the log on. A file name in this key is ignored, because a URL may
	// come from an untrusted party.
	URL string
	// LogOutput receives the log, one line per write, if the log is on and no file is
	// set. nil means os.Stderr.
	LogOutput io.Writer
	// Logger receives messages if Trace, LogFile, URL and the environment leave the log
	// off. nil means slog.Default.
	Logger *slog.Logger
	// Warn is called by New for each part of rc files, AWS files and URL that is
	// ignored. nil means to log it at slog.LevelWarn.
	Warn func(error)

	// Env replaces the environment variables, home directory and current directory that
	// the session reads. Drivers, filters and core/plugin/host still use the values of
	// the process. nil means the values of the process.
	Env *config.Env
}

// Session holds the settings of a program and the host of its drivers and filters. Its
// methods are safe for concurrent use, except Close, which must be called after all
// datasets are closed.
type Session struct {
	cfg    *config.Config
	env    config.Env
	urlEnv *ncurl.Env
	log    *slog.Logger
	file   *os.File // the log file, or nil
	opts   *host.Options
	host   *host.Host
	budget *budget.Budget
	stats  *layer.Stats     // requests to stores
	cached layer.CacheStats // activity of the local cache
}

// New reads the settings and creates the host. The host starts each process on first
// use. A nil o means the zero Options. The caller must close the Session. The
// package documentation lists the errors.
func New(o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Session{stats: layer.NewStats()}
	if o.Env != nil {
		s.env = *o.Env
	} else {
		s.env = processEnv()
	}
	if err := s.start(o); err != nil {
		_ = s.closeLog() // the first error is more useful
		return nil, err
	}
	return s, nil
}

func (s *Session) start(o *Options) error {
	if err := s.startLog(o); err != nil {
		return err
	}
	cfg, err := config.Load(config.Files(o.Config, s.env), os.ReadFile)
	if err != nil {
		return err
	}
	s.cfg, s.urlEnv = cfg, s.urlSettings(o)
	if o.Memory > 0 {
		cfg.Limits.Memory = config.Size(o.Memory)
	}
	s.budget = budget.New(cmp.Or(int64(cfg.Limits.Memory), (&dataset.Options{Limits: dataset.Limits{MaxChunk: int64(cfg.Limits.MaxChunk)}}).DefaultMemory()))
	s.urlEnv.S3Endpoint, _ = cfg.Drivers[ncurl.DriverS3]["endpoint"].(string) // the driver rejects a value of another type
	if s.opts, err = s.hostOptions(o); err != nil {
		return err
	}
	s.host, err = host.New(s.opts)
	return err
}

// Close stops all plugin processes and closes the log file. It kills the processes that
// still run after ten seconds. Close may be called again.
func (s *Session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.host.Close(ctx)
	if cerr := s.closeLog(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return err
}

// Config returns the configuration. The caller must not change it.
func (s *Session) Config() *config.Config { return s.cfg }

// Host returns the host of drivers and filters. [Session.Close] closes it.
func (s *Session) Host() *host.Host { return s.host }

// HostOptions returns a copy of the options of the host, for programs that create
// further hosts. The caller must not change its maps and slices.
func (s *Session) HostOptions() *host.Options {
	o := *s.opts
	return &o
}

// Stats returns the counters of store requests, summed over all datasets.
func (s *Session) Stats() *layer.Stats { return s.stats }

// CacheStats returns the counters of the local cache, summed over all datasets.
func (s *Session) CacheStats() *layer.CacheStats { return &s.cached }

// Options returns new options for opening a dataset. The caller may change them, for
// example set Update or SingleWriter. URLEnv, Registry and Budget are shared. URLEnv and
// Registry must not be changed.
func (s *Session) Options() *dataset.Options {
	limits := s.cfg.Limits
	o := &dataset.Options{
		Budget: s.budget, Registry: s.host, URLEnv: s.urlEnv, Log: s.log, Workers: limits.Workers,
		Limits: dataset.Limits{
			MaxMetadata: int64(limits.MaxMetadata), MaxDocuments: int64(limits.MaxDocuments), MaxChunk: int64(limits.MaxChunk),
			MaxElements: limits.MaxElements, MaxChunks: limits.MaxChunks, MaxData: int64(limits.MaxData),
			MaxKeys: int(min(limits.MaxKeys, math.MaxInt32)), MaxListing: int64(limits.MaxListing),
		},
		Remote: s.remote(), MergeGap: int64(s.cfg.Remote.MergeGap),
	}
	// The configured options are set explicitly, because dataset.Open adds to them the
	// options that the format needs.
	o.DriverOptions = make(map[string][]byte)
	for name, options := range s.opts.Defaults {
		o.DriverOptions[name] = options
	}
	o.Wrap = func(m driver.Map) driver.Map {
		m = layer.Measure(m, s.stats)
		if s.log.Enabled(context.Background(), slog.LevelDebug) { // the log records every call
			m = layer.Log(m, s.log)
		}
		return m
	}
	return o
}

// remote returns the options for high-latency stores.
func (s *Session) remote() layer.RemoteOptions {
	r := s.cfg.Remote
	o := layer.RemoteOptions{
		Retry:       layer.RetryOptions{Attempts: r.Attempts, Budget: r.RetryBudget},
		CallTimeout: r.CallTimeout, InFlight: r.InFlight,
	}
	o.Retry.OnRetry = func(op, key string, err error, wait time.Duration) {
		s.stats.Retried(op, key, err, wait)
		s.log.Debug("retry", "op", op, "key", key, "wait", wait, "error", err)
	}
	if c := s.cfg.Cache; c.Dir != "" {
		o.Cache = &layer.CacheOptions{Dir: c.Dir, Size: int64(c.Size), MaxAge: c.MaxAge, Stats: &s.cached, Identity: readerIdentity(s.env.Vars)}
	}
	return o
}

// processEnv returns the environment of this process.
func processEnv() config.Env {
	home, _ := os.UserHomeDir() // without a home directory the files in it are not read
	cwd, _ := os.Getwd()
	env := config.Env{Home: home, Cwd: cwd, Vars: make(map[string]string)}
	for _, line := range os.Environ() {
		if name, value, ok := strings.Cut(line, "="); ok {
			env.Vars[name] = value
		}
	}
	return env
}

// urlSettings reads the files that affect the meaning of URLs. Problems in them are
// warnings, because the files are shared with other programs.
func (s *Session) urlSettings(o *Options) *ncurl.Env {
	u := &ncurl.Env{Cwd: s.env.Cwd, Vars: s.env.Vars, Profiles: make(map[string]ncurl.Profile)}
	files := config.RCFiles(s.env)
	for i := range files {
		files[i].Local = files[i].Local && !o.LocalRC
	}
	rc, problems := config.LoadRC(files, config.ReadFile)
	for _, e := range rc {
		u.RC = append(u.RC, ncurl.RCEntry(e))
	}
	profiles, more := config.LoadAWS(config.AWSFiles(s.env), config.ReadFile)
	for name, p := range profiles {
		u.Profiles[name] = ncurl.Profile(p)
	}
	for _, err := range append(problems, more...) {
		s.warn(o, err)
	}
	return u
}

func (s *Session) warn(o *Options, err error) {
	if o.Warn != nil {
		o.Warn(err)
		return
	}
	s.log.Warn(err.Error())
}

// readerIdentity returns a string that identifies the reader: the environment variables from
// which drivers determine credentials, except secrets. The cache stores only a hash of the
// result.
func readerIdentity(vars map[string]string) string {
	secrets := []string{"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"}
	var parts []string
	for name, value := range vars {
		aws := strings.HasPrefix(name, "AWS_") && !slices.Contains(secrets, name)
		if aws || name == "NC_TEST_AWS_DIR" || name == "HOME" || name == "NETRC" {
			parts = append(parts, name+"="+value)
		}
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q", parts)
}
