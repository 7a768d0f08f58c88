package ncurl

import (
	"fmt"
	"slices"
	"strings"
)

// The mode values.
//
// Source: netcdf-c libdispatch/dinfermodel.c.
const (
	modeNCZarr       = "nczarr"
	modeZarr         = "zarr"
	modeXarray       = "xarray"
	modeNoXarray     = "noxarray"
	modeConsolidated = "consolidated"
	modeBytes        = "bytes"
	modeFile         = "file"
	modeZip          = "zip"
	modeS3           = "s3"
	modeGS3          = "gs3"
	modeKerchunk     = "kerchunk" // a reference file of Kerchunk; unknown to netcdf-c
	modeV2           = "v2"       // the v2 documents of a store that also has v3 documents; unknown to netcdf-c
	modeV3           = "v3"       // Zarr v3, pure unless nczarr is given too; unknown to netcdf-c
)

// Modes returns the mode values that [Parse] accepts.
func Modes() []string {
	return []string{
		modeNCZarr, modeZarr, modeXarray, modeNoXarray, modeConsolidated, modeBytes,
		modeFile, modeZip, modeS3, modeGS3, modeKerchunk, modeV2, modeV3,
	}
}

// refusedMode returns the reason why a mode of netcdf-c is not supported, or "".
func refusedMode(mode string) string {
	switch mode {
	case "dap2", "dap4":
		return dapText
	case "nz4":
		return "nz4 kept Zarr objects inside a netCDF-4 file, and netCDF no longer supports it; " +
			"use mode=nczarr,file or mode=nczarr,zip"
	case "netcdf-3", "classic", "netcdf-4", "enhanced":
		return "the mode names a file format that is not Zarr; convert the file first"
	}
	if len(mode) == 4 && strings.HasPrefix(mode, "udf") && mode[3] >= '0' && mode[3] <= '9' {
		return "user-defined formats belong to the netCDF C library; write a storage driver plugin instead"
	}
	return ""
}

const dapText = "DAP serves variables, not the objects of a Zarr store"

// legacyMode returns the current spelling of a mode value.
func legacyMode(mode string) string {
	switch mode {
	case "nzf":
		return modeFile
	case "byterange":
		return modeBytes
	}
	return mode
}

// macro returns the mode values that a key without a value expands to, or nil. It
// follows the manual of netcdf-c; the code of netcdf-c drops all values except the
// first.
func macro(key string) []string {
	switch strings.ToLower(key) {
	case "zarr":
		return []string{modeNCZarr, modeZarr}
	case "xarray":
		return []string{modeZarr}
	case "noxarray":
		return []string{modeNCZarr, modeNoXarray}
	case "s3":
		return []string{modeS3, modeNCZarr}
	case "gs3":
		return []string{modeGS3, modeNCZarr}
	case "bytes", "byterange":
		return []string{modeBytes}
	case "dap2", "dap4":
		return []string{strings.ToLower(key)}
	}
	return nil
}

// infer returns modes and the modes that they imply, without duplicates. The given modes
// come first, followed by each level of inference, until no new mode appears.
func infer(modes []string) []string {
	implied := func(mode string) []string {
		switch mode {
		case modeZarr:
			return []string{modeNCZarr}
		case modeXarray:
			return []string{modeZarr}
		case modeV3:
			if slices.Contains(modes, modeNCZarr) {
				return nil
			}
			return []string{modeZarr}
		case modeNoXarray:
			return []string{modeNCZarr, modeZarr}
		}
		return nil
	}
	out := make([]string, 0, len(modes)+2)
	for _, m := range modes {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	for level := out; len(level) > 0; {
		var next []string
		for _, mode := range level {
			for _, m := range implied(mode) {
				if !slices.Contains(out, m) && !slices.Contains(next, m) {
					next = append(next, m)
				}
			}
		}
		out = append(out, next...)
		level = next
	}
	return out
}

// negate removes modes that another mode excludes.
func negate(modes []string) []string {
	bytes, noxarray := slices.Contains(modes, modeBytes), slices.Contains(modes, modeNoXarray)
	return slices.DeleteFunc(slices.Clone(modes), func(m string) bool {
		return bytes && (m == modeNCZarr || m == modeZarr) || noxarray && m == modeXarray
	})
}

// storageOf returns the mode in modes that selects a storage, or "". It fails if modes
// contains several storage modes, with one exception: s3 and gs3 may occur together,
// because the S3 driver also serves Google. storageOf then returns gs3.
func storageOf(modes []string) (string, error) {
	var found []string
	for _, m := range []string{modeFile, modeZip, modeS3, modeGS3} {
		if slices.Contains(modes, m) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 0:
		return "", nil
	case len(found) == 1:
		return found[0], nil
	case len(found) == 2 && found[0] == modeS3:
		return modeGS3, nil
	}
	return "", fmt.Errorf("mode specifies more than one storage: %s", strings.Join(found, ", "))
}
