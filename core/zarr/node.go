package zarr

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

// node holds the checked documents of one group or array.
type node struct {
	path     string
	docs     map[string]document
	warnings []string
}

// document is one checked document, cut into members once.
type document struct {
	text jsontext.Value
	list []member
}

// get gives the member of that name, nil when there is none.
func (d document) get(name string) jsontext.Value {
	for i := range d.list {
		if d.list[i].key == name {
			return d.list[i].val
		}
	}
	return nil
}

// loadNode checks the syntax of all documents of a node.
func loadNode(path string, docs Docs) (*node, error) {
	n := &node{path: "/" + strings.Trim(path, "/"), docs: make(map[string]document, len(docs))}
	if IsV3(docs) {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "parse", n.key(docV3), "Zarr v3 is not read by this version")
	}
	for name, text := range docs {
		if !IsZarrDoc(name) || name == docConsolidated {
			continue
		}
		v, err := jsontext.Check(text)
		if err != nil {
			return nil, ncerr.Errorf(ncerr.ErrNotZarr, "parse", n.key(name), "not JSON: %w", err)
		}
		if v.Kind() != jsontext.Object {
			return nil, ncerr.Errorf(ncerr.ErrNotZarr, "parse", n.key(name), "want a JSON object, found %s", clip(v))
		}
		n.docs[name] = document{v, members(v)}
	}
	for _, name := range []string{docGroup, docArray} {
		if v := n.docs[name].get("zarr_format"); v != nil {
			if err := checkFormat(n.key(name), v); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
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

// block finds a block in the first of its places; nil when there is none. A
// block may stand as an object, or as a string that holds one.
func (n *node) block(b block) (jsontext.Value, place, error) {
	for _, p := range places[b] {
		doc, ok := n.docs[p.doc]
		if !ok {
			continue
		}
		v := doc.text
		if p.member != "" {
			if v = doc.get(p.member); v == nil {
				continue
			}
		}
		if v.Kind() == jsontext.String {
			inner, err := jsontext.Check([]byte(v.Text()))
			if err != nil {
				return nil, p, n.bad(p.doc, p.member, "%v", err)
			}
			v = inner
		}
		if v.Kind() != jsontext.Object {
			return nil, p, n.bad(p.doc, p.member, "want an object, found %s", clip(v))
		}
		return v, p, nil
	}
	return nil, place{}, nil
}

// attrsDoc gives the attributes document and its name; the zero document when
// there is none.
func (n *node) attrsDoc() (document, string) {
	for _, name := range attrsDocs {
		if v, ok := n.docs[name]; ok {
			return v, name
		}
	}
	return document{}, docAttrs
}

// either gives the member that goes by one of two names.
func either(v jsontext.Value, a, b string) (jsontext.Value, string) {
	if m := v.Get(a); m != nil {
		return m, a
	}
	return v.Get(b), b
}

// member is one member of an object.
type member struct {
	key string
	val jsontext.Value
}

// members lists an object that was checked; of equal keys the last value
// counts, at the place of the first.
func members(v jsontext.Value) []member {
	list := make([]member, 0, 12)
	var index map[string]int
	_ = v.Each(func(key string, val jsontext.Value) error {
		at, dup := -1, false
		if index != nil {
			at, dup = index[key]
		} else {
			for i := range list {
				if list[i].key == key {
					at, dup = i, true
				}
			}
		}
		if dup {
			list[at].val = val
			return nil
		}
		list = append(list, member{key, val})
		if index != nil {
			index[key] = len(list) - 1
		} else if len(list) == 16 {
			index = make(map[string]int, 64)
			for i := range list {
				index[list[i].key] = i
			}
		}
		return nil
	})
	return list
}

// texts gives an array of strings; ok is false when v is anything else.
func texts(v jsontext.Value) (list []string, ok bool) {
	if v.Kind() != jsontext.Array {
		return nil, false
	}
	list, ok = []string{}, true
	_ = v.Elems(func(_ int, e jsontext.Value) error {
		ok = ok && e.Kind() == jsontext.String
		list = append(list, e.Text())
		return nil
	})
	return list, ok
}

// clip gives the head of a value for messages.
func clip(v []byte) string {
	const most = 60
	if len(v) <= most {
		return string(v)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(v[cut]) {
		cut--
	}
	return string(v[:cut]) + "..."
}

// goodName reports whether name can be the last segment of a path.
func goodName(name string) bool {
	if name == "" || name == "." || name == ".." || !utf8.ValidString(name) {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }) < 0
}
