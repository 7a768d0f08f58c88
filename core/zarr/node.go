package zarr

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// node holds the checked documents of one group or array.
type node struct {
	path     string
	docs     []document // each of another name
	warnings []string
	types    []jsontext.Member // of attributes
	v3       bool              // the documents are parts of a zarr.json
}

// document is one checked document.
type document struct {
	jsontext.Document
	name string
}

// doc gives the document of that name, nil when there is none.
func (n *node) doc(name string) *document {
	for i := range n.docs {
		if n.docs[i].name == name {
			return &n.docs[i]
		}
	}
	return nil
}

// get gives the member of that name, empty when there is none, or no document.
func (d *document) get(name string) jsontext.Value {
	if d == nil {
		return ""
	}
	return d.Get(name)
}

// maxShownPath is how much of the end of a path stands in warnings and errors, in
// bytes.
const maxShownPath = 512

// loadNode makes the node of some documents.
func loadNode(path string, docs Docs, v3 bool) (*node, error) {
	n := &node{}
	return n, n.load(path, docs, v3)
}

// load checks the syntax of all documents of a node, which are of Zarr v3 or of v2. It
// uses the room that n has from the node before.
func (n *node) load(path string, docs Docs, v3 bool) error {
	if path == "" || path[0] != '/' || len(path) > 1 && path[len(path)-1] == '/' {
		path = "/" + strings.Trim(path, "/")
	}
	if k := len(path) - maxShownPath; k > 0 { // there may be many warnings
		path = "/..." + strings.ToValidUTF8(path[k:], "")
	}
	n.path, n.docs, n.warnings, n.v3 = path, n.docs[:0], nil, false
	switch text, there := docs[V3Doc]; {
	case there && v3:
		return n.loadV3(text)
	case there && docs[GroupDoc] == nil && docs[ArrayDoc] == nil:
		return ncerr.Errorf(ncerr.ErrUnsupported, "parse", n.key(V3Doc), "a node of Zarr v3 in a dataset of Zarr v2")
	}
	badDoc, bad := "", error(nil) // the first by name, for an error that is the same each time
	for name, text := range docs {
		if !IsZarrDoc(name) || name == ConsolidatedDoc || name == V3Doc {
			continue
		}
		if err := n.room().parse(name, text); err != nil && (bad == nil || name < badDoc) {
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

// room gives the next document of the node.
func (n *node) room() *document {
	if k := len(n.docs); k < cap(n.docs) {
		n.docs = n.docs[:k+1]
	} else {
		n.docs = append(n.docs, document{})
	}
	return &n.docs[len(n.docs)-1]
}

// parse reads a document, which is to be an object.
func (d *document) parse(name string, text []byte) error {
	d.name = name
	if err := d.Parse(text); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if d.Text.Kind() != jsontext.Object {
		return fmt.Errorf("want a JSON object, found %s", clip(d.Text))
	}
	return nil
}

func checkFormat(key string, v jsontext.Value) error {
	if f, ok := v.Int64(); ok && f == 2 {
		return nil
	}
	if v.Kind() == jsontext.Number {
		return ncerr.Errorf(ncerr.ErrUnsupported, "parse", key, "zarr_format is %s, only 2 is read", clip(v))
	}
	return ncerr.Errorf(ncerr.ErrMetadata, "parse", key, "zarr_format: want 2, found %s", clip(v))
}

// key gives the absolute key of a document of the node.
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

// bad is the error for a member of a document that makes no sense.
func (n *node) bad(doc, member, format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrMetadata, "parse", n.key(doc), "%s: %s", member, fmt.Sprintf(format, args...))
}

// block finds a block in the first of its places; empty when there is none. A
// block may stand as an object, or as a string that holds one.
func (n *node) block(b block) (jsontext.Value, place, error) {
	for _, p := range places[b] {
		doc := n.doc(p.doc)
		if doc == nil {
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
			return "", p, n.bad(p.doc, p.member, "want an object, found %s", clip(v))
		}
		return v, p, nil
	}
	return "", place{}, nil
}

// attrsDoc gives the attributes document, nil when there is none, and its name.
func (n *node) attrsDoc() (*document, string) {
	for _, name := range attrsDocs {
		if d := n.doc(name); d != nil {
			return d, name
		}
	}
	return nil, AttrsDoc
}

// either gives the member that goes by one of two names.
func either(v jsontext.Value, a, b string) (jsontext.Value, string) {
	if m := v.Get(a); m != "" {
		return m, a
	}
	return v.Get(b), b
}

// texts gives an array of strings; ok is false when v is anything else.
func texts(v jsontext.Value) (list []string, ok bool) {
	if v.Kind() != jsontext.Array {
		return nil, false
	}
	list, ok = make([]string, 0, usualRank), true
	_ = v.Elems(func(_ int, e jsontext.Value) error {
		ok = ok && e.Kind() == jsontext.String
		list = append(list, e.Text())
		return nil
	})
	return list, ok
}

// clip gives the head of a value for messages, which have one line.
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

// oneLine puts blanks in place of control characters: a document may have any
// number of lines between two elements.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// goodName reports whether name can be the last segment of a path.
func goodName(name string) bool {
	if name == "" || name == "." || name == ".." || !utf8.ValidString(name) {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }) < 0
}
