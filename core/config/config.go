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

// Ceilings on configuration files, in bytes. The TOML decoder's work grows with
// the square of both, its stack with the nesting that a file has room for.
const (
	maxFile = 1 << 16
	maxLine = 1 << 11
)

// Config is the whole configuration. The zero value has no limits at all and
// is not useful: start from [Default] or [Load]. It is not changed after it
// was made and is then safe for concurrent use.
type Config struct {
	// Drivers and Filters hold the tables [drivers.NAME] and [filters.NAME];
	// never nil.
	Drivers map[string]Options
	Filters map[string]Options
	Plugins Plugins
	Remote  Remote
	Cache   Cache
	Limits  Limits

	where map[string]string // dotted key -> file:line
	base  string            // directory of the highest file, or where one would be
}

// Options is one [drivers.NAME] or [filters.NAME] table: strings, int64,
// float64 (finite), bool, []any and map[string]any.
type Options map[string]any

// JSON gives the options as a JSON object, keys sorted; nil when there are
// none. It is what a driver's or filter's strict decoding expects.
func (o Options) JSON() []byte {
	if len(o) == 0 {
		return nil
	}
	doc, err := json.Marshal(map[string]any(o))
	if err != nil { // Load admits only what JSON can say
		panic("config: options that are not JSON: " + err.Error())
	}
	return doc
}

// Plugins says where plugins come from and how they are run.
type Plugins struct {
	Dirs          []string      // searched in order, before the other places
	LockFile      string        // empty: see Config.LockPath
	AllowUnpinned bool          // launch plugins that the lock file does not name
	Isolation     Isolation     // where drivers and filters run
	Sandbox       Sandbox       // whether plugin processes are confined
	Roots         []string      // directories that drivers may see as a whole
	MaxMemory     Size          // of one plugin process; 0 means no ceiling
	StartTimeout  time.Duration // from launch to the end of the handshake
	CallTimeout   time.Duration // of one call; 0 means none
	StopTimeout   time.Duration // from asking a plugin to stop to killing it
	MaxRestarts   int           // of one plugin within one run of the program
}

// Isolation says where drivers and filters run.
type Isolation string

// The ways to run drivers and filters.
const (
	IsolationAuto      Isolation = "auto"    // out of process where the platform makes that cheap
	IsolationProcess   Isolation = "process" // always out of process
	IsolationInProcess Isolation = "inproc"  // built-in ones in this process; others are refused
)

// Remote says how stores are used that take tens of milliseconds to answer.
type Remote struct {
	Attempts    int           // tries of one call, the first included
	RetryBudget time.Duration // that one call may spend waiting between them
	CallTimeout time.Duration // of one try
	InFlight    int           // calls at once
	MergeGap    Size          // bytes between parts that are read at once
}

// Sandbox says whether plugin processes are confined.
type Sandbox string

// The ways to confine plugin processes.
const (
	SandboxAuto    Sandbox = "auto"    // as far as the system can
	SandboxRequire Sandbox = "require" // wholly, or they are not started
	SandboxOff     Sandbox = "off"     // not at all
)

// Grants takes the key grants out of a [drivers.NAME] or [filters.NAME]
// table. What is left is for the driver or filter. A value that is no list of
// strings is ncerr.ErrInvalid.
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
		return nil, nil, ncerr.Errorf(ncerr.ErrInvalid, opRead, "grants", "not a list of strings")
	}
	rest = maps.Clone(o)
	delete(rest, "grants")
	return grants, rest, nil
}

// Cache is the local read-through cache of remote objects.
type Cache struct {
	Dir    string        // empty: no cache
	Size   Size          // the most that is kept
	MaxAge time.Duration // how long content is used without asking the store
}

// Limits are the ceilings on what comes from outside; see design principle 5.
type Limits struct {
	MaxChunk     Size  // one decoded chunk
	MaxMetadata  Size  // one metadata document
	MaxDocuments Size  // all metadata documents of one dataset
	MaxElements  int64 // elements of one chunk
	MaxChunks    int64 // chunks of a variable that is copied or dumped
	MaxData      Size  // bytes of a variable that is copied or dumped
	MaxKeys      int64 // keys that one listing may hold in memory
	MaxListing   Size  // bytes of those keys
	Workers      int   // chunks decoded at once; 0: one for each processor
}

// Default gives the configuration of an empty file: the defaults of [Keys].
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

// Where gives file:line of the setting in force for a dotted key such as
// "plugins.dirs" or "drivers.s3.endpoint", and "" for a default.
func (c *Config) Where(key string) string { return c.where[key] }

// LockPath gives the path of the plugins' lock file: plugins.lock_file, else
// plugins.lock beside the highest configuration file that was read or, when
// none was, where the lowest would be. It is empty when there is no such place.
func (c *Config) LockPath() string {
	if c.Plugins.LockFile != "" || c.base == "" {
		return c.Plugins.LockFile
	}
	return filepath.Join(c.base, "plugins.lock")
}

// Env is what the file functions need of the surroundings.
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

// Files gives the TOML files in rising precedence: the user's file
// ($XDG_CONFIG_HOME or ~/.config, then nczarr/config.toml), which may be
// missing, the file that $NCZARR_CONFIG names, and explicit, which is that of
// a --config flag or empty.
func Files(explicit string, env Env) []Source {
	var out []Source
	base := env.Vars["XDG_CONFIG_HOME"]
	if !filepath.IsAbs(base) && env.Home != "" { // a relative value is ignored, as its standard says
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

// Load reads sources in order and merges them over the defaults: a later file
// overrides an earlier one key by key, and a list as a whole. read is usually
// os.ReadFile. Relative paths in a file are relative to that file.
//
// Errors by kind: ncerr.ErrInvalid for a missing required file and for
// anything wrong in a file, with file:line as the key; ncerr.ErrLimit for a
// file of more than 64 KiB or with a line of more than 2 KiB, ncerr.ErrPermission or ncerr.ErrIO for one that cannot be
// read.
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

// Parse reads one file's content over the defaults. name is used in errors
// and to resolve relative paths. The errors are those of [Load].
func Parse(name string, data []byte) (*Config, error) {
	c := Default()
	c.base = filepath.Dir(name)
	if err := c.apply(name, data); err != nil {
		return nil, err
	}
	return c, nil
}

// readError gives an error of a loader its kind.
func readError(name string, err error) error {
	kind := ncerr.KindOf(err)
	if errors.Is(err, fs.ErrPermission) {
		kind = ncerr.ErrPermission
	}
	return ncerr.New(kind, opRead, name, err)
}
