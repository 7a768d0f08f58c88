package zarr

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

const consolidatedKey = "/" + ConsolidatedDoc

// ParseConsolidated parses consolidated metadata. It returns the documents of every node
// by the node's path, without leading or trailing slashes; "" is the root. The documents
// are slices of b, which must not be modified while they are in use. Their content is not
// checked. Members that are not metadata documents are ignored.
//
// It fails with ErrNotZarr for a document that is not a JSON object, and with
// ErrConsolidated if zarr_consolidated_format is not 1, or if metadata is missing, empty
// or not an object.
//
// Source: zarr-python, consolidate_metadata; netcdf-c libnczarr/zmetadata.c.
func ParseConsolidated(b []byte) (map[string]Docs, error) {
	wrong := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrConsolidated, "parse", consolidatedKey, format, args...)
	}
	var metadata, format jsontext.Value
	var nodes map[string]Docs
	w := wholeDocs{b: b}
	doc := jsontext.FromBytes(b)
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
		return nil, wrong("zarr_consolidated_format: expected 1, found %s", orMissing(format))
	}
	if metadata.Kind() != jsontext.Object {
		return nil, wrong("metadata: expected an object, found %s", orMissing(metadata))
	}
	if len(nodes) == 0 {
		return nil, wrong("metadata contains no documents")
	}
	return nodes, nil
}

// wholeDocs collects the documents of all nodes from consolidated metadata.
type wholeDocs struct {
	b     []byte
	nodes map[string]Docs
	path  string // path of the previous node
	docs  Docs   // documents of the previous node
}

// typicalNodeSize is the approximate size of a node in consolidated metadata, in bytes.
const typicalNodeSize = 1 << 10

// add records b[from:to] as the document at key.
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
		w.nodes, w.docs = make(map[string]Docs, 1+len(w.b)/typicalNodeSize), nil
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

// notJSON returns the error for a document that is not JSON. It parses b again, because
// the quick scan that returned err does not find the exact position.
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

// WriteConsolidated returns the consolidated metadata of nodes. It is the inverse of
// [ParseConsolidated]. Nodes are sorted by path. The documents of a node are .zgroup,
// .zarray, .zattrs, then all others. Documents are converted to strict JSON, except
// that attributes keep NaN and infinities.
//
// It fails with ErrNotZarr for a document that is not JSON, and with ErrInvalid if nodes
// is empty.
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
				w.ValueKeepNaN(d.Text)
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
