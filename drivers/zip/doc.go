// Package zip is the storage driver for datasets stored in a single zip archive.
//
// A key is the name of a member. Members are read in place, by position and without a
// lock; reading a range of a stored member reads only that range. Writes are collected,
// and Flush writes them into one new archive, which replaces the old one by a rename.
// Readers thus see either the old archive or the new one, even if the writer was
// killed. Close without Flush leaves the archive unchanged. Each Flush copies the whole
// archive, even after a small change: collect writes and flush once.
//
//	m, err := zip.New().Open(ctx, driver.OpenSpec{Path: "ocean.zarr.zip"})
//
// # Reading
//
// The driver reads members that are stored or compressed with deflate or bzip2, and
// supports zip64, data descriptors, archive comments and bytes before the archive. If
// several members have the same name, the driver reads the last one in the directory.
// Directory entries are ignored. Members whose name is not a valid key (absolute, with
// an empty, "." or ".." segment, a backslash or a control character, or not UTF-8) and
// symbolic links are omitted, never mapped to another key. [Map.Skipped] lists them,
// and Flush copies them. If the name of such a member suggests a key ("/x", "./x" or a
// link x suggest x), the key is listed, and reading it fails with ncerr.ErrUnsupported
// instead of ncerr.ErrNotFound. A name that is valid UTF-8 is read as UTF-8 even if the
// archive does not declare it so, because Info-ZIP does not. In the listed key of any
// other name, U+FFFD replaces invalid UTF-8 and control characters. Members that are
// encrypted or use another compression method are listed, and reading them fails with
// ncerr.ErrUnsupported.
//
// # Prefix
//
// Some writers put the whole dataset below one top-level directory. Unless the option
// prefix specifies it, opening an archive detects this prefix. An archive with a
// metadata document at its top has no prefix. Otherwise, if all members are below one
// top-level directory that directly contains a metadata document, that directory is the
// prefix. A new archive has no prefix by default, as zarr-python reads and writes it;
// netcdf-c requires one named after the archive (prefix "auto").
//
// The caller specifies the names of documents (driver.OpenSpec.Documents). Without
// them, the prefix comes only from the option or from the comment of the archive. The
// driver writes such a comment if readers might detect another prefix.
//
// # What is written
//
// Equal content results in equal bytes. The archive contains first the documents that
// the caller specified, depth first, and then the other members. It has no directory
// entries, and all new members are dated 1980-01-01. Unchanged members are copied as
// they are, including their date. Unflushed values stay in memory up to the size given
// by the option spill. Further values, and all values of 256 KiB or more, go to a
// temporary file next to the archive. A writer that is killed during a Flush leaves a
// file .NAME.<16 hexadecimal digits>.tmp there. The next opening for writing deletes it
// if it is not locked and was last written more than ten minutes ago.
//
// The package implements core/zmap/driver.
package zip
