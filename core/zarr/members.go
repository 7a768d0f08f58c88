package zarr

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// GrowthMark is the object, or the directory of objects, that marks an array
// that is being made longer.
const GrowthMark = ".nczgrowing"

// ReplacingMark is the object that marks a dataset that is being replaced, or
// made where none was.
const ReplacingMark = ".nczreplacing"

// StageMark is the object that says that a store is a stage: a new dataset that is
// to replace another one.
const StageMark = ".nczstage"

// probePrefix begins the name of an object that is in a store for a moment.
const probePrefix = ".nczprobe-"

// NewProbe returns a name for an object that is put into a store for a moment, to
// find out whether it shows in another one.
func NewProbe() string { return probePrefix + rand.Text() }

// IsProbe reports whether an object has a name that [NewProbe] returns. A process
// that was killed may have left it: it belongs to the dataset that it is in.
func IsProbe(base string) bool {
	text, ok := strings.CutPrefix(base, probePrefix)
	return ok && len(text) == 26 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// IsOwn reports whether a name in a group is that of a metadata document, or of
// a mark or temporary object of this program. Readers take no node from it,
// whatever lies below it.
func IsOwn(name string) bool {
	switch name {
	case GrowthMark, ReplacingMark, StageMark, NewNodeMark:
		return true
	}
	return IsZarrDoc(name) || IsProbe(name) || strings.HasPrefix(name, ".nczarr-") || strings.HasPrefix(name, ".nczarr.tmp.")
}

// NewNodeMark is the object that keeps the place of a node that is being made, in a
// layout of which every document would show the node to readers.
const NewNodeMark = ".ncznewnode"

// ChunkKeys says how the chunks of an array are named.
type ChunkKeys struct {
	Rank      int    `json:"rank"`
	Separator string `json:"separator"`
	Prefix    bool   `json:"prefix,omitempty"` // see chunk.Keys
}

// arrayKeys is what a .zarray says of the keys of chunks.
type arrayKeys struct {
	Shape     []int64 `json:"shape"`
	Separator string  `json:"dimension_separator"`
}

// NodeDoc returns the name of the document that makes a directory an array with such
// chunks, or a group if k is nil; what it says of the keys of chunks, nil if it says
// nothing; and the names of the documents that would make the directory another node.
func (l Layout) NodeDoc(k *ChunkKeys) (name string, doc []byte, other []string) {
	v3 := l.Format() == 3
	switch {
	case v3 && k == nil:
		return V3Doc, []byte(`{"node_type": "group"}`), []string{GroupDoc, ArrayDoc, OldGroupDoc, OldArrayDoc}
	case k == nil:
		return GroupDoc, nil, []string{ArrayDoc, OldArrayDoc}
	}
	shape := make([]int64, min(max(k.Rank, 0), chunk.MaxRank))
	if v3 {
		w := &jsontext.Writer{}
		w.Open('{')
		w.Key("node_type").String("array")
		w.Key("shape").Ints(shape)
		w.Key("chunk_key_encoding")
		writeKeysV3(w, k.Prefix, k.Separator)
		w.Close()
		return V3Doc, w.Bytes(), []string{GroupDoc, ArrayDoc, OldGroupDoc, OldArrayDoc, ConsolidatedDoc}
	}
	doc, _ = json.Marshal(arrayKeys{shape, k.Separator}) // numbers and text
	return ArrayDoc, doc, []string{GroupDoc, OldGroupDoc, V3Doc, ConsolidatedDoc}
}

// Describes reports whether a document of the name that [Layout.NodeDoc] returns is
// that of an array whose chunks are named so, or of a group if k is nil. A scalar of v2
// may have one dimension in the store.
func (l Layout) Describes(k *ChunkKeys, doc []byte) bool {
	switch {
	case l.Format() != 3 && k == nil:
		return true
	case l.Format() != 3:
		var a arrayKeys
		err := json.Unmarshal(doc, &a)
		return err == nil && max(len(a.Shape), 1) == max(k.Rank, 1) && cmp.Or(a.Separator, ".") == k.Separator
	case k == nil:
		return nodeType(doc) == "group"
	}
	return nodeType(doc) == "array" && slices.Equal(keyingsOfV3(doc), []keying{{k.Rank, k.Separator, k.Prefix}})
}

// WithGroups adds, to the keys of a dataset that is being removed, the documents of
// groups above nodes, which may have been removed already. Those of Zarr v3 are added
// if v3 is set: all its nodes in the store are then known to be of that dataset.
func WithGroups(keys []string, v3 bool) []string {
	out := append(slices.Clone(keys), GroupDoc)
	seen := map[string]bool{"": true}
	v3 = v3 && slices.ContainsFunc(keys, func(key string) bool { return path.Base(key) == V3Doc })
	if v3 {
		out = append(out, V3Doc)
	}
	for _, key := range keys {
		dir, base := path.Split(key)
		if !Announces(base) {
			continue
		}
		for dir = above(dir); !seen[dir]; dir = above(dir) {
			seen[dir] = true
			if out = append(out, dir+GroupDoc); v3 {
				out = append(out, dir+V3Doc)
			}
		}
	}
	return out
}

// Foreign returns those of the names in a store that are not part of the Zarr
// dataset at its root, in the order given, and reports whether there is a
// dataset at the root. Names are keys, or what else the store holds; one with
// a slash at its end is a directory without entries. docs are documents of the
// store by key, see [MemberDocs].
//
// These belong to a dataset: the documents of a node (a directory with .zgroup,
// .zarray or zarr.json) that is the root, or lies in a group that belongs to it;
// the chunks of an array, by their rank and separator; and the marks of growing
// arrays. A group with NCZarr's lists has the nodes that they name. Others have
// all that lie directly in them, but for datasets of their own: those with a
// superblock or consolidated metadata. Nodes that have only documents of a version
// of Zarr that the root has no documents of do not belong to it either, nor does
// what is below them.
//
// Of a document that is not there, or makes no sense, Foreign takes what its name
// says: a damaged document does not make its chunks foreign. Shapes do not count:
// a chunk beyond them is one.
func Foreign(names []string, docs Docs) (foreign []string, dataset bool) {
	m := membersOf(names, docs)
	for _, name := range names {
		if !m.has(name) {
			foreign = append(foreign, name)
		}
	}
	return foreign, m.node("") != nil
}

// MemberDocs returns those of the names in a store that are documents by which
// [Foreign] decides.
func MemberDocs(names []string) []string {
	kinds := make(map[string]nodeKind) // by directory
	for _, name := range names {
		dir, base := path.Split(name)
		kinds[dir] |= kindOf(base)
	}
	var out []string
	for _, name := range names {
		dir, base := path.Split(name)
		group := kinds[dir]&groupNode != 0 && slices.Contains(groupDocs[:], base)
		if group || base == ArrayDoc || base == V3Doc {
			out = append(out, name)
		}
	}
	return out
}

// groupDocs are the documents that may have lists of nodes, or a superblock.
var groupDocs = [...]string{GroupDoc, AttrsDoc, OldGroupDoc} // constant

// nodeKind says which documents of nodes a directory has.
type nodeKind uint8

const (
	groupNode nodeKind = 1 << iota
	arrayNode
	v3Node  // an array or a group
	v3Array // one whose document says that it is an array
	rootOf  // a dataset of its own, unless it is the root
)

// kindOf returns what a document of this name makes of its directory.
func kindOf(base string) nodeKind {
	switch base {
	case GroupDoc, OldGroupDoc, ".ncgroup":
		return groupNode
	case ArrayDoc:
		return arrayNode
	case V3Doc:
		return v3Node
	case ConsolidatedDoc, ".nczarr":
		return rootOf
	}
	return 0
}

// member is a directory with documents of a node.
type member struct {
	kind   nodeKind
	listed []string // the nodes in a group; nil if all are
	keys   []keying // of chunks
	state  uint8    // whether it belongs to the dataset; 0 is undecided
}

// The states of a member.
const (
	belongs = 1 + iota
	strange
)

// keying describes the keys of the chunks of an array.
type keying struct {
	rank   int    // -1 if it is not known
	seps   string // the possible separators
	prefix bool   // the letter c and a separator come first
}

// members knows the nodes of a dataset by their directories.
type members map[string]*member

func membersOf(names []string, docs Docs) members {
	m := make(members)
	for _, name := range names {
		dir, base := path.Split(name)
		if kind := kindOf(base); kind != 0 {
			if m[dir] == nil {
				m[dir] = &member{}
			}
			m[dir].kind |= kind
		}
	}
	for dir, n := range m {
		if n.kind&arrayNode != 0 {
			n.keys = append(n.keys, keyingOf(docs[dir+ArrayDoc]))
		}
		if n.kind&v3Node != 0 {
			n.keys = append(n.keys, keyingsOfV3(docs[dir+V3Doc])...)
			if nodeType(docs[dir+V3Doc]) == "array" {
				n.kind |= v3Array
			}
		}
		if n.kind&groupNode != 0 {
			n.readGroup(dir, docs)
		}
	}
	return m
}

// readGroup takes the lists of a group, and whether it is the root of a dataset,
// from its documents.
func (n *member) readGroup(dir string, docs Docs) {
	own := make(Docs, len(groupDocs))
	for _, name := range groupDocs {
		if doc, ok := docs[dir+name]; ok {
			own[name] = doc
		}
	}
	g, err := ParseGroup(dir, own, LayoutNewest)
	if err != nil {
		return
	}
	if g.Listed {
		n.listed = slices.Concat([]string{}, g.Arrays, g.Groups)
		slices.Sort(n.listed)
	}
	if g.Superblock != "" {
		n.kind |= rootOf
	}
}

// keyingOf reads how the chunks of an array are named. Software that nests chunks
// need not say so.
func keyingOf(doc []byte) keying {
	v, err := jsontext.Check(string(doc))
	if shape := v.Get("shape"); err == nil && shape.Kind() == jsontext.Array {
		k := keying{rank: shape.Len(), seps: "./"}
		if sep := v.Get("dimension_separator"); sep.Kind() == jsontext.String {
			k.seps = sep.Text()
		}
		return k
	}
	return keying{rank: -1, seps: "./"}
}

// keyingsOfV3 is keyingOf for zarr.json. A group has no chunks.
func keyingsOfV3(doc []byte) []keying {
	v, err := jsontext.Check(string(doc))
	shape, encoding := v.Get("shape"), v.Get("chunk_key_encoding")
	switch {
	case err == nil && v.Get("node_type").Text() == "group":
		return nil
	case err != nil || shape.Kind() != jsontext.Array:
		return []keying{{rank: -1, seps: "./"}, {rank: -1, seps: "./", prefix: true}}
	}
	sep := encoding.Get("configuration").Get("separator").Text()
	switch encoding.Get("name").Text() {
	case "default":
		return []keying{{shape.Len(), cmp.Or(sep, "/"), true}}
	case "v2":
		return []keying{{shape.Len(), cmp.Or(sep, "."), false}}
	}
	return []keying{{shape.Len(), "./", true}, {shape.Len(), "./", false}}
}

// node returns the node at dir, empty or with a slash at its end, or nil if there
// is none that belongs to the dataset.
func (m members) node(dir string) *member {
	n := m[dir]
	if n == nil || n.kind&^rootOf == 0 {
		return nil
	}
	if n.state == 0 {
		n.state = strange
		up := m.node(above(dir))
		name := path.Base(dir)
		if dir == "" || n.kind&rootOf == 0 && up.hasNode(name) && m.sameVersion(n) {
			n.state = belongs
		}
	}
	if n.state == strange {
		return nil
	}
	return n
}

// sameVersion reports whether readers of the dataset at the root read n: those
// of Zarr v2 do not read zarr.json, and those of v3 nothing else.
func (m members) sameVersion(n *member) bool {
	const v2 = groupNode | arrayNode
	root := m[""].kind
	return n.kind&v2 != 0 && root&v2 != 0 || n.kind&v3Node != 0 && root&v3Node != 0
}

// hasNode reports whether a group that belongs to the dataset has a node of that
// name.
func (n *member) hasNode(name string) bool {
	switch {
	case n == nil, IsOwn(name), n.kind&v3Array != 0, n.kind&arrayNode != 0 && n.kind&groupNode == 0:
		return false
	}
	if n.listed == nil {
		return true
	}
	_, found := slices.BinarySearch(n.listed, name)
	return found
}

// above returns the directory that holds dir; the root holds itself.
func above(dir string) string {
	up, _ := path.Split(strings.TrimSuffix(dir, "/"))
	return up
}

// has reports whether a name is part of the dataset.
func (m members) has(name string) bool {
	dir, base := path.Split(name)
	mark := name == GrowthMark || dir == GrowthMark+"/" && base != "" || IsProbe(base)
	if m.node(dir) != nil && (IsZarrDoc(base) || base == NewNodeMark) || mark && m.node("") != nil || name == ReplacingMark {
		return true
	}
	for at := dir; ; at = above(at) {
		if n := m.node(at); n != nil && len(n.keys) > 0 {
			return slices.ContainsFunc(n.keys, func(k keying) bool { return k.has(name[len(at):]) })
		}
		if at == "" {
			return false
		}
	}
}

// IsChunkName reports whether the last segment of a key may be that of a chunk.
func IsChunkName(base string) bool { return keying{rank: -1, seps: "./"}.has(base) }

// MayBeChunk reports whether a name in an array may be that of a chunk, whatever
// the array is.
func MayBeChunk(name string) bool {
	return slices.ContainsFunc(keyingsOfV3(nil), func(k keying) bool { return k.has(name) })
}

// has reports whether a name in an array is that of a chunk, or of a directory of
// chunks, which has a slash at its end.
func (k keying) has(name string) bool {
	name, isDir := strings.CutSuffix(name, "/")
	rank := k.rank
	if k.prefix {
		if name == "c" {
			return rank <= 0 || isDir && strings.Contains(k.seps, "/")
		}
		if len(name) < 2 || name[0] != 'c' || !strings.ContainsRune(k.seps, rune(name[1])) {
			return false
		}
		name = name[2:]
	} else if rank == 0 {
		rank = 1
	}
	for _, sep := range k.seps {
		switch n, ok := numbers(name, string(sep)); {
		case !ok:
		case rank < 0, !isDir && n == rank, isDir && sep == '/' && n < rank:
			return true
		}
	}
	if rank >= 0 {
		return false
	}
	_, ok := numbers(strings.ReplaceAll(name, "/", "."), ".")
	return ok
}

// numbers counts the numbers between separators; ok is false if there is something
// else.
func numbers(name, sep string) (n int, ok bool) {
	for seg := range strings.SplitSeq(name, sep) {
		if seg == "" || strings.Trim(seg, "0123456789") != "" || len(seg) > 1 && seg[0] == '0' {
			return 0, false
		}
		n++
	}
	return n, true
}
