package zarr

import (
	"path"
	"strings"
)

// growthMark is the object, or the directory of objects, that marks an array
// that is being made longer.
const growthMark = ".nczgrowing"

// ReplacingMark is the object that marks a dataset that is being replaced, or
// made where none was.
const ReplacingMark = ".nczreplacing"

// Foreign returns those of the names in a store that are not part of the Zarr
// dataset at its root, in the order given, and reports whether there is a
// dataset at the root. Names are keys, or what else the store holds; one with
// a slash at its end is a directory without entries.
//
// These belong to a dataset: the documents of a node (a directory with .zgroup,
// .zarray or zarr.json) that is the root or lies in a group, or in directories
// without documents in a group; the objects of an array that are named like
// chunks; and the marks of growing arrays. Foreign reads no document, so an
// object named like a chunk beyond the shape counts as a chunk.
func Foreign(names []string) (foreign []string, dataset bool) {
	m := membersOf(names)
	for _, name := range names {
		if !m.has(name) {
			foreign = append(foreign, name)
		}
	}
	return foreign, m.node("")
}

// nodeKind says which documents of nodes a directory has.
type nodeKind uint8

const (
	groupNode nodeKind = 1 << iota
	arrayNode
	v3Node    // an array or a group
	reachable // it is the root, or all directories above are groups
	looked    // reachable has been decided
)

// members knows the nodes of a dataset by their directories.
type members map[string]nodeKind

func membersOf(names []string) members {
	m := make(members)
	for _, name := range names {
		switch dir, base := path.Split(name); base {
		case docGroup, ".nczgroup", ".ncgroup":
			m[dir] |= groupNode
		case docArray:
			m[dir] |= arrayNode
		case docV3:
			m[dir] |= v3Node
		}
	}
	return m
}

// node reports whether dir, empty or with a slash at its end, is a node of the
// dataset.
func (m members) node(dir string) bool {
	return m[dir]&(groupNode|arrayNode|v3Node) != 0 && m.reaches(dir)
}

// reaches reports whether dir is the root of a dataset, or all directories above
// are groups in one. A directory without documents is a group, too.
func (m members) reaches(dir string) bool {
	kind := m[dir]
	if kind&looked == 0 {
		kind |= looked
		up := above(dir)
		isArray := m[up]&arrayNode != 0 && m[up]&groupNode == 0
		if dir == "" && kind&(groupNode|arrayNode|v3Node) != 0 || dir != "" && !isArray && m.reaches(up) {
			kind |= reachable
		}
		m[dir] = kind
	}
	return kind&reachable != 0
}

// above returns the directory that holds dir; the root holds itself.
func above(dir string) string {
	up, _ := path.Split(strings.TrimSuffix(dir, "/"))
	return up
}

// has reports whether a name is part of the dataset.
func (m members) has(name string) bool {
	dir, base := path.Split(name)
	mark := name == growthMark || dir == growthMark+"/" && base != ""
	if m.node(dir) && IsZarrDoc(base) || mark && m.node("") || name == ReplacingMark {
		return true
	}
	for at := dir; ; at = above(at) {
		if m.node(at) && m[at]&(arrayNode|v3Node) != 0 {
			return isChunkName(strings.TrimSuffix(name[len(at):], "/"), m[at]&v3Node != 0)
		}
		if at == "" {
			return false
		}
	}
}

// IsChunkName reports whether the last segment of a key may be that of a chunk.
func IsChunkName(base string) bool { return isChunkName(base, false) }

// isChunkName reports whether a name in an array is that of a chunk, or of a
// directory of chunks.
func isChunkName(name string, v3 bool) bool {
	if v3 && name == "c" {
		return true
	}
	if rest, ok := strings.CutPrefix(name, "c"); ok && v3 && (rest[0] == '/' || rest[0] == '.') {
		name = rest[1:]
	}
	for seg := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '.' }) {
		if strings.Trim(seg, "0123456789") != "" || len(seg) > 1 && seg[0] == '0' {
			return false
		}
	}
	return name != "" && !strings.Contains(name, "..") && name[0] != '.' && name[len(name)-1] != '.'
}
