package layer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// disk is the directory of a cache: DIR/v1/ab/abcd..., with one file per entry. The file
// name is a hash of the store, the key and the range. A file consists of a header and the
// content:
//
//	magic, CRC-32C of the file name and the rest of the header, CRC-32C of the
//	content, length of the version, size of the object, modification time,
//	time of the read, length of the content (each little-endian), the version,
//	the content
//
// Files are never modified: they are written under a temporary name and renamed. The
// modification time of a file is the time of its last use, and the least recently used
// files are removed first. No locks are needed, because a process can still read an open
// file that another process deletes.
type disk struct {
	dir     string
	size    int64
	written atomic.Int64 // bytes written since the last sweep
	held    atomic.Int64 // bytes found by the last sweep
	sweeper sync.Mutex   // held by the running sweep
}

const (
	diskMagic   = "nczcach2"
	diskHead    = 8 + 4 + 4 + 4 + 8 + 8 + 8 + 8
	maxVersion  = 1 << 12
	sweepPart   = 16 // a sweep runs after each sixteenth of the size is written
	tempPrefix  = "tmp-"
	tempAge     = time.Hour // age after which a temporary file is assumed to belong to a dead process
	touchPeriod = time.Minute
)

func openDisk(dir string, size int64) (*disk, error) {
	d := &disk{dir: filepath.Join(dir, "v1"), size: size}
	if dir == "" {
		return nil, errors.New("the cache directory is not set")
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkPrivate(d.dir); err != nil {
		return nil, err
	}
	d.written.Store(size) // the first write starts with a sweep
	return d, nil
}

// entryName returns the file name of an entry.
func entryName(identity, key string, r *driver.Range) string {
	text := "whole"
	if r != nil {
		text = strconv.FormatInt(r.Offset, 10) + "+" + strconv.FormatInt(r.Length, 10)
	}
	sum := sha256.Sum256([]byte(strconv.Quote(identity) + strconv.Quote(key) + text))
	return hex.EncodeToString(sum[:])
}

func (d *disk) path(name string) string { return filepath.Join(d.dir, name[:2], name) }

// entry is an open cache file.
type entry struct {
	f       *os.File
	info    driver.Info
	fetched time.Time
	length  int64
	sum     uint32 // checksum of the content
}

// open returns the entry with the given name, or nil if the entry does not exist. If its
// header is damaged, open removes the entry and returns nil and true.
func (d *disk) open(name string) (e *entry, damaged bool) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, false
	}
	e = &entry{f: f}
	if !e.readHead(name) {
		d.drop(e)
		e.close()
		return nil, true
	}
	return e, false
}

func (e *entry) close() { _ = e.f.Close() }

func (e *entry) readHead(name string) bool {
	var head [diskHead]byte
	if _, err := io.ReadFull(e.f, head[:]); err != nil || string(head[:8]) != diskMagic {
		return false
	}
	e.sum = binary.LittleEndian.Uint32(head[12:])
	n := binary.LittleEndian.Uint32(head[16:])
	e.info.Size = int64(binary.LittleEndian.Uint64(head[20:]))
	if t := int64(binary.LittleEndian.Uint64(head[28:])); t != 0 {
		e.info.ModTime = time.Unix(0, t)
	}
	e.fetched = time.Unix(0, int64(binary.LittleEndian.Uint64(head[36:])))
	e.length = int64(binary.LittleEndian.Uint64(head[44:]))
	stat, err := e.f.Stat()
	if err != nil || n > maxVersion || e.length < 0 || e.info.Size < e.length || stat.Size() != diskHead+int64(n)+e.length {
		return false
	}
	version := make([]byte, n)
	if _, err := io.ReadFull(e.f, version); err != nil {
		return false
	}
	e.info.Version = string(version)
	return checksum([]byte(name), head[12:], version) == binary.LittleEndian.Uint32(head[8:])
}

// read reads the content into dst, which has the length of the content. It reports
// whether the read succeeded and the checksum is correct.
func (e *entry) read(dst []byte) bool {
	if _, err := io.ReadFull(e.f, dst); err != nil {
		return false
	}
	return checksum(dst) == e.sum
}

func checksum(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), p)
	}
	return sum
}

// keep writes an entry. began is the time at which the read of the content began.
func (d *disk) keep(name string, began time.Time, info driver.Info, data []byte) error {
	if len(info.Version) > maxVersion {
		return errors.New("the version exceeds the maximum length")
	}
	head := make([]byte, diskHead, diskHead+len(info.Version))
	copy(head, diskMagic)
	binary.LittleEndian.PutUint32(head[12:], checksum(data))
	binary.LittleEndian.PutUint32(head[16:], uint32(len(info.Version)))
	binary.LittleEndian.PutUint64(head[20:], uint64(info.Size))
	if !info.ModTime.IsZero() {
		binary.LittleEndian.PutUint64(head[28:], uint64(info.ModTime.UnixNano()))
	}
	binary.LittleEndian.PutUint64(head[36:], uint64(began.UnixNano()))
	binary.LittleEndian.PutUint64(head[44:], uint64(len(data)))
	head = append(head, info.Version...)
	binary.LittleEndian.PutUint32(head[8:], checksum([]byte(name), head[12:]))
	n := int64(len(head) + len(data))
	if d.written.Add(n) > d.size/sweepPart || d.held.Load()+d.written.Load() > d.size {
		d.sweep()
	}
	return d.write(name, head, data)
}

func (d *disk) write(name string, head, data []byte) error {
	path := d.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.MultiReader(bytes.NewReader(head), bytes.NewReader(data)))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is more informative
	}
	return err
}

// drop removes a damaged entry.
func (d *disk) drop(e *entry) { _ = os.Remove(e.f.Name()) }

// touch records that an entry was used.
func (d *disk) touch(e *entry) {
	if stat, err := e.f.Stat(); err == nil && time.Since(stat.ModTime()) > touchPeriod {
		now := time.Now()
		_ = os.Chtimes(e.f.Name(), now, now)
	}
}

// cachedFile is a file found by a sweep.
type cachedFile struct {
	path string
	size int64
	used time.Time
}

// sweep measures the size of the cache. If the cache uses more than nine tenths of its
// maximum size, sweep removes the least recently used files until it uses eight tenths.
func (d *disk) sweep() {
	if !d.sweeper.TryLock() {
		return
	}
	defer d.sweeper.Unlock()
	d.written.Store(0)
	var files []cachedFile
	var total int64
	_ = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // a file that cannot be examined is kept
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // another process has removed the file
		}
		if strings.HasPrefix(e.Name(), tempPrefix) && time.Since(info.ModTime()) > tempAge {
			_ = os.Remove(path)
			return nil
		}
		files = append(files, cachedFile{path, info.Size(), info.ModTime()})
		total += info.Size()
		return nil
	})
	if total > d.size*9/10 {
		slices.SortFunc(files, func(a, b cachedFile) int { return cmp.Compare(a.used.UnixNano(), b.used.UnixNano()) })
		for _, f := range files {
			if total <= d.size*8/10 {
				break
			}
			if !strings.HasPrefix(filepath.Base(f.path), tempPrefix) && os.Remove(f.path) == nil {
				total -= f.size
			}
		}
	}
	d.held.Store(total)
}
