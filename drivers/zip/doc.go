// Package zip is the storage driver for datasets kept in one zip archive.
//
// A key is the name of a member. Members are read where they are, by position
// and without a lock; reading a range of a stored member touches nothing but
// that range. Writes are collected and become one new archive at Flush, which
// replaces the old one by a rename: a reader, and a machine on which the
// writer was killed, sees the old archive or the new one. Close without Flush
// leaves the archive as it was. So a Flush costs a copy of the whole archive,
// however little has changed: collect writes, flush once.
//
//	m, err := zip.New().Open(ctx, driver.OpenSpec{Path: "ocean.zarr.zip"})
//
// # What is read
//
// Stored and deflated members and those of bzip2, zip64, data descriptors, archive comments and
// bytes in front of the archive. Of several members with one name the last in
// the directory counts. Directory entries are ignored. Members whose name is
// no legal key (absolute, with an empty, "." or ".." segment, a backslash or a
// control character, or not UTF-8) and symbolic links are left out, never
// mapped to another key; [Map.Skipped] lists them, and a Flush carries them
// over. A key that one of them can only have been meant for ("/x", "./x", or a
// link x, for x) is not absent: it is listed, and reading it is
// ncerr.ErrUnsupported. A name that is valid UTF-8 is taken as UTF-8 whether or
// not the archive says so, because Info-ZIP does not say so; any other is not
// guessed at: in the key that is listed U+FFFD stands for what is not UTF-8, and
// for control characters.
// Encrypted members and other methods of compression are listed, and reading
// them is ncerr.ErrUnsupported.
//
// # Prefix
//
// Some writers put the whole dataset below one top-level directory. Unless the
// option prefix says otherwise it is recognised when an archive is opened: an
// archive with a metadata document at its top has no prefix; else, when all
// members are below one top-level directory that has such a document directly
// inside, that directory is the prefix. A new archive gets no prefix by
// default, as zarr-python reads and writes it; netcdf-c wants one named after
// the archive (prefix "auto").
//
// Which names are documents the caller says (driver.OpenSpec.Documents). One that
// does not finds no prefix, but that of the option and that which the comment of
// an archive states. It writes such a comment where others might find another one.
//
// # What is written
//
// Equal content gives equal bytes: the documents that the caller names first,
// depth first, then the other members, without directory entries, all dated 1980-01-01. Members
// that did not change are copied as they are, with their date. Values wait in
// memory up to the size of the option spill; those above it, and those of 256
// KiB or more, wait in a temporary file beside the archive. A writer that is
// killed in a Flush leaves a file .NAME.<16 hexadecimal digits>.tmp there; the
// next opening for writing deletes it when nobody has it locked and it was last
// written more than ten minutes ago.
//
// The layer above is core/zmap; below are the file system or, when
// driver.Env has an Inner Map, one object of that Map.
package zip
