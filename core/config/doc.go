// Package config reads configuration files: the TOML files of nczarr, the rc
// files of the netCDF library, and the AWS settings that URL inference needs.
//
//	cfg, err := config.Load(config.Files(flag, env), os.ReadFile)
//	// cfg.Limits.MaxChunk, cfg.Drivers["s3"].JSON(), ...
//
// [Files], [RCFiles] and [AWSFiles] return the names of the files. The loaders read
// files only through a function that the caller passes, so tests need no file
// system. The package does not read the process environment; see [Env].
//
// Every key in a TOML file is checked. The error for an unknown table or key
// contains the file, the line and the most similar known key. [Keys] lists all keys with
// their types and defaults. The tables [drivers.NAME] and [filters.NAME] become
// JSON, which the driver or filter checks.
//
// RCEntry and AWSProfile have the same fields as RCEntry and Profile of core/ncurl,
// so they convert to these types. Neither package imports the other.
package config
