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
	places "github.com/seed-695719ce/nczarr/core/place"
)

// createFlags holds the flags of the commands that create a dataset.
type createFlags struct {
	overwrite, force, consolidated bool
	layout                         layoutFlag
	strings                        string
}

func (f *createFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVar(&f.overwrite, "overwrite", false, "replace an existing dataset")
	fl.BoolVar(&f.force, "force", false, "also delete files that do not belong to a dataset, and allow a location inside another dataset")
	fl.BoolVar(&f.consolidated, "consolidated", false, "also write consolidated metadata (.zmetadata, or a part of zarr.json in Zarr v3)")
	fl.Var(&f.layout, "layout", "metadata `layout` to write: "+layoutNames()+" (default: newest; pure if the URL contains mode=zarr, v3 if it contains mode=v3, nczarr3 if it contains mode=nczarr,v3)")
	fl.StringVar(&f.strings, "strings", "auto", "`how` strings are stored: auto, fixed or vlen (auto: fixed in NCZarr on Zarr v2, vlen otherwise)")
}

func (a *app) newGen() *cobra.Command {
	var f genFlags
	c := &cobra.Command{
		Use:   "gen -o URL [FILE.cdl]",
		Short: "Create a dataset from CDL text, as ncgen does",
		Long: `Create a dataset from CDL text, as ncgen does. Without a file, or with "-", the
text is read from standard input. The URL determines storage and format: x.zip
is a zip archive, #mode=zarr is pure Zarr, #mode=zarr,v3 is Zarr v3, and
#mode=nczarr,v3 is NCZarr on Zarr v3, as a draft of netcdf-c describes it.

A command that fails leaves nothing behind: the text is checked first, and the
dataset becomes visible only when it is complete. With --overwrite, an existing
dataset is kept until the new one is complete and on disk. If the existing
dataset contains other files, the command lists them and fails; --force deletes
them. Replacing a dataset always needs --overwrite.`,
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
	c.Flags().StringVarP(&f.output, "output", "o", "", "`URL` of the dataset to create (required)")
	c.Flags().BoolVar(&f.cut, "cut-strings", false, "truncate strings longer than _nczarr_maxstrlen, as netcdf-c does, instead of failing")
	c.Flags().BoolVar(&f.mapTypes, "map-types", false, "store enum variables as the base type of the enum, with the attributes flag_values and flag_meanings")
	f.add(c)
	return c
}

// genFlags holds the flags of gen.
type genFlags struct {
	createFlags
	output   string
	cut      bool
	mapTypes bool
}

func (a *app) runGen(ctx context.Context, f *genFlags, file string) error {
	if f.output == "" {
		return &usageError{fmt.Errorf("gen requires -o URL (see nczctl gen --help)")}
	}
	in, name := a.in, "<stdin>"
	if file != "-" {
		h, err := os.Open(file)
		if err != nil {
			return &inputError{"read", file, err}
		}
		defer h.Close() // opened for reading
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
	parsed.TruncateStrings = f.cut
	if file != "-" {
		if err := a.checkOutside(ctx, file, f.output); err != nil {
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
	a.warnFixedDims(ds)
	a.warnManyObjects(ds)
	return closeNew(ctx, ds)
}

// checkOutside fails if the CDL file is at the location of the new dataset or inside
// it, because creating the dataset may delete the file.
func (a *app) checkOutside(ctx context.Context, file, url string) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	loc, err := a.locate(url, true)
	if err != nil {
		return err
	}
	if !a.isLocal(loc) {
		return nil
	}
	if r := places.Compare(file, filepath.FromSlash(loc.Path)); r == places.Same || r == places.Above {
		return ncerr.Errorf(ncerr.ErrInvalid, "gen", file, "the CDL file is at the location of the new dataset or inside it")
	}
	return nil
}

// maxInMemory is the number of bytes of standard input that spool keeps in memory.
const maxInMemory = 16 << 20

// spool returns a reader that can read the content of in twice. It returns a seekable
// file unchanged. It keeps short content in memory and writes long content to a temporary
// file, which done removes.
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
		_ = h.Close()           // opened for reading
		_ = os.Remove(h.Name()) // some systems do not remove open files
	}
	_ = os.Remove(h.Name()) // done tries again
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

// inputError reports that op failed on a file of the command line.
type inputError struct {
	op, path string
	err      error
}

func (e *inputError) Error() string {
	return fmt.Sprintf("%s %q: %v", e.op, e.path, cause(e.err))
}

// cause returns the system's error without the path.
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

// Unwrap returns the error kind, which determines the exit code.
func (e *inputError) Unwrap() error {
	switch {
	case os.IsNotExist(e.err):
		return ncerr.ErrNotFound
	case os.IsPermission(e.err):
		return ncerr.ErrPermission
	}
	return ncerr.ErrIO
}
