package config

import "time"

// Key documents one configuration key.
type Key struct {
	Name    string `json:"name"`    // dotted name, such as "plugins.dirs"
	Type    string `json:"type"`    // "string", "path", "list of paths", "bool", "int", "size", "duration", "table"
	Default string `json:"default"` // default value in the notation of a file
	Doc     string `json:"doc"`     // description in one or two sentences
}

// Keys returns every key, grouped by table and in the order of the reference page.
func Keys() []Key {
	var out []Key
	for _, s := range specs() {
		out = append(out, s.Key)
	}
	return out
}

// spec is a key with its setter. set is nil for the tables of drivers and filters.
type spec struct {
	Key
	initial any // the default, as decoded from TOML
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

// specs returns the table of keys with their types, defaults and documentation.
func specs() []spec {
	return []spec{
		{Key{"drivers.NAME", "table", "", "Options of the storage driver NAME. The driver defines and checks its keys, except grants: a list of resources that its process may use in addition to those that a built-in driver requests, such as \"tcp:9000\", \"env:TOKEN\", \"read:/etc/tape\" (docs/explanation/security.md)."}, nil, nil},
		{Key{"filters.NAME", "table", "", "Settings of the process that serves the filter NAME. The only key is grants, as for drivers. It applies only to plugins, because built-in filters need no grants."}, nil, nil},
		{
			Key{"plugins.dirs", "list of paths", "[]", "Directories to search for plugins, in order, before $NCZARR_PLUGIN_PATH and the user's plugin directory."},
			[]any{},
			paths(func(c *Config) *[]string { return &c.Plugins.Dirs }),
		},
		{
			Key{"plugins.lock_file", "path", `""`, "The file that pins plugins by version and SHA-256. Empty means plugins.lock next to the configuration file."},
			"", path(func(c *Config) *string { return &c.Plugins.LockFile }),
		},
		{
			Key{"plugins.allow_unpinned", "bool", "false", "Whether plugins that the lock file does not pin may run."},
			false, boolean(func(c *Config) *bool { return &c.Plugins.AllowUnpinned }),
		},
		{
			Key{
				"plugins.isolation", "string", `"auto"`,
				`Where drivers and filters run: "process" means always in separate processes, "inproc" in the process of the program (built-in ones only), "auto" in separate processes, except that built-in ones run in the process of the program on systems other than Linux.`,
			},
			"auto",
			choice(func(c *Config) *Isolation { return &c.Plugins.Isolation }, IsolationAuto, IsolationProcess, IsolationInProcess),
		},
		{
			Key{"plugins.sandbox", "string", `"auto"`, `Whether plugin processes are confined to their grants: "auto" confines them as far as the system can and warns about the rest, "require" refuses to start plugins that the system cannot confine completely, "off" does not confine them.`},
			"auto",
			choice(func(c *Config) *Sandbox { return &c.Plugins.Sandbox }, SandboxAuto, SandboxRequire, SandboxOff),
		},
		{
			Key{"plugins.roots", "list of paths", "[]", "Directories that storage drivers may access as a whole. The stores in one of these directories share a process. Every other store has its own process."},
			[]any{},
			paths(func(c *Config) *[]string { return &c.Plugins.Roots }),
		},
		{
			Key{"plugins.max_memory", "size", `"4GiB"`, "Maximum private memory of one plugin process. The limit needs the sandbox."},
			"4GiB", size(func(c *Config) *Size { return &c.Plugins.MaxMemory }),
		},
		{
			Key{"plugins.start_timeout", "duration", `"10s"`, "Maximum time from the launch of a plugin to the end of the handshake."},
			"10s", duration(func(c *Config) *time.Duration { return &c.Plugins.StartTimeout }, time.Millisecond),
		},
		{
			Key{"plugins.call_timeout", "duration", `"5m"`, "Maximum time without an answer from a plugin in one call. A message with several writes has this time for each of them. The limit grows by one second for each 32 KiB of content to store. 0s means no limit."},
			"5m", duration(func(c *Config) *time.Duration { return &c.Plugins.CallTimeout }, 0),
		},
		{
			Key{"plugins.stop_timeout", "duration", `"2s"`, "Maximum time for a plugin to stop before it is killed."},
			"2s", duration(func(c *Config) *time.Duration { return &c.Plugins.StopTimeout }, 0),
		},
		{
			Key{"plugins.max_restarts", "int", "3", "Maximum number of restarts of one plugin after crashes within one run of the program."},
			int64(3), integer(func(c *Config) *int { return &c.Plugins.MaxRestarts }, 0, 1000),
		},
		{
			Key{"remote.attempts", "int", "5", "Maximum number of attempts of one call to a remote store, including the first. An attempt that transferred at least 64 KiB of an object does not count."},
			int64(5), integer(func(c *Config) *int { return &c.Remote.Attempts }, 1, 1000),
		},
		{
			Key{"remote.retry_budget", "duration", `"1m"`, "Maximum total time that one call to a remote store waits between attempts. If the store requests a longer delay (Retry-After), the call is not repeated."},
			"1m", duration(func(c *Config) *time.Duration { return &c.Remote.RetryBudget }, time.Millisecond),
		},
		{
			Key{"remote.call_timeout", "duration", `"5m"`, "Maximum time of one attempt of a call to a remote store. The limit grows by one second for each 32 KiB of content. Drivers have shorter limits for idle connections."},
			"5m", duration(func(c *Config) *time.Duration { return &c.Remote.CallTimeout }, time.Millisecond),
		},
		{
			Key{"remote.in_flight", "int", "64", "Maximum number of concurrent requests to one remote store. Below this limit the number adapts: it grows while response times stay constant, and shrinks when the store is overloaded."},
			int64(64), integer(func(c *Config) *int { return &c.Remote.InFlight }, 1, 4096),
		},
		{
			Key{"remote.merge_gap", "size", `"64KiB"`, "Parts of a chunk without codecs that are at most this many bytes apart are read in one request, together with the bytes between them."},
			"64KiB", size(func(c *Config) *Size { return &c.Remote.MergeGap }),
		},
		{
			Key{"cache.dir", "path", `""`, "Directory of the local cache of remote objects. Empty means no cache."},
			"", path(func(c *Config) *string { return &c.Cache.Dir }),
		},
		{
			Key{"cache.size", "size", `"1GiB"`, "Maximum size of the cache on disk."},
			"1GiB", size(func(c *Config) *Size { return &c.Cache.Size }),
		},
		{
			Key{"cache.max_age", "duration", `"0s"`, "How long cached content is used without checking whether it has changed in the store. With 0s, every use is checked, which takes a round trip but no transfer. With a longer time, reads may return data that is stale by up to that time."},
			"0s", duration(func(c *Config) *time.Duration { return &c.Cache.MaxAge }, 0),
		},
		{
			Key{"limits.memory", "size", `"0B"`, "Maximum working memory of the program: see Limits. A call that needs more fails. 0B means ten times limits.max_chunk; copy then holds about 64 MiB of data, or 128 MiB if it changes the chunks."},
			"0B", sizeOrZero(func(c *Config) *Size { return &c.Limits.Memory }),
		},
		{
			Key{"limits.max_chunk", "size", `"1GiB"`, "Maximum size of a decoded chunk."},
			"1GiB", size(func(c *Config) *Size { return &c.Limits.MaxChunk }),
		},
		{
			Key{"limits.max_metadata", "size", `"64MiB"`, "Maximum size of a metadata document, including consolidated metadata."},
			"64MiB", size(func(c *Config) *Size { return &c.Limits.MaxMetadata }),
		},
		{
			Key{"limits.max_documents", "size", `"256MiB"`, "Maximum total size of the metadata documents, except consolidated metadata, and of the keys of groups and variables that are read to open a dataset."},
			"256MiB", size(func(c *Config) *Size { return &c.Limits.MaxDocuments }),
		},
		{
			Key{"limits.max_elements", "int", "1073741824", "Maximum number of elements in one chunk."},
			int64(1 << 30), integer(func(c *Config) *int64 { return &c.Limits.MaxElements }, 1, 1<<62),
		},
		{
			Key{"limits.max_chunks", "int", "268435456", "Maximum number of chunks of a variable that is copied or dumped, including missing chunks."},
			int64(1 << 28), integer(func(c *Config) *int64 { return &c.Limits.MaxChunks }, 1, 1<<62),
		},
		{
			Key{"limits.max_data", "size", `"16TiB"`, "Maximum size of the data of a variable that is copied or dumped, including missing chunks."},
			"16TiB", size(func(c *Config) *Size { return &c.Limits.MaxData }),
		},
		{
			Key{"limits.max_keys", "int", "10000000", "Maximum number of keys that one listing holds in memory."},
			int64(10_000_000), integer(func(c *Config) *int64 { return &c.Limits.MaxKeys }, 1, 1<<62),
		},
		{
			Key{"limits.max_listing", "size", `"512MiB"`, "Maximum total size of the keys that one listing holds in memory."},
			"512MiB", size(func(c *Config) *Size { return &c.Limits.MaxListing }),
		},
		{
			Key{"limits.workers", "int", "0", "Number of chunks that are decoded concurrently. 0 means one per processor, and more for remote stores."},
			int64(0), integer(func(c *Config) *int { return &c.Limits.Workers }, 0, 4096),
		},
	}
}
