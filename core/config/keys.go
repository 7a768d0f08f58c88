package config

import "time"

// Key documents one configuration key.
type Key struct {
	Name    string `json:"name"`    // dotted: "plugins.dirs"
	Type    string `json:"type"`    // "string", "path", "list of paths", "bool", "int", "size", "duration", "table"
	Default string `json:"default"` // as it would be written in the file
	Doc     string `json:"doc"`     // one or two sentences
}

// Keys lists every key, sorted as a reference page shows them: by table, then
// in order of importance. The defaults given here are those in force.
func Keys() []Key {
	var out []Key
	for _, s := range specs() {
		out = append(out, s.Key)
	}
	return out
}

// spec is a key with its setter. A nil set marks the tables that are handed
// on as they are.
type spec struct {
	Key
	initial any // the default as the TOML decoder would give it
	set     setter
}

// The tables of a configuration file.
const (
	tableDrivers = "drivers"
	tableFilters = "filters"
	tablePlugins = "plugins"
	tableRemote  = "remote"
	tableCache   = "cache"
	tableLimits  = "limits"
)

func tables() []string {
	return []string{tableDrivers, tableFilters, tablePlugins, tableRemote, tableCache, tableLimits}
}

// specs is the one table of keys, types, defaults and documentation.
func specs() []spec {
	return []spec{
		{Key{"drivers.NAME", "table", "", "Options of the storage driver NAME. The driver defines and checks its keys, but for grants: a list of what its process may reach besides what a built-in driver asks for, such as \"tcp:9000\", \"env:TOKEN\", \"read:/etc/tape\" (docs/explanation/security.md)."}, nil, nil},
		{Key{"filters.NAME", "table", "", "Settings of the process that serves the filter NAME. The only key is grants, as for drivers; it has effect on plugins, as built-in filters need nothing."}, nil, nil},
		{
			Key{"plugins.dirs", "list of paths", "[]", "Directories searched for plugins, in order, before $NCZARR_PLUGIN_PATH and the user's plugin directory."},
			[]any{},
			paths(func(c *Config) *[]string { return &c.Plugins.Dirs }),
		},
		{
			Key{"plugins.lock_file", "path", `""`, "The file that pins plugins by version and SHA-256. Empty means plugins.lock beside the configuration file."},
			"", path(func(c *Config) *string { return &c.Plugins.LockFile }),
		},
		{
			Key{"plugins.allow_unpinned", "bool", "false", "Whether a plugin that the lock file does not name may be launched."},
			false, boolean(func(c *Config) *bool { return &c.Plugins.AllowUnpinned }),
		},
		{
			Key{
				"plugins.isolation", "string", `"auto"`,
				`Where drivers and filters run: "process" always out of process, "inproc" in this process (built-in ones only), "auto" out of process where the platform makes that cheap.`,
			},
			"auto",
			choice(func(c *Config) *Isolation { return &c.Plugins.Isolation }, IsolationAuto, IsolationProcess, IsolationInProcess),
		},
		{
			Key{"plugins.sandbox", "string", `"auto"`, `Whether plugin processes are confined to what they are granted: "auto" as far as the system can, with a warning of what it cannot, "require" not to start where it has holes, "off" not at all.`},
			"auto",
			choice(func(c *Config) *Sandbox { return &c.Plugins.Sandbox }, SandboxAuto, SandboxRequire, SandboxOff),
		},
		{
			Key{"plugins.roots", "list of paths", "[]", "Directories that storage drivers may see as a whole: the stores in one of them share a process. Others have a process each."},
			[]any{},
			paths(func(c *Config) *[]string { return &c.Plugins.Roots }),
		},
		{
			Key{"plugins.max_memory", "size", `"4GiB"`, "The most private memory that one plugin process may have; 0 means no ceiling. It needs the sandbox."},
			"4GiB", size(func(c *Config) *Size { return &c.Plugins.MaxMemory }),
		},
		{
			Key{"plugins.start_timeout", "duration", `"10s"`, "How long a plugin may take from its launch to the end of the handshake."},
			"10s", duration(func(c *Config) *time.Duration { return &c.Plugins.StartTimeout }, time.Millisecond),
		},
		{
			Key{"plugins.call_timeout", "duration", `"5m"`, "How long a plugin may be silent in one call; content that it stores has time besides, a second for each 32 KiB. 0s means no limit."},
			"5m", duration(func(c *Config) *time.Duration { return &c.Plugins.CallTimeout }, 0),
		},
		{
			Key{"plugins.stop_timeout", "duration", `"2s"`, "How long a plugin may take to end when asked to, before it is killed."},
			"2s", duration(func(c *Config) *time.Duration { return &c.Plugins.StopTimeout }, 0),
		},
		{
			Key{"plugins.max_restarts", "int", "3", "How often one plugin is started again after a crash, within one run of the program."},
			int64(3), integer(func(c *Config) *int { return &c.Plugins.MaxRestarts }, 0, 1000),
		},
		{
			Key{"remote.attempts", "int", "5", "How often one call to a remote store is tried, the first time included. A try that brought 64 KiB of an object does not count."},
			int64(5), integer(func(c *Config) *int { return &c.Remote.Attempts }, 1, 1000),
		},
		{
			Key{"remote.retry_budget", "duration", `"1m"`, "How long one call to a remote store may wait between its tries, all waits together; a store that asks for a longer wait (Retry-After) gets no other try."},
			"1m", duration(func(c *Config) *time.Duration { return &c.Remote.RetryBudget }, time.Millisecond),
		},
		{
			Key{"remote.call_timeout", "duration", `"5m"`, "How long one try of one call to a remote store may take; content has time besides, a second for each 32 KiB. Drivers have shorter times for connections on which nothing moves."},
			"5m", duration(func(c *Config) *time.Duration { return &c.Remote.CallTimeout }, time.Millisecond),
		},
		{
			Key{"remote.in_flight", "int", "64", "The largest number of requests to one remote store at once. Below it the number follows the store: it grows while answers come as fast as before, and shrinks when the store is overloaded."},
			int64(64), integer(func(c *Config) *int { return &c.Remote.InFlight }, 1, 4096),
		},
		{
			Key{"remote.merge_gap", "size", `"64KiB"`, "Parts of one chunk without codecs that lie at most so many bytes apart are read in one request, with what is between them. 0 means the default."},
			"64KiB", size(func(c *Config) *Size { return &c.Remote.MergeGap }),
		},
		{
			Key{"cache.dir", "path", `""`, "Directory of the local cache of remote objects. Empty means no cache."},
			"", path(func(c *Config) *string { return &c.Cache.Dir }),
		},
		{
			Key{"cache.size", "size", `"1GiB"`, "The most that the cache keeps on disk."},
			"1GiB", size(func(c *Config) *Size { return &c.Cache.Size }),
		},
		{
			Key{"cache.max_age", "duration", `"0s"`, "How long content of the cache is used without asking the store whether it has changed; with 0s the store is always asked, which takes a round trip but no transfer. Anything longer may give stale data for so long."},
			"0s", duration(func(c *Config) *time.Duration { return &c.Cache.MaxAge }, 0),
		},
		{
			Key{"limits.max_chunk", "size", `"1GiB"`, "The largest decoded chunk that is accepted."},
			"1GiB", size(func(c *Config) *Size { return &c.Limits.MaxChunk }),
		},
		{
			Key{"limits.max_metadata", "size", `"64MiB"`, "The largest metadata document that is accepted, consolidated metadata included."},
			"64MiB", size(func(c *Config) *Size { return &c.Limits.MaxMetadata }),
		},
		{
			Key{"limits.max_documents", "size", `"256MiB"`, "The most bytes of metadata documents, without consolidated metadata, and of keys of groups and variables that opening one dataset reads, in total."},
			"256MiB", size(func(c *Config) *Size { return &c.Limits.MaxDocuments }),
		},
		{
			Key{"limits.max_elements", "int", "1073741824", "The largest number of elements in one chunk."},
			int64(1 << 30), integer(func(c *Config) *int64 { return &c.Limits.MaxElements }, 1, 1<<62),
		},
		{
			Key{"limits.max_chunks", "int", "268435456", "The largest number of chunks of a variable that is copied or dumped, including absent ones."},
			int64(1 << 28), integer(func(c *Config) *int64 { return &c.Limits.MaxChunks }, 1, 1<<62),
		},
		{
			Key{"limits.max_data", "size", `"16TiB"`, "The most bytes of a variable that is copied or dumped, including absent chunks."},
			"16TiB", size(func(c *Config) *Size { return &c.Limits.MaxData }),
		},
		{
			Key{"limits.max_keys", "int", "10000000", "The largest number of keys that one listing may hold in memory."},
			int64(10_000_000), integer(func(c *Config) *int64 { return &c.Limits.MaxKeys }, 1, 1<<62),
		},
		{
			Key{"limits.max_listing", "size", `"512MiB"`, "The most bytes of keys that one listing may hold in memory."},
			"512MiB", size(func(c *Config) *Size { return &c.Limits.MaxListing }),
		},
		{
			Key{"limits.workers", "int", "0", "How many chunks are decoded at once; 0 means one for each processor."},
			int64(0), integer(func(c *Config) *int { return &c.Limits.Workers }, 0, 4096),
		},
	}
}
