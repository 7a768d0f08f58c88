// Package session builds a registry of drivers and filters, and the options for opening
// datasets, from configuration files, the environment and the options of a program. A
// program uses it to read the same settings as nczctl:
//
//	s, err := session.New(nil)
//	...
//	defer s.Close()
//	ds, err := open.Open(ctx, url, s.Options())
//
// Here open is the package core/open. The root package of the module accepts the same
// options through WithOptions.
//
// # Input
//
// [New] reads once:
//
//   - the configuration files listed by config.Files: the user's file, $NCZARR_CONFIG and
//     Options.Config;
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
// turn a setting on but not off.
//
// # Where drivers and filters run
//
// A program can run drivers and filters in separate processes, as nczctl does, if the
// program calls [Main] first and passes the result as Options.Self. On Linux, separate
// processes are then the default. Otherwise the default is to run the drivers and
// filters of drivers/builtin and filters/builtin in the process of the program, without
// external plugins. In a program that does not call Main, isolation "process" makes the
// built-in drivers and filters fail.
//
// # Errors
//
// The error of New is of kind ncerr.ErrInvalid for a bad value in a configuration file,
// a malformed lock file, or an unknown isolation. The error for a bad value contains
// the file, the line and the key. The kind is ncerr.ErrLimit for a configuration file
// that is too large, and ncerr.ErrPermission or ncerr.ErrIO for one that cannot be
// read. If a log file or lock file cannot be opened, the error is an *fs.PathError.
//
// The package uses core/config, core/plugin/host and core/dataset. No other package of
// core imports it.
package session
