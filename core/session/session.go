package session

import (
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

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/layer"
)

// Options override the environment and the configuration files. The zero
// value overrides nothing.
type Options struct {
	// Self is the right to run drivers and filters in other processes, from
	// [Main] or plugin.Main. The zero Self stands for the built-in ones in this
	// process: isolation "auto" means "inproc" then.
	Self plugin.Self
	// Config is the path of a configuration file to read after all others; it
	// must exist. Empty means none.
	Config string
	// Isolation is where drivers and filters run: "auto", "process" or "inproc".
	// Empty means $NCZARR_ISOLATION, else plugins.isolation.
	Isolation string
	// PluginDirs are searched for plugins, in order, before plugins.dirs.
	PluginDirs []string
	// OnlyPlugin is the path of the only plugin that runs, pinned or not; see
	// host.Options.Only. Empty means all plugins.
	OnlyPlugin string
	// AllowUnpinned runs plugins that the lock file does not pin, whatever
	// plugins.allow_unpinned says.
	AllowUnpinned bool
	// RequireSandbox starts no plugin process that cannot be confined to what
	// it is granted, whatever plugins.sandbox says.
	RequireSandbox bool
	// LocalRC lets the rc files of the current directory, which may be somebody
	// else's, name servers, proxies, certificates, profiles and logins.
	LocalRC bool

	// Trace logs every call of drivers and plugins, at slog.LevelDebug. It comes
	// before $NCTRACING, and that before $NCLOGGING.
	Trace bool
	// LogFile is a file to append the log to; it turns the log on. It must be
	// a regular file and not a link; a new one is its owner's alone. Empty means
	// $NCZARR_LOG_FILE.
	LogFile string
	// URL is the dataset that the program works on, if it is known. The key
	// "log" in its fragment turns the log on, but names no file: a URL may come
	// from somebody else.
	URL string
	// LogOutput is written to by a log that is on without a file, one line at a
	// time. nil means os.Stderr.
	LogOutput io.Writer
	// Logger receives the log if none of Trace, LogFile, URL and the environment
	// turns it on. nil means slog.Default.
	Logger *slog.Logger
	// Warn is called in New for what is ignored in rc files, AWS files and URL.
	// nil means that it is logged at slog.LevelWarn.
	Warn func(error)

	// Env replaces the environment variables, the home directory and the current
	// directory of this process in what the session reads; those that drivers,
	// filters and core/plugin/host see are not replaced. nil means those of this
	// process.
	Env *config.Env
}

// Session is the settings of a program and the host of its drivers and
// filters. Its methods may be called by several goroutines at once, except
// Close, which is called last: when all datasets are closed.
type Session struct {
	cfg    *config.Config
	env    config.Env
	urlEnv *ncurl.Env
	log    *slog.Logger
	file   *os.File // of the log; nil without one
	opts   *host.Options
	host   *host.Host
	stats  *layer.Stats     // requests to stores
	cached layer.CacheStats // what the local cache did
}

// New reads the settings and makes the host, which starts processes when they
// are first needed. A nil o is the zero Options. The caller owns the Session
// and must close it. The package documentation lists the errors.
func New(o *Options) (*Session, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Session{stats: layer.NewStats()}
	if o.Env != nil {
		s.env = *o.Env
	} else {
		s.env = surroundings()
	}
	if err := s.start(o); err != nil {
		_ = s.closeLog() // the first error says more
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
	s.urlEnv.S3Endpoint, _ = cfg.Drivers[ncurl.DriverS3]["endpoint"].(string) // another type is the driver's to refuse
	if s.opts, err = s.hostOptions(o); err != nil {
		return err
	}
	s.host, err = host.New(s.opts)
	return err
}

// Close stops all processes, within ten seconds, and closes the log file. It
// may be called again.
func (s *Session) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := s.host.Close(ctx)
	if cerr := s.closeLog(); cerr != nil {
		err = errors.Join(err, cerr)
	}
	return err
}

// Config returns the configuration, which must not be changed.
func (s *Session) Config() *config.Config { return s.cfg }

// Host returns the drivers and filters. It is closed by Close.
func (s *Session) Host() *host.Host { return s.host }

// HostOptions returns a copy of the options that the host was made with, for
// programs that make further hosts. Its maps and slices must not be changed.
func (s *Session) HostOptions() *host.Options {
	o := *s.opts
	return &o
}

// Stats returns the counters of requests to stores, of all datasets.
func (s *Session) Stats() *layer.Stats { return s.stats }

// CacheStats returns the counters of the local cache, of all datasets.
func (s *Session) CacheStats() *layer.CacheStats { return &s.cached }

// Options returns new options for opening a dataset. The caller may change
// them: set Update or SingleWriter, for example. URLEnv and Registry are shared
// and must not be changed.
func (s *Session) Options() *nczarr.Options {
	limits := s.cfg.Limits
	o := &nczarr.Options{
		Registry: s.host, URLEnv: s.urlEnv, Log: s.log, Workers: limits.Workers,
		Limits: nczarr.Limits{
			MaxMetadata: int64(limits.MaxMetadata), MaxDocuments: int64(limits.MaxDocuments), MaxChunk: int64(limits.MaxChunk),
			MaxElements: limits.MaxElements, MaxChunks: limits.MaxChunks, MaxData: int64(limits.MaxData),
			MaxKeys: int(min(limits.MaxKeys, math.MaxInt32)), MaxListing: int64(limits.MaxListing),
		},
		Remote: s.remote(), MergeGap: int64(s.cfg.Remote.MergeGap),
	}
	// The library has to see what is set: it adds what a format asks for.
	o.DriverOptions = make(map[string][]byte)
	for name, options := range s.opts.Defaults {
		o.DriverOptions[name] = options
	}
	o.Wrap = func(m driver.Map) driver.Map {
		m = layer.Measure(m, s.stats)
		if tracing(s.log) {
			m = layer.Log(m, s.log)
		}
		return m
	}
	return o
}

// remote returns the options for stores that take their time.
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
		o.Cache = &layer.CacheOptions{Dir: c.Dir, Size: int64(c.Size), MaxAge: c.MaxAge, Stats: &s.cached, Identity: reader(s.env.Vars)}
	}
	return o
}

// surroundings returns the Env of this process.
func surroundings() config.Env {
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

// urlSettings reads the files that the meaning of URLs depends on. It reports
// what is wrong in them and goes on: they are shared with other programs.
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
