package zarr

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// node holds the checked documents of one group or array.
type node struct {
	path     string
	docs     []document // documents with distinct names
	warnings []string
	types    []jsontext.Member // types of attributes
	v3       bool              // the documents are parts of a zarr.json
}

// document is one checked document.
type document struct {
	jsontext.Document
	name string
}

// doc returns the document of that name, or nil.
func (n *node) doc(name string) *document {
	for i := range n.docs {
		if n.docs[i].name == name {
			return &n.docs[i]
		}
	}
	return nil
}

// get returns the member of that name. It returns "" if the member is missing or d is
// nil.
func (d *document) get(name string) jsontext.Value {
	if d == nil {
		return ""
	}
	return d.Get(name)
}

// maxShownPath is the maximum number of bytes of a path, counted from its end, that
// warnings and errors show.
const maxShownPath = 512

// loadNode returns a node that holds docs.
func loadNode(path string, docs Docs, v3 bool) (*node, error) {
	n := &node{}
	return n, n.load(path, docs, v3)
}

// load parses all documents of a node. If v3 is set, they are Zarr v3 documents. It
// reuses the memory of the documents that n held before.
func (n *node) load(path string, docs Docs, v3 bool) error {
	if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		path = "/" + strings.Trim(path, "/")
	}
	if k := len(path) - maxShownPath; k > 0 { // limits the size of warnings
		path = "/..." + strings.ToValidUTF8(path[k:], "")
	}
	n.path, n.docs, n.warnings, n.v3 = path, n.docs[:0], nil, false
	switch text, there := docs[V3Doc]; {
	case there && v3:
		return n.loadV3(text)
	case there && docs[GroupDoc] == nil && docs[ArrayDoc] == nil:
		return ncerr.Errorf(ncerr.ErrUnsupported, "parse", n.key(V3Doc), "the node is Zarr v3, but the dataset is Zarr v2")
	}
	badDoc, bad := "", error(nil) // the first malformed document by name, so that the error is deterministic
	for name, text := range docs {
		if !IsZarrDoc(name) || name == ConsolidatedDoc || name == V3Doc {
			continue
		}
		if err := n.addDocument().parse(name, text); err != nil && (bad == nil || name < badDoc) {
			badDoc, bad = name, err
		}
	}
	if bad != nil {
		return ncerr.New(ncerr.ErrNotZarr, "parse", n.key(badDoc), bad)
	}
	for _, name := range [...]string{GroupDoc, ArrayDoc} {
		if v := n.doc(name).get("zarr_format"); v != "" && v != "2" {
			if err := checkFormat(n.key(name), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDocument adds a document to the node and returns it.
func (n *node) addDocument() *document {
	if k := len(n.docs); k < cap(n.docs) {
		n.docs = n.docs[:k+1]
	} else {
		n.docs = append(n.docs, document{})
	}
	return &n.docs[len(n.docs)-1]
}

// parse parses a document, which must be a JSON object.
func (d *document) parse(name string, text []byte) error {
	d.name = name
	if err := d.Parse(text); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if d.Text.Kind() != jsontext.Object {
		return fmt.Errorf("expected a JSON object, found %s", clip(d.Text))
	}
	return nil
}

func checkFormat(key string, v jsontext.Value) error {
	if f, ok := v.Int64(); ok && f == 2 {
		return nil
	}
	if v.Kind() == jsontext.Number {
		return ncerr.Errorf(ncerr.ErrUnsupported, "parse", key, "zarr_format is %s, not 2", clip(v))
	}
	return ncerr.Errorf(ncerr.ErrMetadata, "parse", key, "zarr_format: expected 2, found %s", clip(v))
}

// key returns the absolute key of a document of the node.
func (n *node) key(doc string) string {
	if n.v3 {
		doc = V3Doc
	}
	if n.path == "/" {
		return "/" + doc
	}
	return n.path + "/" + doc
}

func (n *node) warn(format string, args ...any) {
	n.warnings = append(n.warnings, fmt.Sprintf(format, args...))
}

// bad returns the error for a malformed member of a document.
func (n *node) bad(doc, member, format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrMetadata, "parse", n.key(doc), "%s: %s", member, fmt.Sprintf(format, args...))
}

// block returns the block from the first of its locations that exists, or "" if none
// does. A block is a JSON object, or a string that contains one.
func (n *node) block(b block) (jsontext.Value, place, error) {
	for _, p := range places[b] {
		doc := n.doc(p.doc)
		if doc == nil || p.layout.row().v3 != n.v3 {
			continue
		}
		v := doc.Text
		if p.member != "" {
			if v = doc.get(p.member); v == "" {
				continue
			}
		}
		if v.Kind() == jsontext.String {
			inner, err := jsontext.Check(v.Text())
			if err != nil {
				return "", p, n.bad(p.doc, p.member, "%v", err)
			}
			v = inner
		}
		if v.Kind() != jsontext.Object {
			return "", p, n.bad(p.doc, p.member, "expected an object, found %s", clip(v))
		}
		return v, p, nil
	}
	return "", place{}, nil
}

// attrsDoc returns the attributes document, or nil, and its name.
func (n *node) attrsDoc() (*document, string) {
	for _, name := range attrsDocs {
		if d := n.doc(name); d != nil {
			return d, name
		}
	}
	return nil, AttrsDoc
}

// either returns the member named a, or else the member named b, with the name used.
func either(v jsontext.Value, a, b string) (jsontext.Value, string) {
	if m := v.Get(a); m != "" {
		return m, a
	}
	return v.Get(b), b
}

// stringsIn returns the elements of an array of strings. ok is false for any other value.
func stringsIn(v jsontext.Value) (list []string, ok bool) {
	if v.Kind() != jsontext.Array {
		return nil, false
	}
	list, ok = make([]string, 0, typicalRank), true
	_ = v.Elems(func(_ int, e jsontext.Value) error {
		ok = ok && e.Kind() == jsontext.String
		list = append(list, e.Text())
		return nil
	})
	return list, ok
}

// clip returns the beginning of a value as a single line, for use in a message.
func clip[T ~string | ~[]byte](v T) string {
	const most = 60
	if len(v) <= most {
		return oneLine(string(v))
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(v[cut]) {
		cut--
	}
	return oneLine(string(v[:cut])) + "..."
}

// oneLine replaces control characters, such as line breaks between elements, with blanks.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// validName reports whether name is a valid path segment.
func validName(name string) bool {
	if name == "" || name == "." || name == ".." || !utf8.ValidString(name) {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }) < 0
}
