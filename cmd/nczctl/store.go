package main

import (
	"context"
	"path"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// openStore opens the store that an argument of the form URL[/key] names,
// whatever is in it, and gives the key: the part of the path that lies inside
// the store ("" is all of it). A directory is a store of its own.
func (a *app) openStore(ctx context.Context, arg string) (*zmap.Map, string, error) {
	s, err := a.start(ctx, arg)
	if err != nil {
		return nil, "", err
	}
	store, key := splitStore(arg)
	m, err := nczarr.OpenStore(ctx, store, s.options(a))
	if err != nil || key == "" {
		return m, key, err
	}
	if err := mustBeThere(ctx, m, key); err != nil {
		_ = m.Close(ctx) // the first error says more
		return nil, "", err
	}
	return m, key, nil
}

// mustBeThere refuses a key that is neither an object nor a prefix.
func mustBeThere(ctx context.Context, m *zmap.Map, key string) error {
	there, err := m.Exists(ctx, key)
	if err != nil || there {
		return err
	}
	names, err := m.Search(ctx, key)
	if err == nil && len(names) == 0 {
		err = ncerr.New(ncerr.ErrNotFound, "find", key, nil)
	}
	return err
}

// splitStore cuts a path into the innermost directory or archive that is
// there, and the rest: the key in it. Other arguments are stores as a whole.
func splitStore(arg string) (store, key string) {
	if s := ncurl.Scheme(arg); s != "" && s != "file" {
		return arg, ""
	}
	base, fragment, ok := strings.Cut(arg, "#")
	if ok {
		fragment = "#" + fragment
	}
	scheme := ""
	for _, s := range []string{"file://", "file:"} {
		if rest, ok := strings.CutPrefix(base, s); ok && scheme == "" {
			scheme, base = s, rest
		}
	}
	for at := base; at != "" && at != "." && at != "/"; {
		if p := nczarr.Probe(at); p == ncurl.Directory || p == ncurl.ZipArchive {
			return scheme + at + fragment, key
		}
		dir, last := path.Split(strings.TrimRight(at, "/"))
		key = path.Join(last, key)
		if at = strings.TrimRight(dir, "/"); dir == "" {
			return scheme + "." + fragment, key
		}
	}
	return arg, ""
}
