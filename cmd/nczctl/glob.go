package main

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// globSearch returns the keys and prefixes that match a pattern, sorted and with a
// leading slash. It uses only Search. The limits of one listing apply to the
// matches.
func globSearch(ctx context.Context, m *zmap.Map, pattern string, limits config.Limits) ([]string, error) {
	segments := slices.CompactFunc(strings.Split(pattern, "/"), func(a, b string) bool { return a == "**" && b == "**" })
	for _, s := range segments {
		if _, err := path.Match(s, ""); err != nil {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "search", pattern, "the pattern %q is malformed", s)
		}
	}
	g := &globber{m: m, seen: make(map[string]bool), limits: limits}
	if err := g.walk(ctx, "", segments, 0); err != nil {
		return nil, err
	}
	out := make([]string, 0, len(g.seen))
	for key := range g.seen {
		out = append(out, zmap.Path(key))
	}
	slices.Sort(out)
	return out, nil
}

type globber struct {
	m      *zmap.Map
	seen   map[string]bool
	bytes  int64 // total length of the keys in seen
	limits config.Limits
}

// add records a matching key. It fails if the matches exceed the limits.
func (g *globber) add(key string) error {
	if g.seen[key] {
		return nil
	}
	g.seen[key] = true
	g.bytes += int64(len(key))
	if int64(len(g.seen)) > g.limits.MaxKeys || g.bytes > int64(g.limits.MaxListing) {
		return ncerr.Errorf(ncerr.ErrLimit, "search", "", "the matching keys exceed limits.max_keys or limits.max_listing")
	}
	return nil
}

// walk matches the names below prefix against the rest of the pattern. prefix has
// no slash at the end.
func (g *globber) walk(ctx context.Context, prefix string, rest []string, depth int) error {
	if err := checkDepth(prefix, depth); err != nil {
		return err
	}
	if len(rest) > 1 && rest[0] == "**" { // ** also matches zero names
		if err := g.walk(ctx, prefix, rest[1:], depth); err != nil {
			return err
		}
	}
	names, err := g.m.Search(ctx, prefix)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := strings.TrimPrefix(prefix+"/"+name, "/")
		if rest[0] == "**" {
			if len(rest) == 1 {
				if err := g.add(at); err != nil {
					return err
				}
			}
			if err := g.walk(ctx, at, rest, depth+1); err != nil {
				return err
			}
			continue
		}
		if ok, _ := path.Match(rest[0], name); !ok { // globSearch checked the patterns
			continue
		}
		take := func() error { return g.walk(ctx, at, rest[1:], depth+1) }
		if len(rest) == 1 {
			take = func() error { return g.add(at) }
		}
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}
