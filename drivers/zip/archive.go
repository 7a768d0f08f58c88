package zip

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// archive is a zip archive that is open for reading. Its content does not change, and
// all methods are safe for concurrent use.
//
// The index is a hash table with open addressing. An entry holds 32 bits of the hash of
// a key and the position of the record in the directory plus one, so that indexing
// takes only 14 to 28 bytes of memory per member.
type archive struct {
	src        *source
	dir        *directory
	prefix     string // prefix of the dataset; empty or with a trailing slash
	found      string // prefix that the names suggest
	sure       bool   // a reader with the list of documents finds the same prefix
	count      int    // number of objects
	hasSkipped bool   // there are members that are neither objects nor directory entries

	seed  maphash.Seed
	mask  uint64
	table []uint64
	heads []atomic.Uint32 // length of the verified local header of each entry

	inOrder  bool // records are in the order of their members, which do not overlap
	offsets  func() []int64
	sorted   func() []uint32
	versions func() []atomic.Pointer[string]
	intended func() map[string]int
	unread   func() []pendingKey

	use sync.RWMutex // held shared by readers of a Map that may replace the archive
}

// newArchive checks and indexes a directory. fixed, if not nil, is the prefix to use
// instead of the one that the names suggest. docs is OpenSpec.Documents.
func newArchive(src *source, d *directory, fixed *string, docs []string) (*archive, error) {
	a := &archive{src: src, dir: d, seed: maphash.MakeSeed()}
	f := prefixFinder{docs: docs}
	recs, err := a.scan(&f)
	if err != nil {
		return nil, err
	}
	a.found, a.sure = f.prefix()
	switch marked, ok := markedPrefix(d.comment); {
	case fixed != nil:
		a.prefix = *fixed
	case ok:
		a.prefix = marked
	default:
		a.prefix = a.found
	}
	a.index(recs)
	a.offsets = sync.OnceValue(a.sortOffsets)
	a.sorted = sync.OnceValue(a.sortKeys)
	a.intended = sync.OnceValue(a.findIntended)
	a.unread = sync.OnceValue(a.sortIntended)
	a.versions = sync.OnceValue(func() []atomic.Pointer[string] {
		return make([]atomic.Pointer[string], len(a.table))
	})
	return a, nil
}

// emptyArchive returns the archive of a new store.
func emptyArchive(prefix string) *archive {
	a, err := newArchive(&source{}, &directory{}, &prefix, nil)
	if err != nil {
		panic("zip: " + err.Error()) // an empty directory is always valid
	}
	return a
}

// scan checks the format of every record. It returns the positions of the records that
// are objects and passes their names to f.
func (a *archive) scan(f *prefixFinder) ([]uint32, error) {
	d, pos := a.dir.raw, 0
	recs := make([]uint32, 0, len(d)/(lenCentral+8)+1)
	var count uint64
	a.inOrder = true
	end := int64(0) // minimum end of the previous member
	for len(d)-pos >= 4 && le.Uint32(d[pos:]) == sigCentral {
		n := recordLen(d[pos:])
		if n == 0 {
			return nil, notZip("record %d of the directory is truncated", count)
		}
		if a.inOrder {
			end, a.inOrder = follows(d[pos:], a.dir.base, end)
		}
		switch classifyRecord(d[pos:]) {
		case isObject:
			recs = append(recs, uint32(pos))
			f.add(recordName(d[pos:]))
		case isDirectory:
		default:
			a.hasSkipped = true
		}
		pos += n
		count++
	}
	if rest := d[pos:]; len(rest) > 0 && (len(rest) < 4 || le.Uint32(rest) != sigSigned) {
		return nil, notZip("the directory has no record at byte %d", pos)
	}
	if count != a.dir.count && (a.dir.wide || count&max16 != a.dir.count) {
		return nil, notZip("the directory has %d records instead of %d", count, a.dir.count)
	}
	return recs, nil
}

// follows reports whether the member of the record at the start of d begins at or after
// end, and returns the minimum end of that member.
func follows(d []byte, base, end int64) (int64, bool) {
	csize, offset := le.Uint32(d[20:]), le.Uint32(d[42:])
	c, o := int64(csize), base+int64(offset)
	if csize == max32 || offset == max32 || le.Uint32(d[24:]) == max32 {
		r, ok := parseRecord(d, base)
		if !ok {
			return 0, false
		}
		c, o = r.csize, r.offset
	}
	return o + lenLocal + int64(le.Uint16(d[28:])) + c, o >= end
}

// index fills the hash table. Among equal keys the last one takes precedence.
func (a *archive) index(recs []uint32) {
	size := 8
	for size*7 < len(recs)*8 {
		size *= 2
	}
	a.table = make([]uint64, size)
	a.heads = make([]atomic.Uint32, size)
	a.mask = uint64(size - 1)
	prefix := []byte(a.prefix)
	for _, pos := range recs {
		name := recordName(a.dir.raw[pos:])
		key, ok := bytes.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		h := maphash.Bytes(a.seed, key)
		i := h & a.mask
		for ; a.table[i] != 0; i = (i + 1) & a.mask {
			if a.table[i]>>32 == h>>32 && bytes.Equal(a.keyAt(a.table[i]), key) {
				a.count--
				break
			}
		}
		a.count++
		a.table[i] = h&^max32 | uint64(pos+1)
	}
}

// skipped returns the positions of the records of members that are not objects of the
// store. It omits directory entries, and objects that a later member of the same name
// replaces.
func (a *archive) skipped() iter.Seq[int] {
	return func(yield func(int) bool) {
		d := a.dir.raw
		for pos := 0; ; {
			n := recordLen(d[pos:])
			if n == 0 {
				return
			}
			why := classifyRecord(d[pos:])
			inside := bytes.HasPrefix(recordName(d[pos:]), []byte(a.prefix))
			if why != isDirectory && (why != isObject || !inside) && !yield(pos) {
				return
			}
			pos += n
		}
	}
}

// findIntended maps keys to the record positions of members whose names are not valid
// keys or that are symbolic links. Each key is the one that was probably intended.
func (a *archive) findIntended() map[string]int {
	list := map[string]int{}
	for pos := range a.skipped() {
		d := a.dir.raw[pos:]
		switch classifyRecord(d) {
		case isAbsolute, isDotted, isEmptySegment, isBackslash, isControl, isNotUTF8, isSymlink:
		default:
			continue
		}
		key, ok := strings.CutPrefix(intendedKey(recordName(d)), a.prefix)
		if ok && key != "" && len(key) <= max16-len(a.prefix) { // U+FFFD takes more bytes than the character that it replaces
			list[key] = pos
		}
	}
	return list
}

// sortIntended returns the keys of findIntended that have no object, in byte order.
func (a *archive) sortIntended() []pendingKey {
	if !a.hasSkipped {
		return nil
	}
	var list []pendingKey
	for key := range a.intended() {
		if a.find(key) < 0 {
			list = append(list, pendingKey{key: key})
		}
	}
	slices.SortFunc(list, func(x, y pendingKey) int { return strings.Compare(x.key, y.key) })
	return list
}

// absent returns the error for a key without an object: ncerr.ErrNotFound, unless the
// name of an unreadable member suggests this key.
func (a *archive) absent(op, key string) error {
	if !a.hasSkipped {
		return ncerr.ErrNotFound
	}
	pos, ok := a.intended()[key]
	if !ok {
		return ncerr.ErrNotFound
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the archive contains the object as %s", a.skipReason(pos))
}

// skipReason describes a member that is not an object: its name and the reason.
func (a *archive) skipReason(pos int) string {
	d := a.dir.raw[pos:]
	return fmt.Sprintf("%.200q, which cannot be read: %s", recordName(d), reasonText[classifyRecord(d)])
}

// foreign rejects an archive that has members but no objects, because it would appear
// to be an empty store.
func (a *archive) foreign() error {
	if a.count > 0 || !a.hasSkipped {
		return nil
	}
	for pos := range a.skipped() {
		return ncerr.Errorf(ncerr.ErrNotZarr, "open", "", "no member of the archive can be used as an object; the first member is %s", a.skipReason(pos))
	}
	return nil
}

// keyAt returns the key of the record at an entry, without the prefix.
func (a *archive) keyAt(entry uint64) []byte {
	return recordName(a.dir.raw[uint32(entry)-1:])[len(a.prefix):]
}

// find returns the index of the entry for key, or -1 if the object does not exist.
func (a *archive) find(key string) int {
	h := maphash.String(a.seed, key)
	for i := h & a.mask; a.table[i] != 0; i = (i + 1) & a.mask {
		if a.table[i]>>32 == h>>32 && string(a.keyAt(a.table[i])) == key {
			return int(i)
		}
	}
	return -1
}

// record returns the record of an entry. ok is false if its sizes or offset are
// impossible.
func (a *archive) record(entry int) (r record, ok bool) {
	return a.recordAt(int(uint32(a.table[entry]) - 1))
}

// recordAt returns the record at a position of the directory.
func (a *archive) recordAt(pos int) (r record, ok bool) {
	r, ok = parseRecord(a.dir.raw[pos:], a.dir.base)
	r.pos = pos
	return r, ok
}

// sortKeys returns the indexes of the entries of all objects, sorted by key.
func (a *archive) sortKeys() []uint32 {
	list := make([]uint32, 0, a.count)
	for i, s := range a.table {
		if s != 0 {
			list = append(list, uint32(i))
		}
	}
	slices.SortFunc(list, func(x, y uint32) int {
		return bytes.Compare(a.keyAt(a.table[x]), a.keyAt(a.table[y]))
	})
	return list
}

// sortOffsets returns the offsets of all members in ascending order, including
// duplicates.
func (a *archive) sortOffsets() []int64 {
	var list []int64
	for pos := 0; ; {
		n := recordLen(a.dir.raw[pos:])
		if n == 0 {
			break
		}
		if r, ok := parseRecord(a.dir.raw[pos:], a.dir.base); ok {
			list = append(list, r.offset)
		}
		pos += n
	}
	slices.Sort(list)
	return list
}

// limit returns the position by which the member of record r must end: the start of the
// next member or of the directory. ok is false if another member starts at the same
// position.
func (a *archive) limit(r record) (end int64, ok bool) {
	if a.inOrder {
		d := a.dir.raw[r.pos:]
		d = d[recordLen(d):]
		if recordLen(d) == 0 {
			return a.dir.start, true
		}
		next, ok := parseRecord(d, a.dir.base)
		return min(next.offset, a.dir.start), ok && next.offset > r.offset
	}
	list := a.offsets()
	i := sort.Search(len(list), func(i int) bool { return list[i] > r.offset })
	ok = i < 2 || list[i-2] != r.offset
	if i == len(list) {
		return a.dir.start, ok
	}
	return min(list[i], a.dir.start), ok
}

// info returns the Info for Stat.
func (a *archive) info(entry int) (driver.Info, error) {
	r, ok := a.record(entry)
	if !ok {
		return driver.Info{}, badRecord("stat", string(a.keyAt(a.table[entry])))
	}
	return a.infoOf(entry, r), nil
}

// infoOf returns the Info for the object of a record. It caches the version.
func (a *archive) infoOf(entry int, r record) driver.Info {
	p := &a.versions()[entry]
	version := p.Load()
	if version == nil {
		version = new(versionOf(r.crc, r.size))
		p.Store(version)
	}
	return driver.Info{Size: r.size, Version: *version, NoRanges: r.method != methodStored}
}

func badRecord(op, key string) error {
	return corrupt(op, key, "invalid size or offset in the directory of the archive")
}

// versionOf builds a version from the checksum and length of the content.
func versionOf(crc uint32, size int64) string {
	b := strconv.AppendUint(make([]byte, 0, 26), uint64(crc), 16)
	return string(strconv.AppendInt(append(b, '-'), size, 16))
}

// retire closes the archive after the last reader has finished.
func (a *archive) retire() error {
	a.use.Lock()
	defer a.use.Unlock()
	return a.src.close()
}
