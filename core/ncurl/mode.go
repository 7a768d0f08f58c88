package ncurl

import (
	"fmt"
	"slices"
	"strings"
)

// The mode values. Source: netcdf-c libdispatch/dinfermodel.c.
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
	modeV2           = "v2" // not of netcdf-c: Zarr v2, where v3 is beside it
	modeV3           = "v3" // not of netcdf-c: Zarr v3
)

// Modes lists the mode values that [Parse] accepts.
func Modes() []string {
	return []string{
		modeNCZarr, modeZarr, modeXarray, modeNoXarray, modeConsolidated, modeBytes,
		modeFile, modeZip, modeS3, modeGS3, modeV2, modeV3,
	}
}

// storageModes are those of which at most one can hold; s3 and gs3 count as
// one, since Google is reached through the S3 driver.
func storageModes() []string { return []string{modeFile, modeZip, modeS3, modeGS3} }

// refusedMode explains why a mode that the reference knows is refused, or
// gives "".
func refusedMode(mode string) string {
	switch mode {
	case "dap2", "dap4":
		return dapText
	case "nz4":
		return "nz4 kept Zarr objects inside one netCDF-4 file and was removed from netCDF long ago; " +
			"use mode=nczarr,file or mode=nczarr,zip"
	case "netcdf-3", "classic", "netcdf-4", "enhanced":
		return "it names a file format that is not Zarr; convert the file first"
	}
	if len(mode) == 4 && strings.HasPrefix(mode, "udf") && mode[3] >= '0' && mode[3] <= '9' {
		return "user-defined formats belong to the netCDF C library; bring a storage driver as a plugin instead"
	}
	return ""
}

const dapText = "DAP serves variables over its own protocol, not the objects of a Zarr store"

// legacyMode gives today's spelling of an old mode value.
func legacyMode(mode string) string {
	switch mode {
	case "nzf":
		return modeFile
	case "byterange":
		return modeBytes
	}
	return mode
}

// macro gives the mode values that a key without a value stands for, or nil.
// The reference loses all but the first of them; its manual means all.
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

// infer adds what the values of modes imply, breadth first, until nothing is
// new: the order given comes first, then each level of inference.
func infer(modes []string) []string {
	implied := func(mode string) []string {
		switch mode {
		case modeZarr:
			return []string{modeNCZarr}
		case modeXarray, modeV3:
			return []string{modeZarr}
		case modeNoXarray:
			return []string{modeNCZarr, modeZarr}
		}
		return nil
	}
	out := dedupe(modes)
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

// negate removes the values that another one rules out.
func negate(modes []string) []string {
	bytes, noxarray := slices.Contains(modes, modeBytes), slices.Contains(modes, modeNoXarray)
	return slices.DeleteFunc(slices.Clone(modes), func(m string) bool {
		return bytes && (m == modeNCZarr || m == modeZarr) || noxarray && m == modeXarray
	})
}

// dedupe keeps the first of equal values, in a new slice.
func dedupe(modes []string) []string {
	out := make([]string, 0, len(modes)+2)
	for _, m := range modes {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// storageOf gives the storage mode of modes, "" when there is none; of s3 and
// gs3 together it gives gs3.
func storageOf(modes []string) (string, error) {
	var found []string
	for _, m := range storageModes() {
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
	return "", fmt.Errorf("mode names more than one storage: %s", strings.Join(found, ", "))
}
