package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
)

// consolidateFlags holds the flags of consolidate.
type consolidateFlags struct{ check, remove bool }

func (a *app) newConsolidate() *cobra.Command {
	var f consolidateFlags
	c := &cobra.Command{
		Use:   "consolidate URL",
		Short: "Write, check or remove consolidated metadata",
		Long: `Write consolidated metadata: a copy of all metadata documents in one document,
.zmetadata, or in Zarr v3 the zarr.json of the root. zarr-python and xarray read
it instead of the single documents, and netcdf-c does so on request. nczctl keeps
existing consolidated metadata up to date, but other writers may not. --check
compares it with all documents and lists those that differ.`,
		Example: "  nczctl consolidate ocean.zarr\n  nczctl consolidate --check ocean.zarr",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if f.check && f.remove {
				return &usageError{fmt.Errorf("--check and --remove cannot be combined")}
			}
			if f.check {
				return a.checkConsolidated(c.Context(), list[0])
			}
			return a.runConsolidate(c.Context(), list[0], f.remove)
		},
	}
	c.Flags().BoolVar(&f.check, "check", false, "change nothing; fail if consolidated metadata is stale, damaged or missing")
	c.Flags().BoolVar(&f.remove, "remove", false, "delete consolidated metadata and keep the single documents")
	return c
}

// runConsolidate writes or removes consolidated metadata.
func (a *app) runConsolidate(ctx context.Context, url string, remove bool) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	o := a.options()
	o.Update = true
	ds, err := open.Open(ctx, url, o)
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

// consolidatedInfo is the output of consolidate --check.
type consolidatedInfo struct {
	Key   string   `json:"key"`
	Stale []string `json:"stale"`
}

// checkConsolidated compares consolidated metadata with the single documents.
func (a *app) checkConsolidated(ctx context.Context, url string) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	o := a.options()
	o.UseConsolidated = dataset.ConsolidatedVerify
	ds, err := open.Open(ctx, url, o)
	if err != nil {
		return err
	}
	defer ds.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	key := "/" + ds.Layout().ConsolidatedDoc()
	if !ds.Consolidated() {
		return ncerr.Errorf(ncerr.ErrNotFound, "check", key, "the dataset has no consolidated metadata")
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
	return ncerr.Errorf(ncerr.ErrConsolidated, "check", key, "the copy of %q is stale (stale documents: %d)", "/"+stale[0], len(stale))
}

// consolidatedFlag is the value of --use-consolidated.
type consolidatedFlag struct{ use dataset.ConsolidatedUse }

// consolidatedWords are the values of --use-consolidated, in the order of the
// dataset.ConsolidatedUse constants.
var consolidatedWords = [...]string{"auto", "verify", "trust", "ignore"}

// Set implements pflag.Value. It fails if word is not one of consolidatedWords.
func (f *consolidatedFlag) Set(word string) error {
	for i, w := range consolidatedWords {
		if w == word {
			f.use = dataset.ConsolidatedUse(i)
			return nil
		}
	}
	return fmt.Errorf("the value must be one of %q", consolidatedWords)
}

// String implements pflag.Value.
func (f *consolidatedFlag) String() string { return consolidatedWords[f.use] }

// Type implements pflag.Value. It returns the name of the value in the help.
func (f *consolidatedFlag) Type() string { return "how" }
