// Package refs reads the reference files of Kerchunk: JSON objects that present parts of
// other files, such as netCDF files, as the objects of a Zarr store.
//
//	f, err := refs.Parse(text, limits)
//	docs := f.Documents()
//	table, err := f.Table("temp/", keys, grid, resolver, cache, limit)
//
// A key of a Zarr document has the text of the document as its value. A key of a chunk has
// the content of the chunk, or a URL, offset and length. [File.Table] returns the chunks of an
// array as a manifest.Source, and the resolver decides which URLs may be read.
//
// The package builds on core/manifest and core/zarr, which knows the names of documents.
// core/open uses it.
//
// Source: Kerchunk, "References specification", versions 0 and 1; fsspec
// implementations/reference.py for what readers accept.
package refs

import (
	"cmp"
	"context"
	"encoding/base64"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/manifest"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// Limits bounds what Parse accepts.
type Limits struct {
	MaxKeys     int   // number of keys
	MaxDocument int64 // bytes of one document
}

// File is a parsed reference file. It is immutable and safe for concurrent use. Its memory is
// that of the text of the file and 32 bytes for each chunk.
type File struct {
	docs      map[string][]byte
	chunks    []reference // in the order of the keys
	templates map[string]string
}

// reference is a key of a chunk and its value, which is parsed when it is needed.
type reference struct {
	key   string
	value jsontext.Value
}

// Parse parses a reference file of version 0 or 1. Errors: ncerr.ErrNotZarr if text is not a
// reference file, ncerr.ErrMetadata for an invalid key or document, ncerr.ErrUnsupported for
// another version, for generated references ("gen") and for documents that are not in the file,
// and ncerr.ErrLimit. The values of chunks are checked when the chunks are used.
func Parse(text []byte, l Limits) (*File, error) {
	doc, err := jsontext.Check(string(text))
	if err == nil && doc.Kind() != jsontext.Object {
		err = ncerr.Errorf(ncerr.ErrNotZarr, "", "", "a reference file is a JSON object")
	}
	if err != nil {
		return nil, ncerr.Errorf(ncerr.ErrNotZarr, "", "", "the reference file is not valid JSON: %w", err)
	}
	f := &File{docs: make(map[string][]byte)}
	switch version := doc.Get("version"); {
	case version == "" || version.Kind() != jsontext.Number && doc.Get("refs") == "": // version may be a key
		return f, f.readKeys(doc, l)
	case version != "1":
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the reference file has version %.20s; the supported versions are 0 and 1", version)
	}
	refs := doc.Get("refs")
	if refs.Kind() != jsontext.Object {
		return nil, ncerr.Errorf(ncerr.ErrNotZarr, "", "", "the reference file has no object %q", "refs")
	}
	if gen := doc.Get("gen"); gen.Kind() == jsontext.Array && gen.Len() > 0 {
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the reference file generates references (%q), which is not supported; write the references out", "gen")
	}
	if templates := doc.Get("templates"); templates.Kind() == jsontext.Object {
		f.templates = make(map[string]string)
		_ = templates.Each(func(name string, v jsontext.Value) error { // the document was checked
			f.templates[name] = v.Text()
			return nil
		})
	}
	return f, f.readKeys(refs, l)
}

// readKeys reads the keys of the store and divides them into documents and chunks. If a key
// occurs more than once, its last value is used.
func (f *File) readKeys(refs jsontext.Value, l Limits) error {
	err := refs.Each(func(key string, v jsontext.Value) error {
		switch {
		case len(f.chunks)+len(f.docs) >= l.MaxKeys:
			return ncerr.Errorf(ncerr.ErrLimit, "", "", "the reference file has more than %d keys", l.MaxKeys)
		case zmap.ValidKey(key) != nil:
			return ncerr.Errorf(ncerr.ErrMetadata, "", "", "the reference file contains the invalid key %q", key)
		case zarr.IsZarrDoc(path.Base(key)):
			text, err := document(v)
			if err == nil && int64(len(text)) > l.MaxDocument {
				err = ncerr.Errorf(ncerr.ErrLimit, "", "", "the document has %d bytes, but the limit is %d", len(text), l.MaxDocument)
			}
			f.docs[key] = text
			return ncerr.Wrap("parse", zmap.Path(key), err)
		}
		f.chunks = append(f.chunks, reference{key, v})
		return nil
	})
	slices.SortStableFunc(f.chunks, func(a, b reference) int { return cmp.Compare(a.key, b.key) })
	kept := f.chunks[:0]
	for i, r := range f.chunks {
		if i+1 == len(f.chunks) || f.chunks[i+1].key != r.key {
			kept = append(kept, r)
		}
	}
	f.chunks = kept
	return err
}

// document returns the text of a document.
func document(v jsontext.Value) ([]byte, error) {
	switch v.Kind() {
	case jsontext.String:
		return inline(v)
	case jsontext.Object:
		return []byte(v), nil
	case jsontext.Array:
		return nil, ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the document is a reference; only documents in the reference file are supported")
	}
	return nil, ncerr.Errorf(ncerr.ErrMetadata, "", "", "the value is neither a string nor an object")
}

// inline returns the content of a string: text, or binary data in base64.
func inline(v jsontext.Value) ([]byte, error) {
	text := v.Text()
	encoded, ok := strings.CutPrefix(text, "base64:")
	if !ok {
		return []byte(text), nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the value is not valid base64: %w", err)
	}
	return data, nil
}

// Documents returns the metadata documents by key. The caller must not change them.
func (f *File) Documents() map[string][]byte { return f.docs }

// entry returns the entry of a chunk. A referenced object must exist: it is not known to be
// absent, as a chunk without a key is.
func (f *File) entry(v jsontext.Value) (manifest.Entry, error) {
	switch v.Kind() {
	case jsontext.String:
		data, err := inline(v)
		return manifest.Entry{Inline: data}, err
	case jsontext.Object:
		return manifest.Entry{Inline: []byte(v)}, nil
	case jsontext.Array:
		return f.location(v)
	}
	return manifest.Entry{}, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the value is not a string, object or array")
}

// location parses [URL] or [URL, offset, length].
func (f *File) location(v jsontext.Value) (e manifest.Entry, err error) {
	e = manifest.Entry{Length: -1, Required: true}
	n, ok := 0, true
	_ = v.Elems(func(i int, item jsontext.Value) error { // the document was checked
		n++
		var valid bool
		switch i {
		case 0:
			valid = item.Kind() == jsontext.String
			e.Ref = item.Text()
		case 1:
			e.Offset, valid = item.Int64()
		case 2:
			e.Length, valid = item.Int64()
		}
		ok = ok && valid
		return nil
	})
	if !ok || n != 1 && n != 3 || e.Ref == "" || e.Offset < 0 || n == 3 && e.Length < 0 {
		return e, ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the value %.200s is neither [URL] nor [URL, offset, length]", v)
	}
	e.Ref, err = f.expand(e.Ref)
	return e, err
}

// maxRef is the maximum length in bytes of a reference, with its templates expanded.
const maxRef = 16 << 10

// expand replaces each {{name}} in a reference by the template of that name.
func (f *File) expand(ref string) (string, error) {
	if len(ref) > maxRef {
		return "", ncerr.Errorf(ncerr.ErrLimit, "", "", "a reference has %d bytes, but the limit is %d", len(ref), maxRef)
	}
	if f.templates == nil || !strings.Contains(ref, "{{") {
		return ref, nil
	}
	var b strings.Builder
	for rest := ref; ; {
		before, after, found := strings.Cut(rest, "{{")
		b.WriteString(before)
		if b.Len() > maxRef {
			return "", ncerr.Errorf(ncerr.ErrLimit, "", "", "a reference expands to more than %d bytes", maxRef)
		}
		if !found {
			return b.String(), nil
		}
		name, next, closed := strings.Cut(after, "}}")
		value, known := f.templates[strings.TrimSpace(name)]
		if !closed || !known || strings.Contains(value, "{{") {
			return "", ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the reference %.200q uses a template that is not the name of a plain text in %q", ref, "templates")
		}
		b.WriteString(value)
		rest = next
	}
}

// Table returns the Source of the chunks of an array. Their keys begin with prefix and are
// encoded as keys specifies; grid is the number of chunks along each dimension. Keys outside
// the grid are ignored. cache limits the size in bytes of the cached entries of all tables that
// use it, and limit that of the entries of one page; see manifest.NewTable.
func (f *File) Table(prefix string, keys chunk.Keys, grid []int64, resolver manifest.Resolver, cache *budget.Share, limit int64) *manifest.Table {
	return manifest.NewTable(&pages{f: f, prefix: prefix, keys: keys, grid: grid}, grid, resolver, cache, limit)
}

// pages implements manifest.Pages for one array. It finds the chunks of the array on first
// use.
type pages struct {
	f      *File
	prefix string
	keys   chunk.Keys
	grid   []int64

	once sync.Once
	list []numbered // in the order of the numbers
	err  error
}

// numbered is the number of a chunk in C order, and its position in File.chunks.
type numbered struct {
	number int64
	at     int
}

var _ manifest.Pages = (*pages)(nil)

// find lists the chunks of the array. It fails with ncerr.ErrMetadata if all keys have the
// other separator, as they would otherwise read as fill.
func (p *pages) find() error {
	p.once.Do(func() {
		first, _ := slices.BinarySearchFunc(p.f.chunks, p.prefix, func(r reference, prefix string) int { return cmp.Compare(r.key, prefix) })
		other := ""
		for i := first; i < len(p.f.chunks); i++ {
			name, ok := strings.CutPrefix(p.f.chunks[i].key, p.prefix)
			if !ok {
				break
			}
			if index := p.keys.Parse(name, len(p.grid)); manifest.Within(index, p.grid) {
				p.list = append(p.list, numbered{p.number(index), i})
			} else if other == "" && manifest.Within(p.keys.Other().Parse(name, len(p.grid)), p.grid) {
				other = p.f.chunks[i].key
			}
		}
		if p.list == nil && other != "" {
			p.err = manifest.WrongSeparator(p.keys, other)
		}
		slices.SortFunc(p.list, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	})
	return p.err
}

func (p *pages) number(index []int64) (n int64) {
	for d, i := range index {
		n = n*p.grid[d] + i
	}
	return n
}

// from returns the position in p.list of the first chunk of page n.
func (p *pages) from(n int64) int {
	at, _ := slices.BinarySearchFunc(p.list, n*manifest.PageSize, func(c numbered, number int64) int { return cmp.Compare(c.number, number) })
	return at
}

// Page implements manifest.Pages.
func (p *pages) Page(_ context.Context, n int64) ([]manifest.Entry, error) {
	if err := p.find(); err != nil {
		return nil, err
	}
	var page []manifest.Entry
	for _, c := range p.list[p.from(n):] {
		i := c.number - n*manifest.PageSize
		if i >= manifest.PageSize {
			break
		}
		e, err := p.f.entry(p.f.chunks[c.at].value)
		if err != nil {
			e = manifest.Entry{Err: err}
		}
		page = append(page, make([]manifest.Entry, int(i)+1-len(page))...)
		page[i] = e
	}
	return page, nil
}

// Next implements manifest.Pages.
func (p *pages) Next(_ context.Context, n int64) (int64, error) {
	if err := p.find(); err != nil {
		return 0, err
	}
	if at := p.from(n); at < len(p.list) {
		return p.list[at].number / manifest.PageSize, nil
	}
	return -1, nil
}

// SniffLen is the number of leading bytes of a file that [Sniff] needs. For a shorter file,
// the caller passes all bytes.
const SniffLen = 4096

// Sniff reports whether a file that begins with head is probably a reference file: a JSON
// object whose first member is one of version 1, or the key of a Zarr document.
func Sniff(head []byte) bool {
	text := strings.TrimLeft(string(head), "\ufeff \t\r\n")
	text, ok := strings.CutPrefix(text, "{")
	if !ok {
		return false
	}
	text, ok = strings.CutPrefix(strings.TrimLeft(text, " \t\r\n"), `"`)
	name, rest, closed := strings.Cut(text, `"`)
	if !ok || !closed {
		return false
	}
	switch name {
	case "version":
		return strings.Contains(rest, `"refs"`) || strings.Contains(rest, `"templates"`) || strings.Contains(rest, `"gen"`)
	case "refs", "templates", "gen":
		return true
	}
	return zarr.IsZarrDoc(path.Base(strings.ReplaceAll(name, `\/`, "/")))
}
