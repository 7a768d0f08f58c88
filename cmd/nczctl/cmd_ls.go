package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// listing is one line of the output of ls.
type listing struct {
	Key     string `json:"key"`
	Prefix  bool   `json:"prefix,omitempty"`
	Size    *int64 `json:"size,omitempty"`
	ModTime string `json:"modified,omitempty"`
}

func (a *app) newLs() *cobra.Command {
	var long, recursive bool
	c := &cobra.Command{
		Use:   "ls [-l] [-R] URL[/key]",
		Short: "List the keys of a store",
		Long: `List the keys of a store, or the keys below a key. Prefixes of other keys end in
a slash. A web server cannot be listed: for a dataset there, ls shows only the
documents that its metadata lists, without chunks.`,
		Example: "  nczctl ls -l data.zip\n  nczctl ls -R data.zarr/temp",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			return a.runLs(c.Context(), list[0], long, recursive)
		},
	}
	c.Flags().BoolVarP(&long, "long", "l", false, "show size and time")
	c.Flags().BoolVarP(&recursive, "recursive", "R", false, "list all keys below, not only the next level")
	return c
}

func (a *app) runLs(ctx context.Context, arg string, long, recursive bool) error {
	m, key, err := a.openStore(ctx, arg, false)
	if err != nil {
		return err
	}
	defer m.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	prefix := key
	if prefix != "" {
		prefix += "/"
	}
	rows := []listing{} // empty, not null, in JSON
	for e, err := range m.ListAll(ctx, prefix, &zmap.ListOptions{Recursive: recursive, Info: long}) {
		if err != nil {
			return err
		}
		rows = append(rows, listing{Key: zmap.Path(e.Key), Prefix: e.Prefix})
		if long && !e.Prefix {
			if err := fillLong(ctx, m, e, &rows[len(rows)-1]); err != nil {
				return err
			}
		}
	}
	if len(rows) == 0 && key != "" {
		return a.lsObject(ctx, m, key, long)
	}
	return a.printListing(rows, long)
}

// lsObject lists the object with the given key, and fails if it does not exist.
func (a *app) lsObject(ctx context.Context, m *zmap.Map, key string, long bool) error {
	info, err := m.Stat(ctx, key)
	if err != nil {
		return err
	}
	row := listing{Key: zmap.Path(key)}
	row.set(info)
	return a.printListing([]listing{row}, long)
}

// fillLong adds the size and time of e to row. It requests them from the store if the
// listing does not include them.
func fillLong(ctx context.Context, m *zmap.Map, e zmap.Entry, row *listing) error {
	info := e.Info
	if info.Size < 0 {
		var err error
		if info, err = m.Stat(ctx, e.Key); ncerr.KindOf(err) == ncerr.ErrNotFound {
			return nil // the object was deleted after the listing
		} else if err != nil {
			return err
		}
	}
	row.set(info)
	return nil
}

func (l *listing) set(info zmap.Info) {
	size := info.Size
	l.Size = &size
	if !info.ModTime.IsZero() {
		l.ModTime = info.ModTime.UTC().Format(time.RFC3339)
	}
}

func (a *app) printListing(rows []listing, long bool) error {
	if a.flags.json {
		return a.printJSON(rows)
	}
	for _, r := range rows {
		if !long {
			fmt.Fprintln(a.out, r.Key)
			continue
		}
		size := "-"
		if r.Size != nil {
			size = fmt.Sprint(*r.Size)
		}
		fmt.Fprintf(a.out, "%12s  %-20s  %s\n", size, cmp.Or(r.ModTime, "-"), r.Key)
	}
	return nil
}

func (a *app) newSearch() *cobra.Command {
	return &cobra.Command{
		Use:   "search URL [PREFIX]",
		Short: "Search a store for names or keys",
		Long: `Print the names directly below a prefix. If the prefix contains wildcards, print
the matching keys instead: * matches any characters within a name, ** matches
any number of names.`,
		Example: "  nczctl search data.zarr /temp\n  nczctl search data.zip '/**/.zarray'",
		Args:    args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			prefix := "/"
			if len(list) == 2 {
				prefix = list[1]
			}
			return a.runSearch(c.Context(), list[0], prefix)
		},
	}
}

func (a *app) runSearch(ctx context.Context, arg, pattern string) error {
	m, key, err := a.openStore(ctx, arg, false)
	if err != nil {
		return err
	}
	defer m.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	pattern = strings.Trim(pattern, "/")
	if key != "" {
		pattern = strings.Trim(key+"/"+pattern, "/")
	}
	var found []string
	if strings.Contains(pattern, "*") {
		found, err = globSearch(ctx, m, pattern, a.session.Config().Limits)
	} else {
		found, err = m.Search(ctx, pattern)
	}
	if err != nil {
		return err
	}
	if a.flags.json {
		if found == nil {
			found = []string{}
		}
		return a.printJSON(found)
	}
	for _, name := range found {
		fmt.Fprintln(a.out, name)
	}
	return nil
}
