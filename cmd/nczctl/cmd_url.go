package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/ncurl"
)

func (a *app) newURL() *cobra.Command {
	var create bool
	c := &cobra.Command{
		Use:   "url URL",
		Short: "Explain step by step how a URL or path is interpreted",
		Long: `Explain how a URL or path is interpreted: the storage driver, the format, the
location, and each step of the inference. The dataset is not opened. Secrets are
masked.`,
		Example: "  nczctl url 's3://bucket/key#mode=nczarr'\n  nczctl url data.zip",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if _, err := a.start(c.Context(), list[0]); err != nil {
				return err
			}
			loc, err := a.locate(list[0], create)
			if err != nil {
				return err
			}
			if a.flags.json {
				return a.printJSON(loc.Redacted())
			}
			return a.printLocation(loc)
		},
	}
	c.Flags().BoolVar(&create, "create", false, "interpret the URL as the location of a new dataset")
	return c
}

func (a *app) printLocation(loc *ncurl.Location) error {
	fmt.Fprintf(a.out, "%s\n", loc.Display)
	shown := loc.Redacted()
	for _, row := range []struct{ name, value string }{
		{"driver", loc.Driver},
		{"path", loc.Path},
		{"endpoint", loc.Endpoint},
		{"bucket", loc.Bucket},
		{"key", loc.Key},
		{"query", shown.Query},
		{"format", string(loc.Format)},
		{"region", loc.Region},
		{"profile", loc.Profile},
	} {
		if row.value != "" {
			fmt.Fprintf(a.out, "  %-9s %s\n", row.name, row.value)
		}
	}
	if !loc.Xarray {
		fmt.Fprintln(a.out, "  xarray    _ARRAY_DIMENSIONS attributes are neither read nor written")
	}
	if loc.Consolidated {
		fmt.Fprintln(a.out, "  metadata  consolidated")
	}
	if loc.Unsigned {
		fmt.Fprintln(a.out, "  signing   requests are not signed")
	}
	fmt.Fprintln(a.out, "steps:")
	return loc.Explain(a.out)
}
