package main

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// dumpFlags are those of ncdump.
type dumpFlags struct {
	header, coords, special bool
	name, precision         string
	vars                    []string
}

func (a *app) newDump() *cobra.Command {
	var f dumpFlags
	c := &cobra.Command{
		Use:   "dump [flags] URL",
		Short: "Print a dataset as CDL, as ncdump does",
		Long: `Print a dataset as CDL, as ncdump does. A variable that cannot be read is
reported and skipped, the rest is printed, and the exit code tells.`,
		Example: "  nczctl dump -h data.zarr\n  nczctl dump -v temp,salt 'file:///d/x.zip#mode=zarr,zip'",
		Args:    args(cobra.ExactArgs(1)),
		RunE:    func(c *cobra.Command, list []string) error { return a.runDump(c.Context(), &f, list[0]) },
	}
	fl := c.Flags()
	fl.BoolP("help", "", false, "help for dump")
	fl.BoolVarP(&f.header, "header", "h", false, "header only, no data")
	fl.BoolVarP(&f.coords, "coords", "c", false, "data of coordinate variables only")
	fl.StringSliceVarP(&f.vars, "vars", "v", nil, "data of these `variables` only")
	fl.BoolVarP(&f.special, "special", "s", false, "show storage as special attributes")
	fl.StringVarP(&f.name, "name", "n", "", "`name` of the dataset in the output")
	fl.StringVarP(&f.precision, "precision", "p", "", "significant `digits` of floats[,doubles], or \"full\" for as many as it takes to read them back (default 7,15)")
	return c
}

func (a *app) runDump(ctx context.Context, f *dumpFlags, url string) error {
	opts := &cdl.WriteOptions{Name: f.name, HeaderOnly: f.header, Coords: f.coords, Vars: f.vars, Special: f.special}
	if err := f.digits(opts); err != nil {
		return err
	}
	ds, err := a.open(ctx, url)
	if err != nil {
		return err
	}
	defer ds.Close(ctx) //nolint:errcheck // only read
	if err := checkVarNames(ds, f.vars); err != nil {
		return err
	}
	said := false
	opts.OnProblem = func(p nczarr.Problem) {
		said = true
		fmt.Fprintf(a.err, "nczctl: skipped %q: %v\n", p.Path, p.Err)
	}
	if a.flags.json {
		return a.dumpJSON(ctx, ds, f, opts)
	}
	w := bufio.NewWriterSize(a.out, 1<<16)
	err = cdl.Write(ctx, w, ds, opts)
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if err != nil && said {
		return &saidError{err}
	}
	return err
}

// digits parses -p.
func (f *dumpFlags) digits(opts *cdl.WriteOptions) error {
	if f.precision == "" {
		return nil
	}
	if f.precision == "full" {
		opts.FullPrecision = true
		return nil
	}
	float, double, two := strings.Cut(f.precision, ",")
	for _, d := range []struct {
		text string
		to   *int
		most int
	}{{float, &opts.FloatDigits, 10}, {double, &opts.DoubleDigits, 20}} {
		if d.text == "" && !two {
			continue
		}
		n, err := strconv.Atoi(d.text)
		if err != nil || n < 1 || n > d.most {
			return &usageError{fmt.Errorf("-p %s: %q is not a number of digits from 1 to %d", f.precision, d.text, d.most)}
		}
		*d.to = n
	}
	return nil
}
