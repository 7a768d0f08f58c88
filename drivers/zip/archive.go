package zip

import (
	"bytes"
	"context"
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

// archive is one zip archive, open for reading. What it says does not change,
// and all methods are safe for concurrent use.
//
// The index is a hash table with open addressing. A entry holds 32 bits of the
// hash of a key and, plus one, the position of the record in the directory,
// so that indexing takes no memory per member beyond 14 to 28 bytes.
type archive struct {
	src    source
	dir    *directory
	prefix string // "" or with its slash
	found  string // what the names alone suggest as prefix
	sure   bool   // whoever knows the documents finds the same
	count  int    // objects
	hasSkipped    bool   // there are members, directories aside, whose name is no key

	seed  maphash.Seed
	mask  uint64
	table []uint64
	heads []atomic.Uint32 // per entry, length of the verified local header

	inOrder  bool // records stand in the order of their members, none overlapping
	offsets  func() []int64
	sorted   func() []uint32
	versions func() []atomic.Pointer[string]
	intended  func() map[string]int
	unread   func() []pendingKey

	use sync.RWMutex // held shared by readers of a Map that may replace it
}

// newArchive checks and indexes a directory. fixed, when not nil, is the
// prefix to use instead of the one that the names suggest. docs are those of
// OpenSpec.Documents.
func newArchive(src source, d *directory, fixed *string, docs []string) (*archive, error) {
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

// emptyArchive is what a new store starts from.
func emptyArchive(prefix string) *archive {
	a, err := newArchive(emptySource{}, &directory{}, &prefix, nil)
	if err != nil {
		panic("zip: " + err.Error()) // an empty directory has no flaw
	}
	return a
}

// scan checks the form of every record and gives the positions of those that
// are objects, whose names it shows to f.
func (a *archive) scan(f *prefixFinder) ([]uint32, error) {
	d, pos := a.dir.raw, 0
	recs := make([]uint32, 0, len(d)/(lenCentral+8)+1)
	var count uint64
	a.inOrder = true
	end := int64(0) // of the member before, at least
	for len(d)-pos >= 4 && le.Uint32(d[pos:]) == sigCentral {
		n := recordLen(d[pos:])
		if n == 0 {
			return nil, notZip("record %d of the directory is cut off", count)
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
		return nil, notZip("no record at byte %d of the directory", pos)
	}
	if count != a.dir.count && (a.dir.wide || count&max16 != a.dir.count) {
		return nil, notZip("the directory has %d records and should have %d", count, a.dir.count)
	}
	return recs, nil
}

// follows reports whether the member of the record at the start of d begins
// at end or behind it, and where it ends at the earliest.
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

// index fills the hash table. Of equal keys the last stays.
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

// skipped gives the positions of the records of members that are no objects;
// directory entries and members that a later one of the same name replaces
// are left out.
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

// findIntended gives, by the keys that they can only have been meant for, the
// positions of the records of members that are no objects.
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
		if ok && key != "" && len(key) <= max16-len(a.prefix) { // U+FFFD takes more bytes than what it stands for
			list[key] = pos
		}
	}
	return list
}

// sortIntended gives the keys of findIntended that are not those of objects, in
// byte order.
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

// absent says why there is no object of this key: ncerr.ErrNotFound, unless
// the archive has a member that can only have been meant for it.
func (a *archive) absent(op, key string) error {
	if !a.hasSkipped {
		return ncerr.ErrNotFound
	}
	pos, ok := a.intended()[key]
	if !ok {
		return ncerr.ErrNotFound
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, op, key, "the archive has it as %s", a.whyNot(pos))
}

// whyNot names the member of a record that is no object, and the reason.
func (a *archive) whyNot(pos int) string {
	d := a.dir.raw[pos:]
	return fmt.Sprintf("%.200q, which is not read: %s", recordName(d), reasonText[classifyRecord(d)])
}

// foreign refuses an archive that has members but not one object: as an empty
// store it would only seem to be one.
func (a *archive) foreign() error {
	if a.count > 0 || !a.hasSkipped {
		return nil
	}
	for pos := range a.skipped() {
		return ncerr.Errorf(ncerr.ErrNotZarr, "open", "", "no member of the archive can be read; the first is %s", a.whyNot(pos))
	}
	return nil
}

// keyAt gives the key of the record that a entry names, without its prefix.
func (a *archive) keyAt(entry uint64) []byte {
	return recordName(a.dir.raw[uint32(entry)-1:])[len(a.prefix):]
}

// find gives the entry of key, -1 when there is no such object.
func (a *archive) find(key string) int {
	h := maphash.String(a.seed, key)
	for i := h & a.mask; a.table[i] != 0; i = (i + 1) & a.mask {
		if a.table[i]>>32 == h>>32 && string(a.keyAt(a.table[i])) == key {
			return int(i)
		}
	}
	return -1
}

// record gives the record of a entry. ok is false when it is impossible.
func (a *archive) record(entry int) (r record, ok bool) {
	return a.recordAt(int(uint32(a.table[entry]) - 1))
}

// recordAt gives the record at a position of the directory.
func (a *archive) recordAt(pos int) (r record, ok bool) {
	r, ok = parseRecord(a.dir.raw[pos:], a.dir.base)
	r.pos = pos
	return r, ok
}

// sortKeys gives the table of all objects in the order of their keys.
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

// sortOffsets gives the offsets of all members in ascending order, repeated
// ones repeated.
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

// limit gives the position before which the member of record r must end: the
// start of the next member or of the directory. ok is false when another
// member starts at the same place.
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

// info gives what Stat says about an object.
func (a *archive) info(entry int) (driver.Info, error) {
	r, ok := a.record(entry)
	if !ok {
		return driver.Info{}, badRecord("stat", string(a.keyAt(a.table[entry])))
	}
	return a.infoOf(entry, r), nil
}

// infoOf gives the facts about the object of a record.
func (a *archive) infoOf(entry int, r record) driver.Info {
	return driver.Info{Size: r.size, Version: a.version(entry, r), NoRanges: r.method != methodStored}
}

func badRecord(op, key string) error {
	return corrupt(op, key, "impossible size or offset in the directory of the archive")
}

// version gives the version of an object; it is made once.
func (a *archive) version(entry int, r record) string {
	p := &a.versions()[entry]
	if v := p.Load(); v != nil {
		return *v
	}
	v := versionOf(r.crc, r.size)
	p.Store(&v)
	return v
}

// versionOf makes a version from the checksum and the length of the content.
func versionOf(crc uint32, size int64) string {
	b := strconv.AppendUint(make([]byte, 0, 26), uint64(crc), 16)
	return string(strconv.AppendInt(append(b, '-'), size, 16))
}

// openArchive reads and indexes what src holds.
func openArchive(ctx context.Context, src source, fixed *string, docs []string) (*archive, error) {
	d, err := readDirectory(ctx, src)
	if err != nil {
		return nil, err
	}
	return newArchive(src, d, fixed, docs)
}

// retire closes the archive when the last reader has left it.
func (a *archive) retire() error {
	a.use.Lock()
	defer a.use.Unlock()
	return a.src.close()
}
