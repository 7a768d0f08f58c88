// Package place works with the paths of stores in the local file system. It compares two
// paths, lists the content of a directory, and replaces a store. The old store is not
// removed before the new one is durable.
//
//	s, err := place.NewStage("/data/x.zarr", place.StageOptions{Directory: true})
//	... make the new store at s.Path ...
//	err = s.Commit()
//
// # Temporary directories
//
// A [Temp] is a directory that contains a mark, which is a file with a fixed first line.
// The process that created the Temp locks it until the process ends. [Sweep] visits only
// directories that contain the mark and that it can lock. It does not rely on names,
// process ids or boot ids, because these are not unique across containers. On a file
// system without locks, Sweep removes nothing.
//
// The package does not depend on the format of datasets.
package place
