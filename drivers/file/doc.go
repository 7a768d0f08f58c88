// Package file is the storage driver for directory trees: one file for each
// object, one directory for each prefix.
//
// # Writing
//
// Put writes a temporary file beside its target and renames it, so that
// nobody, in this process or another, ever sees part of an object. Parent
// directories are made on demand, and removed by Delete when they have become
// empty. With the option durability=rename, the default, a Put survives the
// death of the process; with durability=fsync the file and its directories
// are also synced before Put returns, so that it survives a power failure.
//
// Temporary files have names that begin with ".nczarr.tmp." in any case. They
// are never listed, and keys with such a segment are refused as bad names. The
// rest of the name follows from the key, and the file is locked (flock) until it
// has become the object. A Put that finds a file of that name removes it if it
// can lock it, as its writer is dead then; beside a living one it uses a random
// name. So a writer that was killed leaves nothing that the next Put of the same
// keys does not remove. What is left under other keys, and where the file system
// has no locks, is garbage that may be removed; mode Create removes it.
//
// A version is made of size, time of modification and file number. Put sets
// the time itself, so that two contents of one key differ in version even
// within one tick of the file system's clock, and later than that of the object
// that it replaces, whoever wrote that. Where times are kept to the second only,
// an object that is removed and made again within a second may have its old version.
//
// # Conditions
//
// IfAbsent is decided by the file system, for all processes. For IfMatch the
// object that is there is locked (flock) while its version is compared and it is
// replaced. Puts without a condition and Delete lock what they replace or remove
// too, as what they did could be undone otherwise by a Put that has compared
// before; keys without an object need no lock. A lock ends with its process, and
// waiting for one with the context.
//
// Only this driver takes part: what another program writes between the comparison
// and the replacement is lost. Neither does a process that may write a directory
// but not read the files in it.
//
// Whether the file system has locks is found out when a store is opened for
// writing. Without them (Windows, NFS, SMB) IfMatch is not declared. File systems that
// have locks for the processes of one machine only, as many in user space and over a
// network have, cannot be told from others: state SingleWriter there, or have one
// writer.
//
// Whoever may read an object can lock it, and a process that is stopped keeps its lock:
// Put and Delete of that object wait until their context ends.
//
// Mode Create empties an existing directory at once: first all that is there
// is moved into one hidden directory, which is then deleted, so that the time
// in which a killed process leaves half a store is short. It never deletes
// outside the root, never follows a link while deleting, and refuses a path
// that is not a directory. If there is anything that cannot be an object (a
// name that is not UTF-8, a pipe, a mount point), Create and Remove delete
// nothing and fail with ncerr.ErrUnsupported.
//
// # Reading
//
// The root may be a symbolic link and is held open. Links below the root are
// followed as long as they stay below it; others are ncerr.ErrPermission. When
// a file is not there, the driver makes sure that the root is still the
// directory that it opened: a removed or replaced root, or a vanished mount,
// is ncerr.ErrIO and never absence; so is a link that points to nothing.
// What is neither a file nor a directory is refused without waiting.
//
// Listings are in byte order and take no stat per key, so sizes in them are
// -1. They leave out directories without objects, names that are not valid
// segments of keys, and pipes, sockets and devices; links that cannot be
// followed are listed, so that reading them says why.
//
// # Names
//
// File systems that ignore case or rewrite Unicode (macOS, Windows, mounted
// media) are recognised when a store is opened for writing. There, a key whose
// spelling collides with an existing one is refused as a bad name. Segments
// are limited by the file system, usually to 255 bytes.
//
// The package implements core/zmap/driver; plugins serve the same package.
//
// Source: netcdf-c libnczarr/zmap_file.c for the layout; its overwriting in
// place, which leaves the tail of longer content, is not imitated.
package file
