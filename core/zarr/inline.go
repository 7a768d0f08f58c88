package zarr

import (
	"maps"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// HasInlineMetadata reports whether a root has consolidated metadata; see
// [ParseInline].
func HasInlineMetadata(root Docs) bool { return inlineOf(root) != "" }

// CanUpdateInline reports whether a group has consolidated metadata of the kind that
// [WithConsolidated] writes. Callers may only replace or remove metadata of any other kind as a
// whole.
func CanUpdateInline(group Docs) bool {
	all := inlineOf(group)
	return all.Get("kind").Text() == "inline" && all.Get("must_understand") != "true"
}

// inlineOf returns the consolidated metadata of a root, or "". It ignores malformed JSON,
// which ParseGroup reports.
func inlineOf(root Docs) jsontext.Value {
	v, err := jsontext.Check(string(root[V3Doc]))
	all := v.Get("consolidated_metadata")
	if err != nil || all.Kind() == jsontext.Null {
		return ""
	}
	return all
}

// ParseInline returns the documents of all nodes recorded in the zarr.json of a root,
// including the root itself. The keys of the map are paths without leading or trailing
// slashes. It returns nil if root has no consolidated metadata.
//
// It fails with ErrConsolidated for malformed consolidated metadata.
//
// Source: zarr-python, consolidate_metadata.
func ParseInline(root Docs) (map[string]Docs, error) {
	all := inlineOf(root)
	if all == "" {
		return nil, nil
	}
	wrong := func(format string, args ...any) error {
		return ncerr.Errorf(ncerr.ErrConsolidated, "parse", "/"+V3Doc, "consolidated_metadata: "+format, args...)
	}
	if kind := all.Get("kind"); kind.Text() != "inline" {
		return nil, wrong(`kind: expected "inline", found %s`, orMissing(kind))
	}
	metadata := all.Get("metadata")
	if metadata.Kind() != jsontext.Object {
		return nil, wrong("metadata: expected an object, found %s", orMissing(metadata))
	}
	nodes := map[string]Docs{"": root}
	err := metadata.Each(func(key string, val jsontext.Value) error {
		if val.Kind() != jsontext.Object {
			return wrong("metadata: %q: expected an object, found %s", clip(key), clip(val))
		}
		path := strings.Trim(key, "/")
		if nodes[path] != nil && path != "" {
			return wrong("metadata: duplicate path %q", clip(path))
		}
		if path != "" {
			nodes[path] = Docs{V3Doc: []byte(val)}
		}
		return nil
	})
	return nodes, err
}

// WithConsolidated returns a copy of group, the documents of a root or another group, whose
// zarr.json has consolidated metadata for nodes. nodes holds the documents of the nodes
// below the group, by path without leading or trailing slashes. If nodes is nil, the
// consolidated metadata is removed. Nodes without a valid zarr.json are omitted.
//
// Nodes at or below the paths in unknown keep their previous consolidated metadata if
// nodes has no document for them. Unknown members of the previous metadata are kept too.
//
// WithConsolidated fails with ErrNotZarr if the zarr.json of the group is not JSON, and with
// ErrLimit if the new document is nested too deeply to be parsed.
//
// Source: zarr-python 3.4.2, consolidate_metadata.
func WithConsolidated(group Docs, nodes map[string]Docs, unknown []string) (Docs, error) {
	const member = "consolidated_metadata"
	var d jsontext.Document
	w := &jsontext.Writer{Style: jsontext.Spaced}
	// all writes the members of d, except the consolidated metadata.
	all := func() {
		for _, m := range d.Members {
			if m.Key != member {
				w.Key(m.Key).ValueKeepNaN(m.Val)
			}
		}
	}
	// open starts the consolidated metadata.
	open := func() {
		w.Key(member).Open('{')
		w.Key("kind").String("inline")
		w.Key("must_understand").Raw("false")
		w.Key("metadata").Open('{')
	}
	end := func() { w.Close(); w.Close() }
	if err := d.Parse(group[V3Doc]); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrNotZarr, "write metadata", "/"+V3Doc, "not JSON: %w", err)
	}
	w.Open('{')
	all()
	if nodes != nil {
		var old jsontext.Value
		if CanUpdateInline(group) {
			old = d.Get(member)
		}
		kept := keptInline(old.Get("metadata"), unknown)
		open()
		for _, path := range slices.Sorted(maps.Keys(nodes)) {
			if text, ok := nodes[path][V3Doc]; !ok || d.Parse(text) != nil {
				continue
			}
			delete(kept, path)
			w.Key(path).Open('{')
			all()
			if d.Get("node_type").Text() == "group" { // zarr-python expects the member in groups
				open()
				end()
			}
			w.Close()
		}
		for _, path := range slices.Sorted(maps.Keys(kept)) {
			w.Key(path).ValueKeepNaN(kept[path])
		}
		w.Close()
		for _, m := range jsontext.Members(nil, old) {
			if m.Key != "kind" && m.Key != "must_understand" && m.Key != "metadata" {
				w.Key(m.Key).ValueKeepNaN(m.Val)
			}
		}
		w.Close()
	}
	w.Close()
	docs := maps.Clone(group)
	docs[V3Doc] = w.Bytes()
	if err := d.Parse(docs[V3Doc]); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrLimit, "write metadata", "", "the document with consolidated metadata would be too large to read back: %w", err)
	}
	return docs, nil
}

// keptInline returns the members of consolidated metadata at or below paths, by path.
func keptInline(metadata jsontext.Value, paths []string) map[string]jsontext.Value {
	isKept := make(map[string]bool, len(paths))
	for _, path := range paths {
		isKept[path] = true
	}
	kept := make(map[string]jsontext.Value)
	if len(paths) == 0 || metadata.Kind() != jsontext.Object {
		return kept
	}
	_ = metadata.Each(func(key string, val jsontext.Value) error {
		path := strings.Trim(key, "/")
		for at := path; path != ""; at = strings.TrimSuffix(parentDir(at), "/") {
			if isKept[at] {
				kept[path] = val
			}
			if isKept[at] || at == "" {
				return nil
			}
		}
		return nil
	})
	return kept
}

// WithInlineOf returns the zarr.json of a group with the consolidated metadata of another
// version of it, from. It fails with ErrNotZarr if text is not JSON.
func WithInlineOf(text []byte, from Docs) ([]byte, error) {
	var d jsontext.Document
	if err := d.Parse(text); err != nil {
		return nil, ncerr.Errorf(ncerr.ErrNotZarr, "write metadata", "/"+V3Doc, "not JSON: %w", err)
	}
	w := &jsontext.Writer{Style: jsontext.Spaced}
	w.Open('{')
	for _, m := range d.Members {
		if m.Key != "consolidated_metadata" {
			w.Key(m.Key).ValueKeepNaN(m.Val)
		}
	}
	if all := inlineOf(from); all != "" {
		w.Key("consolidated_metadata").ValueKeepNaN(all)
	}
	w.Close()
	return w.Bytes(), nil
}

// InlinePaths returns the paths of the nodes in the consolidated metadata of a group,
// without leading or trailing slashes.
func InlinePaths(group Docs) (paths []string) {
	if metadata := inlineOf(group).Get("metadata"); metadata.Kind() == jsontext.Object {
		_ = metadata.Each(func(key string, _ jsontext.Value) error {
			paths = append(paths, strings.Trim(key, "/"))
			return nil
		})
	}
	return paths
}
