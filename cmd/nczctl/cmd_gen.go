package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// createFlags are those of the commands that make a dataset.
type createFlags struct {
	overwrite, force, consolidated bool
}

func (f *createFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.overwrite, "overwrite", false, "replace a dataset that is there")
	fl.BoolVar(&f.force, "force", false, "also replace something that is no dataset, and allow a place inside another dataset")
	fl.BoolVar(&f.consolidated, "consolidated", false, "also write consolidated metadata (.zmetadata)")
}

func (a *app) newGen() *cobra.Command {
	var f createFlags
	var out string
	c := &cobra.Command{
		Use:   "gen -o URL [FILE.cdl]",
		Short: "Make a dataset from CDL text, as ncgen does",
		Long: `Make a dataset from CDL text, as ncgen does. Without a file, or with "-", the
text is read from standard input. The URL decides about storage and format:
x.zip makes a zip archive, #mode=zarr pure Zarr.

Nothing is left behind when something is wrong: the text is checked first, and
a dataset becomes visible only when it is whole.`,
		Example: "  nczctl gen -o ocean.zarr ocean.cdl\n  nczctl gen -o 'file:///d/x.zip#mode=zarr,zip' ocean.cdl",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			file := "-"
			if len(list) == 1 {
				file = list[0]
			}
			return a.runGen(c.Context(), &f, out, file)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "`URL` of the dataset to make (required)")
	f.add(c)
	return c
}

func (a *app) runGen(ctx context.Context, f *createFlags, out, file string) error {
	if out == "" {
		return &usageError{fmt.Errorf("gen needs -o URL (see nczctl gen --help)")}
	}
	in, name := a.in, "<stdin>"
	if file != "-" {
		h, err := os.Open(file)
		if err != nil {
			return &inputError{file, err}
		}
		defer h.Close() //nolint:errcheck // only read
		in, name = h, file
	}
	parsed, err := cdl.Parse(io.Reader(in), name)
	if err != nil {
		return err
	}
	ds, err := a.create(ctx, f, out)
	if err != nil {
		return err
	}
	if err := cdl.Build(ctx, parsed, ds); err != nil {
		return abort(ctx, ds, err)
	}
	return ds.Close(ctx)
}

// inputError is a file of the command line that cannot be read.
type inputError struct {
	path string
	err  error
}

func (e *inputError) Error() string {
	cause := e.err
	var perr *os.PathError
	if errors.As(cause, &perr) {
		cause = perr.Err
	}
	return fmt.Sprintf("read %q: %v", e.path, cause)
}

// Unwrap gives the kind, which decides about the exit code.
func (e *inputError) Unwrap() error {
	switch {
	case os.IsNotExist(e.err):
		return ncerr.ErrNotFound
	case os.IsPermission(e.err):
		return ncerr.ErrPermission
	}
	return ncerr.ErrIO
}

// create makes a new dataset.
func (a *app) create(ctx context.Context, f *createFlags, url string) (*nczarr.Dataset, error) {
	s, err := a.start(ctx, url)
	if err != nil {
		return nil, err
	}
	ds, err := nczarr.Create(ctx, url, &nczarr.CreateOptions{
		Options: *s.options(a), NoClobber: !f.overwrite && !f.force, Force: f.force, Consolidated: f.consolidated,
	})
	if ncerr.KindOf(err) == ncerr.ErrExists && !f.force {
		hint := "--overwrite replaces it"
		if f.overwrite {
			hint = "see --force"
		}
		return nil, fmt.Errorf("%w (%s)", err, hint)
	}
	return ds, err
}

// abort drops a dataset that could not be finished.
func abort(ctx context.Context, ds *nczarr.Dataset, err error) error {
	if aerr := ds.Abort(context.WithoutCancel(ctx)); aerr != nil {
		return fmt.Errorf("%w (and cleaning up failed: %w)", err, aerr)
	}
	return err
}
