// Package config turns configuration files into typed values: the TOML files
// of nczarr, the lock file that pins plugins, the rc files of the netCDF
// library, and what URL inference needs of the AWS files.
//
//	cfg, err := config.Load(config.Files(flag, env), os.ReadFile)
//	// cfg.Limits.MaxChunk, cfg.Drivers["s3"].JSON(), ...
//
// The package decides nothing about where files are beyond naming them
// ([Files], [RCFiles], [AWSFiles]) and reads them only through a function
// that the caller gives, so that it is tested without a file system. It never
// reads the process environment: see [Env].
//
// In a TOML file every key is checked: an unknown table or key is an error
// that names file, line and the nearest known key. [Keys] lists them all with
// types and defaults; it is the only place where defaults stand. The tables
// [drivers.NAME] and [filters.NAME] are handed on as JSON and checked by the
// driver or filter itself.
//
// Values are plain: RCEntry and AWSProfile have the fields of their namesakes
// in core/ncurl, so that one converts to the other, and neither package
// imports the other.
//
// Above this package is core/session; below it is core/ncerr.
package config
