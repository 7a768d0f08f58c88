// Package session builds a registry of drivers and filters, and the options for opening
// datasets, from configuration files, the environment and the options of a program. A
// program uses it to read the same settings as nczctl:
//
//	s, err := session.New(nil)
//	...
//	defer s.Close()
//	ds, err := nczarr.Open(ctx, url, s.Options())
//
// Open is the function of core/nczarr. The package at the root of the module accepts
// the same options with WithOptions.
//
// # Input
//
// [New] reads, once:
//
//   - the configuration files named by config.Files: the user's, the file of
//     $NCZARR_CONFIG, and Options.Config;
//   - the lock file that pins plugins, see config.Config.LockPath;
//   - the rc files of netCDF and the AWS files, which affect the meaning of URLs. They
//     are shared with other programs: a problem in them is passed to Options.Warn
//     and is not an error;
//   - $NCZARR_ISOLATION, $NCZARR_LOG_FILE, $NCTRACING and $NCLOGGING.
//
// core/plugin/host also searches the directories of $NCZARR_PLUGIN_PATH. Drivers read
// their credentials from the environment when they open a store.
//
// # Precedence
//
// A field of [Options] overrides the environment, the environment overrides the
// configuration files, and these override the defaults of config.Keys. A later
// configuration file overrides an earlier one key by key. Options.PluginDirs are
// searched before plugins.dirs. Options.AllowUnpinned and Options.RequireSandbox can
// only turn on what the files leave off.
//
// # Where drivers and filters run
//
// A program can run drivers and filters in separate processes, as nczctl does, if the
// program calls [Main] first and passes the result as Options.Self. On Linux, separate
// processes are then the default. Otherwise the default is to run the drivers and filters
// of drivers/builtin and filters/builtin in the process of the program, without external
// plugins. Isolation "process" then makes opening a dataset with a built-in driver fail.
//
// # Errors
//
// ncerr.ErrInvalid means a bad value in a configuration file, a malformed lock file, or
// an unknown isolation. If a file is the cause, the error names the file, the line and
// the key. A configuration file that is too large is ncerr.ErrLimit. A configuration file
// that cannot be read is ncerr.ErrPermission or ncerr.ErrIO. A log file or lock file that
// cannot be opened is an *fs.PathError.
//
// The package uses core/config, core/plugin/host and core/nczarr. No other package of
// core imports it.
package session
