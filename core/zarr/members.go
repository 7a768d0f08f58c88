package zarr

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

// GrowthMark is the name of the object, or directory of objects, that marks an array
// whose shape is being extended.
const GrowthMark = ".nczgrowing"

// ReplacingMark is the name of the object that marks a dataset that is being created or
// replaced.
const ReplacingMark = ".nczreplacing"

// StageMark is the name of the object that marks a store as a staging area: it holds a
// new dataset that will replace another one.
const StageMark = ".nczstage"

// probePrefix is the prefix of the names of probe objects; see [NewProbe].
const probePrefix = ".nczprobe-"

// NewProbe returns a name for a temporary object. A caller writes the object to one store
// to find out whether it appears in another.
func NewProbe() string { return probePrefix + rand.Text() }

// IsProbe reports whether base is a name that [NewProbe] returns. A killed process may
// leave a probe object behind. Such an object is treated as part of the dataset that
// contains it.
func IsProbe(base string) bool {
	text, ok := strings.CutPrefix(base, probePrefix)
	return ok && len(text) == 26 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// IsOwn reports whether name is the name of a metadata document, or of a mark or
// temporary object of this program. Readers ignore a node of that name and everything
// below it.
func IsOwn(name string) bool {
	switch name {
	case GrowthMark, ReplacingMark, StageMark, NewNodeMark:
		return true
	}
	return IsZarrDoc(name) || IsProbe(name) || strings.HasPrefix(name, ".nczarr-") || strings.HasPrefix(name, ".nczarr.tmp.")
}

// NewNodeMark is the name of the object that reserves a directory for a node that is
// being created. It is needed in layouts where any document makes the node visible to
// readers.
const NewNodeMark = ".ncznewnode"

// ChunkKeys describes how the chunks of an array are named.
type ChunkKeys struct {
	Rank      int    `json:"rank"`
	Separator string `json:"separator"`
	Prefix    bool   `json:"prefix,omitempty"` // the keys have a prefix; see chunk.Keys
}

// arrayKeys holds the members of .zarray that determine the chunk keys.
type arrayKeys struct {
	Shape     []int64 `json:"shape"`
	Separator string  `json:"dimension_separator"`
}

// NodeDoc returns the name of the document that makes a directory an array with chunk
// keys k, or a group if k is nil. It also returns the part of the document that describes
// the chunk keys, or nil, and the names of the documents that would make the directory a
// different node.
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
		writeKeysV3(w, k.Prefix, k.Separator, "")
		w.Close()
		return V3Doc, w.Bytes(), []string{GroupDoc, ArrayDoc, OldGroupDoc, OldArrayDoc, ConsolidatedDoc}
	}
	doc, _ = json.Marshal(arrayKeys{shape, k.Separator}) // Marshal cannot fail for numbers and strings
	return ArrayDoc, doc, []string{GroupDoc, OldGroupDoc, V3Doc, ConsolidatedDoc}
}

// Describes reports whether doc, a document with the name that [Layout.NodeDoc] returns,
// describes an array with chunk keys k, or a group if k is nil. A v2 scalar may be stored
// with one dimension.
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
	return nodeType(doc) == "array" && slices.Equal(keyFormatsV3(doc), []keyFormat{{k.Rank, k.Separator, k.Prefix, ""}})
}

// WithGroups returns keys, and the keys of the documents of all groups that contain
// nodes in keys. keys belong to a dataset that is being removed. Some of the documents
// may have been removed already. WithGroups adds zarr.json documents only if v3 is set,
// which means that all Zarr v3 nodes in the store belong to the dataset.
func WithGroups(keys []string, v3 bool) []string {
	out := append(slices.Clone(keys), GroupDoc)
	seen := map[string]bool{"": true}
	v3 = v3 && slices.ContainsFunc(keys, func(key string) bool { return path.Base(key) == V3Doc })
	if v3 {
		out = append(out, V3Doc)
	}
	for _, key := range keys {
		dir, base := path.Split(key)
		if !IsNodeDoc(base) {
			continue
		}
		for dir = parentDir(dir); !seen[dir]; dir = parentDir(dir) {
			seen[dir] = true
			if out = append(out, dir+GroupDoc); v3 {
				out = append(out, dir+V3Doc)
			}
		}
	}
	return out
}

// Foreign returns the names in a store that do not belong to the Zarr dataset at its
// root, in the order given, and reports whether the root holds a dataset. Names are keys
// or other entries of the store; a name that ends in a slash is an empty directory. docs
// holds documents of the store by key; see [MemberDocs].
//
// A node is a directory with .zgroup, .zarray or zarr.json. The dataset consists of:
//
//   - the documents of the root and of each node in a group of the dataset;
//   - the chunks of its arrays, recognized by rank and separator;
//   - the marks of growth, of replacement and of new nodes, and probe objects.
//
// A group with NCZarr's lists contains the listed nodes. Any other group contains all
// nodes directly below it, except separate datasets, which have a superblock or
// consolidated metadata. A node is also foreign, with everything below it, if all its
// documents belong to a Zarr version for which the root has no document.
//
// If a document is missing or malformed, Foreign relies on the name of the document, so
// that a damaged document does not make its chunks foreign. Shapes are ignored: a chunk
// outside the shape is still a chunk.
func Foreign(names []string, docs Docs) (foreign []string, dataset bool) {
	m := membersOf(names, docs)
	for _, name := range names {
		if !m.has(name) {
			foreign = append(foreign, name)
		}
	}
	return foreign, m.node("") != nil
}

// MemberDocs returns the keys in names whose documents [Foreign] needs.
func MemberDocs(names []string) []string {
	kinds := make(map[string]nodeKind) // node kinds by directory
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

// groupDocs are the documents that may hold lists of nodes or a superblock.
var groupDocs = [...]string{GroupDoc, AttrsDoc, OldGroupDoc} // never modified

// nodeKind is a set of flags for the node documents in a directory.
type nodeKind uint8

const (
	groupNode nodeKind = 1 << iota
	arrayNode
	v3Node  // an array or a group
	v3Array // the document describes an array
	rootOf  // the root of a separate dataset
)

// kindOf returns the flag for a document name, or 0.
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

// member is a directory that contains node documents.
type member struct {
	kind   nodeKind
	listed []string    // names of the nodes in a group; nil means all nodes
	keys   []keyFormat // key formats of the chunks
	state  uint8       // whether the directory belongs to the dataset; 0 means undecided
}

// The values of member.state.
const (
	inside = 1 + iota
	outside
)

// keyFormat describes the format of the chunk keys of an array.
type keyFormat struct {
	rank   int    // -1 if unknown
	seps   string // possible separators
	prefix bool   // the key begins with "c" and a separator
	suffix string // the end of every key
}

// members holds the nodes of a dataset by directory.
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
			n.keys = append(n.keys, keyFormatOf(docs[dir+ArrayDoc]))
		}
		if n.kind&v3Node != 0 {
			n.keys = append(n.keys, keyFormatsV3(docs[dir+V3Doc])...)
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

// readGroup reads the lists of a group from its documents, and sets rootOf if they hold a
// superblock.
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

// keyFormatOf returns the format of the chunk keys according to a .zarray. Without
// dimension_separator both separators are possible, because some writers omit it for
// nested chunks.
func keyFormatOf(doc []byte) keyFormat {
	v, err := jsontext.Check(string(doc))
	if shape := v.Get("shape"); err == nil && shape.Kind() == jsontext.Array {
		k := keyFormat{rank: shape.Len(), seps: "./"}
		if sep := v.Get("dimension_separator"); sep.Kind() == jsontext.String {
			k.seps = sep.Text()
		}
		return k
	}
	return keyFormat{rank: -1, seps: "./"}
}

// keyFormatsV3 returns the possible formats of the chunk keys according to a zarr.json.
// It returns nil for a group.
func keyFormatsV3(doc []byte) []keyFormat {
	v, err := jsontext.Check(string(doc))
	shape, encoding := v.Get("shape"), v.Get("chunk_key_encoding")
	switch {
	case err == nil && v.Get("node_type").Text() == "group":
		return nil
	case err != nil || shape.Kind() != jsontext.Array:
		return []keyFormat{{rank: -1, seps: "./"}, {rank: -1, seps: "./", prefix: true}}
	}
	sep := encoding.Get("configuration").Get("separator").Text()
	switch encoding.Get("name").Text() {
	case "default":
		return []keyFormat{{shape.Len(), cmp.Or(sep, "/"), true, ""}}
	case "v2":
		return []keyFormat{{shape.Len(), cmp.Or(sep, "."), false, ""}}
	case suffixKeys:
		return []keyFormat{{shape.Len(), cmp.Or(sep, "/"), true, encoding.Get("configuration").Get("suffix").Text()}}
	}
	return []keyFormat{{shape.Len(), "./", true, ""}, {shape.Len(), "./", false, ""}}
}

// node returns the node at dir, or nil if dir holds no node of the dataset. dir is empty
// or ends in a slash.
func (m members) node(dir string) *member {
	n := m[dir]
	if n == nil || n.kind&^rootOf == 0 {
		return nil
	}
	if n.state == 0 {
		n.state = outside
		up := m.node(parentDir(dir))
		name := path.Base(dir)
		if dir == "" || n.kind&rootOf == 0 && up.hasNode(name) && m.sameVersion(n) {
			n.state = inside
		}
	}
	if n.state == outside {
		return nil
	}
	return n
}

// sameVersion reports whether n has documents of a Zarr version that the root has too.
// Readers of Zarr v2 ignore zarr.json, and readers of v3 ignore everything else.
func (m members) sameVersion(n *member) bool {
	const v2 = groupNode | arrayNode
	root := m[""].kind
	return n.kind&v2 != 0 && root&v2 != 0 || n.kind&v3Node != 0 && root&v3Node != 0
}

// hasNode reports whether the group n contains a node of that name. n is nil if the group
// does not belong to the dataset.
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

// parentDir returns the directory that contains dir. For the root it returns the root.
func parentDir(dir string) string {
	up, _ := path.Split(strings.TrimSuffix(dir, "/"))
	return up
}

// has reports whether name belongs to the dataset.
func (m members) has(name string) bool {
	dir, base := path.Split(name)
	mark := name == GrowthMark || dir == GrowthMark+"/" && base != "" || IsProbe(base)
	if m.node(dir) != nil && (IsZarrDoc(base) || base == NewNodeMark) || mark && m.node("") != nil || name == ReplacingMark {
		return true
	}
	for at := dir; ; at = parentDir(at) {
		if n := m.node(at); n != nil && len(n.keys) > 0 {
			return slices.ContainsFunc(n.keys, func(k keyFormat) bool { return k.has(name[len(at):]) })
		}
		if at == "" {
			return false
		}
	}
}

// MayBeChunk reports whether name, relative to an array, can be a chunk key in any key
// format.
func MayBeChunk(name string) bool {
	return slices.ContainsFunc(keyFormatsV3(nil), func(k keyFormat) bool { return k.has(name) })
}

// has reports whether name, relative to the array, is a chunk key, or a directory of
// chunks if it ends in a slash.
func (k keyFormat) has(name string) bool {
	name, isDir := strings.CutSuffix(name, "/")
	if !isDir {
		var ok bool
		if name, ok = strings.CutSuffix(name, k.suffix); !ok {
			return false
		}
	}
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

// numbers counts the decimal numbers in name, which are separated by sep. ok is false if
// name contains anything else.
func numbers(name, sep string) (n int, ok bool) {
	for seg := range strings.SplitSeq(name, sep) {
		if seg == "" || strings.Trim(seg, "0123456789") != "" || len(seg) > 1 && seg[0] == '0' {
			return 0, false
		}
		n++
	}
	return n, true
}
