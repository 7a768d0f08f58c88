package main

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// globSearch gives the keys and prefixes that match a pattern, sorted, with a
// leading slash. It walks with Search only.
func globSearch(ctx context.Context, m *zmap.Map, pattern string) ([]string, error) {
	segments := strings.Split(pattern, "/")
	for _, s := range segments {
		if _, err := path.Match(s, ""); err != nil {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "search", pattern, "bad pattern %q", s)
		}
	}
	g := &globber{m: m, seen: make(map[string]bool)}
	if err := g.walk(ctx, "", segments); err != nil {
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
	m    *zmap.Map
	seen map[string]bool
}

// walk matches the names below prefix (without a slash at the end) against
// the rest of the pattern.
func (g *globber) walk(ctx context.Context, prefix string, rest []string) error {
	if len(rest) > 1 && rest[0] == "**" { // no name at all
		if err := g.walk(ctx, prefix, rest[1:]); err != nil {
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
				g.seen[at] = true
			}
			if err := g.walk(ctx, at, rest); err != nil {
				return err
			}
			continue
		}
		if ok, _ := path.Match(rest[0], name); !ok { // patterns were checked
			continue
		}
		if len(rest) == 1 {
			g.seen[at] = true
		} else if err := g.walk(ctx, at, rest[1:]); err != nil {
			return err
		}
	}
	return nil
}
