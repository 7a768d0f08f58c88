// Package place works on the places of stores in the local file system: it
// compares two places, lists everything in one, and replaces one by another
// without losing the old before the new is durable.
//
//	s, err := place.NewStage("/data/x.zarr", place.StageOptions{Directory: true})
//	... make the new store at s.Path ...
//	err = s.Commit()
//
// # Temporary directories
//
// A [Temp] is a directory that carries the mark, a file with a text of our own,
// and is locked until its process ends. [Sweep] visits only directories that
// carry the mark and that it can lock. Names, process ids and boot ids prove
// nothing, because containers share them. Nothing is ever swept on a file system
// without locks.
//
// The package knows paths and files, but not datasets.
package place
