package main

import (
	"bufio"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// zmapFlags are those of zmapio.
type zmapFlags struct {
	header bool
	typ    string
}

func (a *app) newZmap() *cobra.Command {
	var f zmapFlags
	c := &cobra.Command{
		Use:   "zmap URL",
		Short: "Print every object of a store, as zmapio does",
		Long: `Print every object of a store with its content, in the form of zmapio: an
index that counts prefixes too, the key, the length, and the content: text for
metadata, numbers for chunks. Chunks are shown as they are stored, without
decoding, as numbers of the type of -t; with --json as bytes in base64.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return a.runZmap(c.Context(), &f, list[0]) },
	}
	fl := c.Flags()
	fl.BoolP("help", "", false, "help for zmap")
	fl.BoolVarP(&f.header, "header", "h", false, "metadata only")
	fl.StringVarP(&f.typ, "type", "t", "ubyte", "netCDF `type` of the numbers in chunks")
	return c
}

func (a *app) runZmap(ctx context.Context, f *zmapFlags, url string) error {
	nc := dtype.NCNone
	for t := dtype.NCByte; t <= dtype.NCUInt64; t++ {
		if t.String() == f.typ {
			nc = t
		}
	}
	if nc == dtype.NCNone {
		return &usageError{fmt.Errorf("-t %s: not a fixed-size netCDF type", f.typ)}
	}
	m, key, err := a.openStore(ctx, url)
	if err != nil {
		return err
	}
	defer m.Close(ctx) //nolint:errcheck // only read
	w := bufio.NewWriter(a.data)
	z := zmapper{ctx: ctx, m: m, w: w, nc: nc, header: f.header}
	if a.flags.json {
		z.rows = []zmapRow{}
	}
	if err := z.walk(key); err != nil {
		return err
	}
	if a.flags.json {
		return a.printJSON(z.rows)
	}
	return w.Flush()
}

// zmapper prints a store depth first, in byte order of the names.
//
// Source: netcdf-c nczarr_test/zmapio.c (form of the output).
type zmapper struct {
	ctx    context.Context //nolint:containedctx // lives as long as the command
	m      *zmap.Map
	w      *bufio.Writer
	nc     dtype.NC
	header bool
	n      int
	rows   []zmapRow // what was found so far, for --json; nil without it
}

// zmapRow is an object in the JSON form: a document has its text, a chunk its
// bytes.
type zmapRow struct {
	Index   int    `json:"index"`
	Key     string `json:"key"`
	Size    int    `json:"size"`
	Text    string `json:"text,omitempty"`
	Content []byte `json:"content,omitempty"`
}

func (z *zmapper) walk(prefix string) error {
	names, err := z.m.Search(z.ctx, prefix)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		key := strings.TrimPrefix(prefix+"/"+name, "/")
		index := z.n
		z.n++
		body, _, err := z.m.ReadAll(z.ctx, key, catLimit)
		switch {
		case ncerr.KindOf(err) == ncerr.ErrNotFound: // only a prefix
		case err != nil:
			return err
		default:
			if err := z.object(index, key, body); err != nil {
				return err
			}
		}
		if err := z.walk(key); err != nil {
			return err
		}
	}
	return nil
}

func (z *zmapper) object(index int, key string, body []byte) error {
	doc := zarr.IsZarrDoc(path.Base(key))
	if z.rows != nil {
		row := zmapRow{Index: index, Key: zmap.Path(key), Size: len(body)}
		switch {
		case doc:
			row.Text = string(body)
		case z.header:
			return nil
		default:
			row.Content = body
		}
		z.rows = append(z.rows, row)
		return nil
	}
	if doc {
		_, err := fmt.Fprintf(z.w, "[%d] %s : (%d) |%s|\n", index, zmap.Path(key), len(body), body)
		return err
	}
	if z.header {
		return nil
	}
	t := z.nc.Type(dtype.Native)
	if len(body)%t.Size != 0 {
		t = dtype.NCUByte.Type(dtype.Native)
	}
	values := dtype.MakeSlice(t.NC(), len(body)/t.Size)
	if err := dtype.Decode(values, body, t); err != nil {
		return err
	}
	text := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(values), "[]")), ", ")
	_, err := fmt.Fprintf(z.w, "[%d] %s : (%d) (%s) |%s|\n", index, zmap.Path(key), len(body)/t.Size, t.NC(), text)
	return err
}
