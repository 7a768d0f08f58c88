package zarr

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr/internal/jsontext"
)

const consolidatedKey = "/" + ConsolidatedDoc

// ParseConsolidated reads consolidated metadata: the documents of every node,
// by the node's path without slashes at its ends ("" is the root). The
// documents are parts of b, which must not change while they are used; their
// inside is checked when they are parsed. Members that are no metadata
// documents are left out.
//
// Errors: ErrNotZarr for text that is no JSON object, ErrConsolidated when
// zarr_consolidated_format is not 1 or metadata is missing, empty or no object.
//
// Source: zarr-python, consolidate_metadata; netcdf-c libnczarr/zmetadata.c.
func ParseConsolidated(b []byte) (map[string]Docs, error) {
	wrong := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrConsolidated, "parse", consolidatedKey, format, args...)
	}
	var metadata, format jsontext.Value
	var nodes map[string]Docs
	w := wholeDocs{b: b}
	doc := jsontext.Of(b)
	err := doc.EachIn(func(key string, from, to int) error {
		switch key {
		case "metadata":
			metadata, nodes, w.nodes = doc[from:to], w.nodes, nil
		case "zarr_consolidated_format":
			format = doc[from:to]
		}
		return nil
	}, "metadata", w.add)
	if err != nil {
		return nil, notJSON(b, err)
	}
	if k, ok := format.Int64(); !ok || k != 1 {
		return nil, wrong("zarr_consolidated_format: want 1, found %s", orMissing(format))
	}
	if metadata.Kind() != jsontext.Object {
		return nil, wrong("metadata: want an object, found %s", orMissing(metadata))
	}
	if len(nodes) == 0 {
		return nil, wrong("metadata: holds no documents")
	}
	return nodes, nil
}

// wholeDocs collects the documents of all nodes out of a consolidated one.
type wholeDocs struct {
	b     []byte
	nodes map[string]Docs
	path  string // of the node before
	docs  Docs   // its documents
}

// usualNode is how many bytes a node has in consolidated metadata, about.
const usualNode = 1 << 10

// add takes the document that stands from from to to under a key.
func (w *wholeDocs) add(key string, from, to int) error {
	key = strings.Trim(key, "/")
	path, name := "", key
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		path, name = key[:i], key[i+1:]
	}
	if !IsZarrDoc(name) || name == ConsolidatedDoc {
		return nil
	}
	if w.nodes == nil {
		w.nodes, w.docs = make(map[string]Docs, 1+len(w.b)/usualNode), nil
	}
	if w.docs == nil || path != w.path {
		if w.path, w.docs = path, w.nodes[path]; w.docs == nil {
			w.docs = make(Docs, 2)
			w.nodes[path] = w.docs
		}
	}
	w.docs[name] = w.b[from:to:to]
	return nil
}

// notJSON says where b is no JSON; the quick walk that met err knows less.
func notJSON(b []byte, err error) error {
	var syntax *jsontext.SyntaxError
	if _, exact := jsontext.Check(string(b)); errors.As(exact, &syntax) {
		err = exact
	}
	return ncerr.Errorf(ncerr.ErrNotZarr, "parse", consolidatedKey, "not JSON: %w", err)
}

func orMissing(v jsontext.Value) string {
	if v == "" {
		return "nothing"
	}
	return clip(v)
}

// docOrder is the order of a node's documents in consolidated metadata.
var docOrder = []string{GroupDoc, ArrayDoc, AttrsDoc}

// WriteConsolidated is the reverse of [ParseConsolidated]. Nodes come in the
// order of their paths, each node's documents as .zgroup, .zarray, .zattrs and
// then the others. Documents stay as they are when they are strict JSON, and
// are made so otherwise, except for NaN and infinities in attributes. It fails
// with ErrNotZarr for a document that is not JSON at all, and with ErrInvalid
// when nodes is empty.
func WriteConsolidated(nodes map[string]Docs) ([]byte, error) {
	w := &jsontext.Writer{Style: jsontext.Spaced}
	w.Open('{')
	w.Key("metadata").Open('{')
	count := 0
	var d jsontext.Document
	for _, path := range slices.Sorted(maps.Keys(nodes)) {
		docs := nodes[path]
		names := append([]string{}, docOrder...)
		for _, name := range slices.Sorted(maps.Keys(docs)) {
			if !slices.Contains(docOrder, name) {
				names = append(names, name)
			}
		}
		for _, name := range names {
			text, ok := docs[name]
			if !ok {
				continue
			}
			key := strings.TrimPrefix(strings.Trim(path, "/")+"/"+name, "/")
			if err := d.Parse(text); err != nil {
				return nil, ncerr.Errorf(ncerr.ErrNotZarr, "write metadata", "/"+key, "not JSON: %w", err)
			}
			w.Key(key)
			switch {
			case d.Strict:
				w.Raw(d.Text)
			case name == AttrsDoc:
				w.Keep(d.Text)
			default:
				w.Value(d.Text)
			}
			count++
		}
	}
	if count == 0 {
		return nil, invalid("no documents to consolidate")
	}
	w.Close()
	w.Key("zarr_consolidated_format").Int(1)
	w.Close()
	return w.Bytes(), nil
}
