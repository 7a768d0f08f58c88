// Package session turns configuration files, the environment and the options
// of a program into a registry of drivers and filters and the options of
// datasets. It does for any program what nczctl does when it starts:
//
//	s, err := session.New(nil)
//	...
//	defer s.Close()
//	ds, err := nczarr.Open(ctx, url, s.Options())
//
// Open is that of core/nczarr. The package at the root of the module takes the
// same options with WithOptions.
//
// # What is read
//
// [New] reads, once:
//
//   - the configuration files that config.Files names: the user's, the one of
//     $NCZARR_CONFIG, and Options.Config;
//   - the lock file that pins plugins, see config.Config.LockPath;
//   - the rc files of netCDF and the AWS files, for what URLs mean. They are
//     shared with other programs: what is wrong in them is passed to
//     Options.Warn, and does not fail;
//   - $NCZARR_ISOLATION, $NCZARR_LOG_FILE, $NCTRACING and $NCLOGGING.
//
// core/plugin/host searches the directories of $NCZARR_PLUGIN_PATH, too.
// Drivers read their credentials from the environment when they open a store.
//
// # Precedence
//
// A field of [Options] comes before the environment, the environment before
// the configuration files, and these before the defaults of config.Keys. Of
// the files, a later one overrides an earlier one key by key. Options.PluginDirs
// are searched before plugins.dirs; Options.AllowUnpinned and
// Options.RequireSandbox add to the files and take nothing back.
//
// # Where drivers and filters run
//
// A program that calls [Main] first, and passes the result as Options.Self,
// can run them in processes of their own, as nczctl does; on Linux that is the
// default then. Without it, the default is the drivers and filters of
// drivers/builtin and filters/builtin in the process of the program, and no
// plugins of others. Isolation "process" makes opening a dataset with built-in
// drivers fail then.
//
// # Errors
//
// A bad value in a configuration file, a lock file that does not parse, and an
// unknown isolation are ncerr.ErrInvalid; where a file is to blame, the error
// names it, the line and the key. A configuration file that is too large is
// ncerr.ErrLimit, one that cannot be read ncerr.ErrPermission or ncerr.ErrIO.
// A log file or a lock file that cannot be opened is an *fs.PathError.
//
// Below are core/config, core/plugin/host and core/nczarr; nothing in core
// imports this package.
package session
