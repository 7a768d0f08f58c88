package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// migrateFlags holds the flags of migrate.
type migrateFlags struct {
	to  layoutFlag
	dry bool
}

func (a *app) newMigrate() *cobra.Command {
	var f migrateFlags
	c := &cobra.Command{
		Use:   "migrate --to LAYOUT URL",
		Short: "Change the layout of a dataset by rewriting only its metadata",
		Long: `Change the layout of a dataset in place: from Zarr v2 to v3 or back, and from
NCZarr to pure Zarr or back. Only metadata documents are written. Chunks and
their keys stay byte for byte; arrays in Zarr v3 then have the chunk key encoding
"v2". Consolidated metadata is written again if the dataset had it.

--to accepts the values of gen --layout, and also nczarr (newest), zarr2 (pure)
and zarr3 (v3).

If a variable, group or attribute cannot be converted without changing its
meaning, the command lists it with the reason and writes nothing; copy converts
most such datasets. --dry-run lists the documents to write and to delete. Make
sure that no other program writes the dataset.

If the command fails or dies halfway, the dataset can still be read with the same
values, in its old or its new layout. The same command completes the migration.`,
		Example: "  nczctl migrate --to zarr3 --dry-run ocean.zarr\n  nczctl migrate --to zarr3 ocean.zarr",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if f.to.layout == nil {
				return &usageError{fmt.Errorf("--to is missing; the value must be one of %s", migrateNames())}
			}
			return a.runMigrate(c.Context(), &f, list[0])
		},
	}
	c.Flags().Var((*migrateFlag)(&f.to), "to", "the new layout: "+migrateNames())
	c.Flags().BoolVar(&f.dry, "dry-run", false, "list the documents to write and to delete, and write nothing")
	return c
}

// migrateWords are other names of layouts for --to.
var migrateWords = [...]struct{ name, layout string }{{"nczarr", "newest"}, {"zarr2", "pure"}, {"zarr3", "v3"}}

func migrateNames() string {
	names := layoutNames()
	for _, w := range migrateWords {
		names += ", " + w.name
	}
	return names
}

// migrateFlag is the value of --to.
type migrateFlag layoutFlag

// Set implements pflag.Value. It fails if name is not the name of a layout.
func (f *migrateFlag) Set(name string) error {
	for _, w := range migrateWords {
		if w.name == name {
			name = w.layout
		}
	}
	if err := (*layoutFlag)(f).Set(name); err != nil {
		return fmt.Errorf("the value must be one of %s", migrateNames())
	}
	return nil
}

// String implements pflag.Value.
func (f *migrateFlag) String() string { return (*layoutFlag)(f).String() }

// Type implements pflag.Value. It returns the name of the value in the help.
func (f *migrateFlag) Type() string { return (*layoutFlag)(f).Type() }

// migrateInfo is the output of migrate.
type migrateInfo struct {
	From    string           `json:"from"`
	To      string           `json:"to"`
	DryRun  bool             `json:"dry_run"`
	Write   []string         `json:"write"`
	Delete  []string         `json:"delete"`
	Refused []migrateRefusal `json:"refused"`
	Lost    []string         `json:"lost"`
}

// migrateRefusal is a node that cannot be converted.
type migrateRefusal struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// runMigrate migrates a dataset and prints the changes.
func (a *app) runMigrate(ctx context.Context, f *migrateFlags, url string) error {
	s, err := a.start(ctx, url)
	if err != nil {
		return err
	}
	s.Host().StartFilters()
	loc, err := a.locate(url, false)
	if err != nil {
		return err
	}
	m, err := dataset.Migrate(ctx, loc, &dataset.MigrateOptions{Options: *a.options(), Layout: *f.to.layout, NoXarray: f.to.noXarray, DryRun: f.dry})
	if m == nil {
		return err
	}
	if a.flags.json && (err == nil || len(m.Refused) > 0) {
		if perr := a.printMigration(m, f.dry); perr != nil {
			return perr
		}
	}
	for _, p := range m.Refused {
		fmt.Fprintf(a.err, "nczctl: cannot convert %q: %v\n", p.Path, p.Err)
	}
	if err != nil {
		return err
	}
	for _, text := range m.Lost {
		a.warn("warning: %s", text)
	}
	switch {
	case a.flags.json:
	case f.dry:
		for _, key := range m.Put {
			fmt.Fprintf(a.out, "write  /%s\n", key)
		}
		for _, key := range m.Delete {
			fmt.Fprintf(a.out, "delete /%s\n", key)
		}
	default:
		fmt.Fprintf(a.out, "migrated from %s to %s; documents written: %d, deleted: %d\n", m.From, m.To, len(m.Put), len(m.Delete))
	}
	return nil
}

func (a *app) printMigration(m *dataset.Migration, dry bool) error {
	info := migrateInfo{layoutName(m.From), layoutName(m.To), dry, append([]string{}, m.Put...), append([]string{}, m.Delete...), []migrateRefusal{}, append([]string{}, m.Lost...)}
	for _, p := range m.Refused {
		info.Refused = append(info.Refused, migrateRefusal{p.Path, p.Err.Error()})
	}
	return a.printJSON(info)
}

// layoutName returns the first name of a layout.
func layoutName(layout zarr.Layout) string {
	for _, l := range layouts {
		if l.layout == layout {
			return l.name
		}
	}
	return layout.String()
}
