package config

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Limits on configuration files and their lines, in bytes. The time of the TOML decoder
// is quadratic in both, and its stack grows with the nesting of one line.
const (
	maxFile = 1 << 16
	maxLine = 1 << 11
)

// Config is the complete configuration. The zero value has no limits and is not
// useful: start from [Default] or [Load]. The package does not change a Config after
// returning it, so it is safe for concurrent use.
type Config struct {
	// Drivers and Filters hold the tables [drivers.NAME] and [filters.NAME]. They
	// are never nil.
	Drivers map[string]Options
	Filters map[string]Options
	Plugins Plugins
	Remote  Remote
	Cache   Cache
	Limits  Limits

	where map[string]string // dotted key -> file:line
	base  string            // directory of the last file that was read, or else of the first source
}

// Options is a table [drivers.NAME] or [filters.NAME]. Its values have the types string,
// int64, float64 (finite), bool, []any and map[string]any.
type Options map[string]any

// JSON returns the options as a JSON object with sorted keys, or nil if o is empty.
func (o Options) JSON() []byte {
	if len(o) == 0 {
		return nil
	}
	doc, err := json.Marshal(map[string]any(o))
	if err != nil { // Load accepts only values that JSON can represent
		panic("config: options are not representable in JSON: " + err.Error())
	}
	return doc
}

// Plugins configures how plugins are found and run.
type Plugins struct {
	Dirs          []string      // directories searched in order, before the default ones
	LockFile      string        // empty for the default; see Config.LockPath
	AllowUnpinned bool          // run plugins that the lock file does not pin
	Isolation     Isolation     // whether drivers and filters run in separate processes
	Sandbox       Sandbox       // whether plugin processes are confined
	Roots         []string      // directories that drivers may access as a whole
	MaxMemory     Size          // maximum memory of one plugin process; 0 means no limit
	StartTimeout  time.Duration // maximum time from launch to the end of the handshake
	CallTimeout   time.Duration // maximum time of one call; 0 means no limit
	StopTimeout   time.Duration // time from the request to stop until the plugin is killed
	MaxRestarts   int           // maximum restarts of one plugin within one run of the program
}

// Isolation selects where drivers and filters run.
type Isolation string

// The ways to run drivers and filters.
const (
	IsolationAuto      Isolation = "auto"    // separate processes on platforms where they are cheap
	IsolationProcess   Isolation = "process" // separate processes on all platforms
	IsolationInProcess Isolation = "inproc"  // this process, for built-in drivers and filters only
)

// Remote configures access to high-latency stores.
type Remote struct {
	Attempts    int           // maximum attempts of one call, including the first
	RetryBudget time.Duration // maximum total wait between the attempts of one call
	CallTimeout time.Duration // maximum time of one attempt
	InFlight    int           // maximum number of concurrent calls
	MergeGap    Size          // maximum bytes between parts that are read together
}

// Sandbox selects whether plugin processes are confined.
type Sandbox string

// The ways to confine plugin processes.
const (
	SandboxAuto    Sandbox = "auto"    // confined as far as the system allows
	SandboxRequire Sandbox = "require" // completely confined, or else not started
	SandboxOff     Sandbox = "off"     // not confined
)

// Grants returns the value of the key grants in a table [drivers.NAME] or
// [filters.NAME], and the other options, which belong to the driver or filter. It does
// not modify o. The error is of kind ncerr.ErrInvalid if the value is not a list of
// strings.
func (o Options) Grants() (grants []string, rest Options, err error) {
	value, ok := o["grants"]
	if !ok {
		return nil, o, nil
	}
	list, ok := value.([]any)
	for _, v := range list {
		text, isText := v.(string)
		ok = ok && isText
		grants = append(grants, text)
	}
	if !ok {
		return nil, nil, ncerr.Errorf(ncerr.ErrInvalid, opRead, "grants", "the value is not a list of strings")
	}
	rest = maps.Clone(o)
	delete(rest, "grants")
	return grants, rest, nil
}

// Cache configures the local read-through cache of remote objects.
type Cache struct {
	Dir    string        // cache directory; empty means no cache
	Size   Size          // maximum size on disk
	MaxAge time.Duration // time for which content is used without a request to the store
}

// Limits holds the limits on input from stores.
type Limits struct {
	Memory       Size  // working memory of the program; 0 means a default that depends on MaxChunk
	MaxChunk     Size  // size of one decoded chunk
	MaxMetadata  Size  // size of one metadata document
	MaxDocuments Size  // size of all metadata documents of one dataset
	MaxElements  int64 // elements of one chunk
	MaxChunks    int64 // chunks of a variable that is copied or dumped
	MaxData      Size  // bytes of a variable that is copied or dumped
	MaxKeys      int64 // keys that one listing holds in memory
	MaxListing   Size  // bytes of the keys that one listing holds in memory
	Workers      int   // chunks decoded concurrently; 0 means one per processor, or more for high-latency stores
}

// Default returns the configuration of an empty file: the defaults listed by [Keys].
func Default() *Config {
	c := &Config{Drivers: map[string]Options{}, Filters: map[string]Options{}, where: map[string]string{}}
	for _, s := range specs() {
		if s.set == nil {
			continue
		}
		if err := s.set(c, s.initial, ""); err != nil {
			panic("config: bad default of " + s.Name + ": " + err.Error())
		}
	}
	return c
}

// Where returns file:line of the effective setting of a dotted key, such as
// "plugins.dirs" or "drivers.s3.endpoint", and "" for a default.
func (c *Config) Where(key string) string { return c.where[key] }

// LockPath returns the path of the plugins' lock file. It is plugins.lock_file, or
// else plugins.lock in the directory of the last configuration file that was read. If
// no file was read, it is in the directory of the first source. LockPath returns ""
// if there were no sources.
func (c *Config) LockPath() string {
	if c.Plugins.LockFile != "" || c.base == "" {
		return c.Plugins.LockFile
	}
	return filepath.Join(c.base, "plugins.lock")
}

// Env is the environment that determines the names of files.
type Env struct {
	Home string            // the user's home directory; may be empty
	Cwd  string            // the current directory
	Vars map[string]string // environment variables
}

// Source is a configuration file to read.
type Source struct {
	Path     string
	Required bool // a missing file is an error
}

// Files returns the TOML files in order of increasing precedence: nczarr/config.toml in
// $XDG_CONFIG_HOME or ~/.config, $NCZARR_CONFIG, and explicit, the argument of a
// --config flag. Only the first may be missing. Files omits empty names.
func Files(explicit string, env Env) []Source {
	var out []Source
	base := env.Vars["XDG_CONFIG_HOME"]
	if !filepath.IsAbs(base) && env.Home != "" { // the XDG specification requires ignoring a relative value
		base = filepath.Join(env.Home, ".config")
	}
	if filepath.IsAbs(base) {
		out = append(out, Source{Path: filepath.Join(base, "nczarr", "config.toml")})
	}
	for _, name := range []string{env.Vars["NCZARR_CONFIG"], explicit} {
		if name == "" {
			continue
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(env.Cwd, name)
		}
		out = append(out, Source{Path: name, Required: true})
	}
	return out
}

// Load reads sources in order and merges them over the defaults. A later file
// overrides the keys of an earlier one; lists are replaced as a whole. read is
// usually os.ReadFile. Relative paths in a file are relative to its directory.
//
// The error is of kind ncerr.ErrInvalid for a missing required file and for invalid
// content, with file:line as the key. It is ncerr.ErrLimit for a file of more than
// 64 KiB or with a line of more than 2 KiB, and ncerr.ErrPermission or ncerr.ErrIO
// for a file that cannot be read.
func Load(sources []Source, read func(string) ([]byte, error)) (*Config, error) {
	c := Default()
	if len(sources) > 0 {
		c.base = filepath.Dir(sources[0].Path)
	}
	for _, src := range sources {
		data, err := read(src.Path)
		switch {
		case err == nil:
		case !errors.Is(err, fs.ErrNotExist):
			return nil, readError(src.Path, err)
		case src.Required:
			return nil, ncerr.New(ncerr.ErrInvalid, opRead, src.Path, err)
		default:
			continue
		}
		if err := c.apply(src.Path, data); err != nil {
			return nil, err
		}
		c.base = filepath.Dir(src.Path)
	}
	return c, nil
}

// Parse merges the content of one file over the defaults. name is used in errors and to
// resolve relative paths. The errors are the same as for [Load].
func Parse(name string, data []byte) (*Config, error) {
	c := Default()
	c.base = filepath.Dir(name)
	if err := c.apply(name, data); err != nil {
		return nil, err
	}
	return c, nil
}

// readError adds the kind to an error from reading a file.
func readError(name string, err error) error {
	kind := ncerr.KindOf(err)
	if errors.Is(err, fs.ErrPermission) {
		kind = ncerr.ErrPermission
	}
	return ncerr.New(kind, opRead, name, err)
}
