// Package file is the storage driver for directory trees: one file for each object, one
// directory for each prefix.
//
// # Writing
//
// Put writes a temporary file next to its target and renames it, so that no reader, in
// this process or another, sees part of an object. Put creates parent directories on
// demand, and Delete removes them once they are empty. With the option
// durability=rename, the default, a finished Put survives the death of the process.
// With durability=fsync the file and its directories are also synced before Put
// returns, so that it survives a power failure.
//
// The names of temporary files begin with ".nczarr.tmp.", in upper or lower case. They
// are never listed, and keys with such a segment fail with ncerr.ErrBadName. The rest
// of the name is derived from the key, and the file stays locked (flock) until it
// becomes the object. If Put finds such a file, it uses a random name instead, and
// removes the file if it can lock it, because the writer of an unlocked file is dead.
// The next Put of the same key thus removes the file of a killed writer. Files left
// under other keys, or on a file system without locks, are garbage and may be removed;
// mode Create removes them.
//
// A version consists of the size, the modification time and the file number. Put sets
// the time itself, so that two contents of one key differ in version even within one
// tick of the file system's clock. The time is later than the time of the object that
// Put replaces, even if another program wrote that object. If times have a resolution
// of one second, an object that is removed and written again within a second may have
// its old version again.
//
// # Conditions
//
// IfAbsent uses an operation of the file system that fails if the name exists, so the
// condition also holds between processes. For IfMatch the existing object is locked
// (flock) while its version is compared and the object is replaced. Delete and Puts
// without a condition also lock the object that they remove or replace; otherwise a Put
// that has already compared the version could undo them. Keys without an object need no
// lock. A lock ends with its process, and waiting for a lock ends with the context.
//
// Only this driver takes part in the locking: a write by another program between the
// comparison and the replacement is lost. A process that may write to a directory but
// not read its files does not take part either.
//
// Opening a store for writing checks whether the file system has locks. Without them
// (Windows, NFS, SMB) IfMatch is not declared. Some file systems, such as many in user
// space and many network file systems, lock only among the processes of one machine.
// The driver cannot detect them: set SingleWriter there, or use a single writer.
//
// Every process that may read an object can lock it, and a stopped process keeps its
// lock: Put and Delete of that object wait until their context is done.
//
// Mode Create empties an existing directory. It first moves everything into one temporary
// directory and then deletes that directory, so that a killed process is unlikely to
// leave half a store. It never deletes outside the root, never follows a link while
// deleting, and fails for a path that is not a directory. If the directory contains
// anything that cannot be an object (a name that is not UTF-8, a pipe, a mount point),
// Create and Remove delete nothing and fail with ncerr.ErrUnsupported.
//
// # Reading
//
// The root may be a symbolic link and is held open. Links below the root are followed
// as long as they stay below it; others fail with ncerr.ErrPermission. If a file does
// not exist, the driver checks that the root is still the directory that it opened. A
// removed or replaced root, a vanished mount or a dangling link is reported as
// ncerr.ErrIO and never as a missing object. Anything that is neither a file nor a
// directory fails immediately.
//
// Listings are in byte order and do not stat the files, so their sizes are -1. They
// omit directories without objects, names that are not valid segments of keys, and
// pipes, sockets and devices. They include links that cannot be followed, so that
// reading them reports the cause.
//
// # Names
//
// Opening a store for writing detects file systems that ignore case or rewrite Unicode
// (macOS, Windows, removable media). There, a key whose spelling collides with an
// existing one fails with ncerr.ErrBadName. The file system limits the length of segments,
// usually to 255 bytes.
//
// The package implements core/zmap/driver; plugins serve the same package.
//
// Source: netcdf-c libnczarr/zmap_file.c for the layout. Unlike that code, this driver
// does not overwrite files in place, which would leave the tail of longer content.
package file
