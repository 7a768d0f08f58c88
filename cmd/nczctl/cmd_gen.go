package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/cdl"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	places "github.com/seed-695719ce/nczarr/core/place"
)

// createFlags are those of the commands that make a dataset.
type createFlags struct {
	overwrite, force, consolidated bool
	layout                         layoutFlag
	strings                        string
}

func (f *createFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.overwrite, "overwrite", false, "replace a dataset that is there")
	fl.BoolVar(&f.force, "force", false, "also delete files that do not belong to a dataset, and allow a place inside another dataset")
	fl.BoolVar(&f.consolidated, "consolidated", false, "also write consolidated metadata (.zmetadata, or a part of zarr.json in Zarr v3)")
	fl.Var(&f.layout, "layout", "metadata `layout` to write: "+layoutNames()+" (default: newest, or pure when the URL says mode=zarr, v3 when it says mode=v3)")
	fl.StringVar(&f.strings, "strings", "auto", "`how` strings are stored: auto, fixed or vlen (auto: vlen in pure Zarr, fixed in NCZarr)")
}

func (a *app) newGen() *cobra.Command {
	var f genFlags
	c := &cobra.Command{
		Use:   "gen -o URL [FILE.cdl]",
		Short: "Make a dataset from CDL text, as ncgen does",
		Long: `Make a dataset from CDL text, as ncgen does. Without a file, or with "-", the
text is read from standard input. The URL decides about storage and format:
x.zip makes a zip archive, #mode=zarr pure Zarr, #mode=zarr,v3 Zarr v3.

Nothing is left behind when something is wrong: the text is checked first, and
a dataset becomes visible only when it is complete. With --overwrite an existing
dataset stays until the new one is complete and on the disk. If other files lie
in it, they are listed and the command is refused; --force deletes them, and
replaces a dataset only together with --overwrite.`,
		Example: "  nczctl gen -o ocean.zarr ocean.cdl\n  nczctl gen -o 'file:///d/x.zip#mode=zarr,zip' ocean.cdl",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			file := "-"
			if len(list) == 1 {
				file = list[0]
			}
			return a.runGen(c.Context(), &f, file)
		},
	}
	c.Flags().StringVarP(&f.output, "output", "o", "", "`URL` of the dataset to make (required)")
	c.Flags().BoolVar(&f.cut, "cut-strings", false, "cut strings that are longer than _MaxStrLen, as netcdf-c does, instead of refusing them")
	c.Flags().BoolVar(&f.mapTypes, "map-types", false, "store variables of an enum as its base type with the attributes flag_values and flag_meanings")
	f.add(c)
	return c
}

// genFlags are those of gen.
type genFlags struct {
	createFlags
	output   string
	cut      bool
	mapTypes bool
}

func (a *app) runGen(ctx context.Context, f *genFlags, file string) error {
	if f.output == "" {
		return &usageError{fmt.Errorf("gen needs -o URL (see nczctl gen --help)")}
	}
	in, name := a.in, "<stdin>"
	if file != "-" {
		h, err := os.Open(file)
		if err != nil {
			return &inputError{"read", file, err}
		}
		defer h.Close() // only read
		in, name = h, file
	} else {
		spooled, done, err := spool(in)
		if err != nil {
			return &inputError{"read", name, err}
		}
		defer done()
		in = spooled
	}
	parsed, err := cdl.Parse(in, name, &cdl.ParseOptions{MapTypes: f.mapTypes})
	if err != nil {
		return err
	}
	for _, w := range parsed.Warnings() {
		a.warn("%s", w)
	}
	parsed.CutStrings = f.cut
	if file != "-" {
		if err := a.outside(ctx, file, f.output); err != nil {
			return err
		}
	}
	ds, err := a.create(ctx, &f.createFlags, f.output)
	if err != nil {
		return err
	}
	if err := cdl.Build(ctx, parsed, ds); err != nil {
		return abort(ctx, ds, err)
	}
	a.warnFixed(ds)
	a.warnMany(ds)
	return closeNew(ctx, ds)
}

// outside refuses text at the place of the new dataset, or inside it, where it may
// be deleted.
func (a *app) outside(ctx context.Context, file, url string) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	loc, err := a.locate(url, true)
	if err != nil {
		return err
	}
	if loc.Driver != ncurl.DriverFile && loc.Driver != ncurl.DriverZip {
		return nil
	}
	if r := places.Relate(file, filepath.FromSlash(loc.Path)); r == places.Same || r == places.Above {
		return ncerr.Errorf(ncerr.ErrInvalid, "gen", file, "the text is at the place of the new dataset, or inside it")
	}
	return nil
}

// maxInMemory is the most text of standard input, in bytes, that is kept in
// memory.
const maxInMemory = 16 << 20

// spool gives a reader's text for reading twice: a file as it is, short text
// from memory, other text from a temporary file that has no name any more.
func spool(in io.Reader) (r io.Reader, done func(), err error) {
	if h, ok := in.(*os.File); ok {
		if _, err := h.Seek(0, io.SeekCurrent); err == nil {
			return h, func() {}, nil
		}
	}
	head, err := io.ReadAll(io.LimitReader(in, maxInMemory))
	if err != nil || len(head) < maxInMemory {
		return bytes.NewReader(head), func() {}, err
	}
	h, err := os.CreateTemp("", "nczctl-*.cdl")
	if err != nil {
		return nil, nil, err
	}
	done = func() {
		_ = h.Close()           // only read
		_ = os.Remove(h.Name()) // where a file that is open could not be removed
	}
	_ = os.Remove(h.Name()) // see done
	if _, err = h.Write(head); err == nil {
		_, err = io.Copy(h, in)
	}
	if err == nil {
		_, err = h.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return h, done, nil
}

// inputError is a file of the command line with which op failed.
type inputError struct {
	op, path string
	err      error
}

func (e *inputError) Error() string {
	return fmt.Sprintf("%s %q: %v", e.op, e.path, cause(e.err))
}

// cause is what the system said, without the path.
func cause(err error) error {
	var perr *os.PathError
	var lerr *os.LinkError
	switch {
	case errors.As(err, &perr):
		return perr.Err
	case errors.As(err, &lerr):
		return lerr.Err
	}
	return err
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
