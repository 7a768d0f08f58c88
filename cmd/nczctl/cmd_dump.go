package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// dumpFlags holds the flags of dump, which are the same as in ncdump.
type dumpFlags struct {
	header, coords, special, filters bool
	kind, ncml, dates, isoDates      bool
	cache                            bool
	name, precision, brief, full     string
	vars, groups                     []string
	line, log                        int
}

func (a *app) newDump() *cobra.Command {
	var f dumpFlags
	c := &cobra.Command{
		Use:   "dump [flags] URL",
		Short: "Print a dataset as CDL, as ncdump does",
		Long: `Print a dataset as CDL, as ncdump does, with the options of ncdump. If a variable
cannot be read, the command reports it, prints the rest and exits with the code
of the error.`,
		Example: `  nczctl dump -h data.zarr                  header only
  nczctl dump -v temp,salt -p 4 data.zarr   two variables, floats with 4 digits
  nczctl dump -t -v time data.zarr          times as dates
  nczctl dump -hs 'file:///d/x.zip#mode=zarr,zip'`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return a.runDump(c.Context(), &f, list[0]) },
	}
	fl := c.Flags()
	fl.BoolP("help", "", false, "help for dump")
	fl.BoolVarP(&f.header, "header", "h", false, "header only, no data")
	fl.BoolVarP(&f.coords, "coords", "c", false, "data of coordinate variables only")
	fl.StringSliceVarP(&f.vars, "vars", "v", nil, "data of these `variables` only: names, or paths such as g/x and /g/x")
	fl.StringSliceVarP(&f.groups, "groups", "g", nil, "data of these `groups` only: names or absolute paths; / is the root")
	fl.BoolVarP(&f.special, "special", "s", false, "show storage properties as special attributes")
	fl.BoolVarP(&f.filters, "filters", "F", false, "with -s: show every filter in _Filter, without _Shuffle, _DeflateLevel and _Fletcher32")
	fl.BoolVarP(&f.dates, "times", "t", false, "times as dates: \"2000-01-01 06:30\"")
	fl.BoolVarP(&f.isoDates, "iso-times", "i", false, "times as ISO dates: \"2000-01-01T06:30\"")
	fl.StringVarP(&f.brief, "brief", "b", "", "show the indices of each row in a comment, in the order of `language` c or f (Fortran)")
	fl.StringVarP(&f.full, "full", "f", "", "print each value on its own line with its indices in a comment, in the order of `language` c or f (Fortran)")
	fl.IntVarP(&f.line, "length", "l", 80, "maximum length of a line of data, at least 10")
	fl.StringVarP(&f.name, "name", "n", "", "`name` of the dataset in the output")
	fl.StringVarP(&f.precision, "precision", "p", "", "significant `digits` of floats[,doubles], or \"full\" for the exact value (default 7,15)")
	fl.BoolVarP(&f.kind, "kind", "k", false, "print only the kind of the dataset")
	fl.BoolVarP(&f.ncml, "xml", "x", false, "NcML (XML) instead of CDL: no data")
	fl.BoolVarP(&f.cache, "cache", "w", false, "no effect; accepted for compatibility with ncdump")
	fl.IntVarP(&f.log, "log-level", "L", 0, "if above 0, log every call to standard error, as --trace does")
	return c
}

func (a *app) runDump(ctx context.Context, f *dumpFlags, url string) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	if a.flags.json && !f.kind && !f.ncml && (f.dates || f.isoDates) {
		return &usageError{fmt.Errorf("-t and -i apply to CDL only: --json prints times as numbers and their units as attributes")}
	}
	a.flags.trace = a.flags.trace || f.log > 0
	openAs := a.openWithFilters
	if f.header || f.kind {
		openAs = a.open
	}
	ds, err := openAs(ctx, url)
	if err != nil {
		return err
	}
	defer ds.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	if err := opts.Check(ds); err != nil {
		return err
	}
	if err := a.warnUnlisted(ctx, ds); err != nil {
		return err
	}
	reported := false
	opts.OnProblem = func(p dataset.Problem) {
		reported = true
		fmt.Fprintf(a.err, "nczctl: skipped %q: %v\n", p.Path, p.Err)
	}
	if a.flags.json && !f.kind && !f.ncml {
		if err := a.dumpJSON(ctx, ds, f, opts); err != nil {
			return err
		}
		return ds.CheckUnchanged(ctx)
	}
	w := bufio.NewWriterSize(a.data, 1<<16)
	switch {
	case f.kind:
		err = a.printKind(w)
	case f.ncml:
		err = cdl.WriteNcML(ctx, w, ds, ncurl.Masked(url), opts)
	default:
		err = cdl.Write(ctx, w, ds, opts)
	}
	if ferr := w.Flush(); err == nil {
		err = ferr
	}
	if err == nil {
		err = ds.CheckUnchanged(ctx)
	}
	if err != nil && reported {
		return &reportedError{err}
	}
	return err
}

// printKind prints the kind that ncdump -k prints for NCZarr and Zarr datasets.
func (a *app) printKind(w io.Writer) error {
	const kind = "netCDF-4"
	if a.flags.json {
		return a.printJSON(map[string]string{"kind": kind})
	}
	_, err := fmt.Fprintln(w, kind)
	return err
}

// options returns the flags as options of package cdl.
func (f *dumpFlags) options() (*cdl.WriteOptions, error) {
	opts := &cdl.WriteOptions{
		Name: f.name, HeaderOnly: f.header, Coords: f.coords, Vars: f.vars, Groups: f.groups,
		Special: f.special, Filters: f.filters, LineLength: f.line,
	}
	switch {
	case f.brief != "" && f.full != "":
		return nil, &usageError{fmt.Errorf("-b and -f cannot be combined")}
	case f.line < 10:
		return nil, &usageError{fmt.Errorf("-l is %d, less than the minimum of 10", f.line)}
	case f.isoDates:
		opts.Times = cdl.TimesISO
	case f.dates:
		opts.Times = cdl.TimesBlank
	}
	flag, language := "-b", f.brief
	if f.brief != "" {
		opts.Notes = cdl.NotesBrief
	}
	if f.full != "" {
		flag, language, opts.Notes = "-f", f.full, cdl.NotesFull
	}
	switch strings.ToLower(language + " ")[0] { // like ncdump, dump accepts any word with this first letter, such as "-b fortran"
	case 'f':
		opts.Index = cdl.IndexFortran
	case 'c', ' ':
	default:
		return nil, &usageError{fmt.Errorf("%s must be c or f (Fortran), not %s", flag, language)}
	}
	return opts, f.digits(opts)
}

// digits parses the value of -p into opts.
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
		text      string
		to        *int
		maxDigits int
	}{{float, &opts.FloatDigits, 20}, {double, &opts.DoubleDigits, 20}} {
		if d.text == "" && !two {
			continue
		}
		n, err := strconv.Atoi(d.text)
		if err != nil || n < 1 || n > d.maxDigits {
			return &usageError{fmt.Errorf("-p %s: %q is not a number of digits from 1 to %d", f.precision, d.text, d.maxDigits)}
		}
		*d.to = n
	}
	return nil
}
