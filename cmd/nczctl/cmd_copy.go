package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// copyFlags holds the flags of copy, which are the flags of nccopy and additional flags
// for Zarr.
type copyFlags struct {
	create   createFlags
	chunks   string
	shards   string
	deflate  int
	shuffle  bool
	codec    string
	quantize string
	vars     []string
	skip     bool
	noVerify bool
	resume   bool
}

func (a *app) newCopy() *cobra.Command {
	f := copyFlags{deflate: -1}
	c := &cobra.Command{
		Use:   "copy [flags] SRC DST | copy --resume-replace DST",
		Short: "Copy a dataset and optionally change its chunks, codecs or format",
		Long: `Copy a dataset. The URL of the destination determines storage and format: x.zip
is a zip archive, #mode=zarr is pure Zarr, #mode=zarr,v3 is Zarr v3, and
#mode=nczarr,v3 is NCZarr on Zarr v3, as a draft of netcdf-c describes it.
Chunks, shards and codecs are kept unless flags change them; only Zarr v3 has
shards.

Chunks that do not change are copied as they are stored and decoded once to check
them. --no-verify omits this check and is faster, but copies damaged chunks without
an error. --codec and -d compress all chunks again.

A failed copy leaves nothing that looks like a complete dataset. With
--overwrite, an existing dataset is kept until the copy is complete and on disk.
If the existing dataset contains other files, the command lists them and fails;
--force deletes them. Replacing a dataset always needs --overwrite. Source and
destination must not contain each other.

On object stores, the copy that replaces a dataset is written beside it, as
DST.nczstage-LETTERS, and then moved into place object by object. If the command
dies during the move, commands that open DST report this. --resume-replace
finishes the replacement. If DST is complete and no new dataset exists beside it,
--resume-replace only removes the claim, the object .nczreplacing.

--codec takes "none", a list of codecs with their parameters in the order of
encoding, such as "shuffle,zstd:level=3", or a JSON list as in Zarr metadata.
"nczctl plugin list" lists the codecs, and "nczctl plugin info zstd" lists the
parameters of one.`,
		Example: `  nczctl copy ocean.zarr ocean.zip
  nczctl copy -c time/1,lat/90,lon/180 --codec shuffle,zstd:level=5 a.zarr b.zarr
  nczctl copy -c lat/90,lon/180 --shards lat/720,lon/1440 a.zarr 'b.zarr#mode=zarr,v3'
  nczctl copy -d 6 -s a.zarr 'b.zarr#mode=zarr'`,
		Args: args(func(c *cobra.Command, list []string) error {
			if f.resume {
				return cobra.ExactArgs(1)(c, list)
			}
			return cobra.ExactArgs(2)(c, list)
		}),
		RunE: func(c *cobra.Command, list []string) error {
			if f.resume {
				return a.runResume(c.Context(), list[0])
			}
			return a.runCopy(c.Context(), &f, list[0], list[1])
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.chunks, "chunks", "c", "", "chunk shape: \"dim/N,dim/N\" for all variables, \"var:N,N\" for one variable; separate multiple items with semicolons")
	fl.StringVar(&f.shards, "shards", "", "shard shape in the form of --chunks, multiples of the chunk shape; \"none\" stores each chunk as an object (Zarr v3 only)")
	fl.IntVarP(&f.deflate, "deflate", "d", -1, "compress with zlib at this `level`, 0 to 9 (0 stores raw)")
	fl.Lookup("deflate").DefValue = "0" // help does not show this default
	fl.BoolVarP(&f.shuffle, "shuffle", "s", false, "with -d: shuffle the bytes before compressing")
	fl.StringVar(&f.codec, "codec", "", "codec `chain` for all variables")
	fl.StringVar(&f.quantize, "quantize", "", "round float and double values, `MODE=N`: bitgroom or granular to N digits, bitround to N bits; lossy")
	fl.StringSliceVarP(&f.vars, "vars", "v", nil, "copy only these `variables` (names or paths)")
	fl.BoolVar(&f.skip, "skip-unreadable", false, "skip variables that cannot be opened, whose codec is missing, or whose objects cannot be decoded as text, instead of failing; any other chunk that cannot be read still fails the copy")
	fl.BoolVar(&f.noVerify, "no-verify", false, "do not check chunks that are copied as they are stored; damaged ones are copied without an error")
	fl.BoolVar(&f.resume, "resume-replace", false, "finish a replacement of DST whose command died (it must not be running)")
	f.create.add(c)
	return c
}

// runResume finishes the replacement of a dataset.
func (a *app) runResume(ctx context.Context, url string) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	loc, err := a.locate(url, true)
	if err != nil {
		return err
	}
	done, err := dataset.ResumeReplacement(ctx, loc, a.options())
	if err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(map[string]string{"replacement": done})
	}
	_, err = fmt.Fprintln(a.out, done)
	return err
}

func (a *app) runCopy(ctx context.Context, f *copyFlags, from, to string) error {
	opts, specs, err := f.options()
	if err != nil {
		return err
	}
	src, err := a.openWithFilters(ctx, from)
	if err != nil {
		return err
	}
	defer src.Close(ctx)                                      //nolint:errcheck // the store is only read, so Close cannot lose data
	opts.Memory = int64(a.session.Config().Limits.Memory) / 2 // the other half is for reads and writes
	if err := checkVarNames(src, f.vars); err != nil {
		return err
	}
	if err := a.warnUnlisted(ctx, src); err != nil {
		return err
	}
	left, err := unreadable(ctx, src, opts, f.skip)
	if err != nil {
		return err
	}
	if len(left) > 0 && !f.skip {
		return fmt.Errorf("cannot read %q: %w (unreadable parts: %d; see --skip-unreadable)", left[0].Path, left[0].Err, len(left))
	}
	for _, spec := range specs {
		if err := spec.check(src); err != nil {
			return err
		}
	}
	loc, err := a.locate(to, true)
	if err != nil {
		return err
	}
	if err := dataset.CheckOverlap(ctx, src, loc, a.options()); err != nil {
		return err
	}
	dst, err := a.create(ctx, &f.create, to)
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gcPercent(src.Root(), opts.Select, f.chunks != "")))
	}
	bar := a.progress("copying")
	opts.Progress = bar.set
	err = dataset.Copy(ctx, dst.Root(), src.Root(), opts)
	bar.done()
	if err != nil {
		return abort(ctx, dst, err)
	}
	a.warnFixedDims(dst)
	a.warnManyObjects(dst)
	if err := closeNew(ctx, dst); err != nil {
		return err
	}
	return a.problems(left)
}

// gcPercent returns the percentage of garbage that a copy of the selected variables of g may
// hold. Most of the memory is a few large blocks, so that a collection costs little, but each
// collection visits all strings of a block. If rechunk is set, the blocks may be larger.
func gcPercent(g *dataset.Group, selected func(*dataset.Var) bool, rechunk bool) int {
	percent := 25
	if rechunk {
		percent = 2
	}
	eachVar(g, func(v *dataset.Var) {
		if v.Type() == dtype.NCString && v.Rank() > 0 && selected(v) {
			percent = 25
		}
	})
	return percent
}

// unreadable returns the parts of src that failed to open and the selected variables
// whose codecs are missing. If reads is set, it also returns variables whose objects cannot be
// decoded as text, which only a read finds. It removes these variables from the selection of o.
func unreadable(ctx context.Context, src *dataset.Dataset, o *dataset.CopyOptions, reads bool) ([]dataset.Problem, error) {
	left, missing := src.Problems(), map[*dataset.Var]bool{}
	selected := o.Select
	var failed error
	eachVar(src.Root(), func(v *dataset.Var) {
		if selected != nil && !selected(v) || failed != nil {
			return
		}
		err := v.Available(ctx)
		if err == nil && reads {
			if err = v.CheckObjects(ctx, o.Memory); err != nil && ncerr.KindOf(err) != ncerr.ErrCorrupt {
				failed = err // such as a failure of the store
				return
			}
		}
		if err != nil {
			left, missing[v] = append(left, dataset.Problem{Path: v.Path(), Err: err}), true
		}
	})
	o.Select = func(v *dataset.Var) bool { return (selected == nil || selected(v)) && !missing[v] }
	return left, cmp.Or(failed, ctx.Err())
}

// options returns the copy options and the parsed -c and --shards.
func (f *copyFlags) options() (*dataset.CopyOptions, []*chunkSpec, error) {
	o, specs := &dataset.CopyOptions{NoVerify: f.noVerify}, []*chunkSpec(nil)
	if f.chunks != "" {
		spec, err := parseChunkSpec("-c", f.chunks)
		if err != nil {
			return nil, nil, &usageError{err}
		}
		o.Chunks, specs = spec.chunks, append(specs, spec)
	}
	switch f.shards {
	case "":
	case "none":
		o.Shards = func(*dataset.Var, []int64) ([]int64, bool, error) { return nil, true, nil }
	default:
		spec, err := parseChunkSpec("--shards", f.shards)
		if err != nil {
			return nil, nil, &usageError{err}
		}
		o.Shards, specs = spec.shards, append(specs, spec)
	}
	chain, given, err := f.chain()
	if err != nil {
		return nil, nil, &usageError{err}
	}
	if given {
		o.Codecs = func(v *dataset.Var) ([]zarr.CodecSpec, bool, error) { return chain, acceptsCodecs(v), nil }
	}
	if f.quantize != "" {
		q, err := parseQuantize(f.quantize)
		if err != nil {
			return nil, nil, &usageError{err}
		}
		o.Quantize = func(v *dataset.Var) (dtype.Quantization, bool, error) {
			return q, v.Type() == dtype.NCFloat || v.Type() == dtype.NCDouble, nil
		}
	}
	if len(f.vars) > 0 {
		o.Select = f.selected
	}
	return o, specs, nil
}

// acceptsCodecs reports whether the codec flags apply to v. Scalars and strings keep
// their codecs, because libnetcdf refuses filters on scalars and misreads filtered
// strings.
//
// Source: netcdf-c libdispatch/dfilter.c, libnczarr/zfilter.c.
func acceptsCodecs(v *dataset.Var) bool { return v.Rank() > 0 && v.Type() != dtype.NCString }

// chain returns the codec chain that the flags set, and reports whether they set one.
func (f *copyFlags) chain() ([]zarr.CodecSpec, bool, error) {
	if f.codec != "" {
		if f.deflate >= 0 {
			return nil, false, fmt.Errorf("-d and --codec cannot be combined")
		}
		chain, err := parseCodecs(f.codec)
		return chain, true, err
	}
	switch {
	case f.deflate < 0 && f.shuffle:
		return nil, false, fmt.Errorf("-s requires -d")
	case f.deflate < 0:
		return nil, false, nil
	case f.deflate > 9:
		return nil, false, fmt.Errorf("-d must be a level from 0 to 9, not %d", f.deflate)
	case f.deflate == 0:
		return nil, true, nil
	}
	text := fmt.Sprintf("zlib:level=%d", f.deflate)
	if f.shuffle {
		text = "shuffle," + text
	}
	chain, err := parseCodecs(text)
	return chain, true, err
}

func (f *copyFlags) selected(v *dataset.Var) bool {
	for _, name := range f.vars {
		if name == v.Name() || name == v.Path() || "/"+name == v.Path() {
			return true
		}
	}
	return false
}

// eachVar calls f for each variable of a group and its subgroups.
func eachVar(g *dataset.Group, f func(*dataset.Var)) {
	for _, v := range g.Vars() {
		f(v)
	}
	for _, sub := range g.Groups() {
		eachVar(sub, f)
	}
}
