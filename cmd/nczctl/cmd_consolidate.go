package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// consolidateFlags are those of consolidate.
type consolidateFlags struct{ check, remove bool }

func (a *app) newConsolidate() *cobra.Command {
	var f consolidateFlags
	c := &cobra.Command{
		Use:   "consolidate URL",
		Short: "Write, check or remove consolidated metadata",
		Long: `Write consolidated metadata, a copy of all metadata documents in one, which
zarr-python, xarray and, when asked to, netcdf-c read instead of them: .zmetadata,
or in Zarr v3 a part of the zarr.json of the root. Where it is, nczctl keeps it up to date; other writers may not: --check
compares it with all documents and names those that differ.`,
		Example: "  nczctl consolidate ocean.zarr\n  nczctl consolidate --check ocean.zarr",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if f.check && f.remove {
				return &usageError{fmt.Errorf("--check and --remove exclude each other")}
			}
			if f.check {
				return a.checkConsolidated(c.Context(), list[0])
			}
			return a.runConsolidate(c.Context(), list[0], f.remove)
		},
	}
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; fail when it is stale, damaged or not there")
	c.Flags().BoolVar(&f.remove, "remove", false, "delete it; the single documents stay")
	return c
}

// runConsolidate writes or removes consolidated metadata.
func (a *app) runConsolidate(ctx context.Context, url string, remove bool) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	o := a.options()
	o.Update = true
	ds, err := nczarr.Open(ctx, url, o)
	if err != nil {
		return err
	}
	if remove {
		err = ds.RemoveConsolidated(ctx)
	} else if err = ds.Consolidate(); err == nil {
		err = a.warnUnlisted(ctx, ds)
	}
	left := ds.Problems()
	if cerr := ds.Close(ctx); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return a.problems(left)
}

// consolidatedInfo is what consolidate --check prints.
type consolidatedInfo struct {
	Key   string   `json:"key"`
	Stale []string `json:"stale"`
}

// checkConsolidated compares consolidated metadata with the documents.
func (a *app) checkConsolidated(ctx context.Context, url string) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	o := a.options()
	o.UseConsolidated = nczarr.ConsolidatedVerify
	ds, err := nczarr.Open(ctx, url, o)
	if err != nil {
		return err
	}
	defer ds.Close(ctx) //nolint:errcheck // only read
	key := "/" + ds.Layout().ConsolidatedDoc()
	if !ds.Consolidated() {
		return ncerr.Errorf(ncerr.ErrNotFound, "check", key, "there is no consolidated metadata")
	}
	if err := ds.CheckUnchanged(ctx); err != nil {
		return err
	}
	stale := ds.StaleDocuments()
	switch {
	case a.flags.json:
		err = a.printJSON(consolidatedInfo{key, append([]string{}, stale...)})
	case len(stale) == 0:
		fmt.Fprintf(a.out, "%s is current\n", key)
	default:
		for _, k := range stale {
			fmt.Fprintf(a.out, "differs: /%s\n", k)
		}
	}
	if err != nil || len(stale) == 0 {
		return err
	}
	return ncerr.Errorf(ncerr.ErrConsolidated, "check", key, "it is stale: documents that differ: %d, the first is /%s", len(stale), stale[0])
}

// consolidatedFlag is the value of --use-consolidated.
type consolidatedFlag struct{ use nczarr.ConsolidatedUse }

// consolidatedWords are the values of --use-consolidated, in the order of the
// constants.
var consolidatedWords = [...]string{"auto", "verify", "trust", "ignore"}

// Set takes one of the words.
func (f *consolidatedFlag) Set(word string) error {
	for i, w := range consolidatedWords {
		if w == word {
			f.use = nczarr.ConsolidatedUse(i)
			return nil
		}
	}
	return fmt.Errorf("want one of %q", consolidatedWords)
}

// String gives the word.
func (f *consolidatedFlag) String() string { return consolidatedWords[f.use] }

// Type is the word for the value in help texts.
func (f *consolidatedFlag) Type() string { return "how" }
