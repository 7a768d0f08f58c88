package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// zmapFlags holds the flags of zmap, which are the same as in zmapio.
type zmapFlags struct {
	header bool
	typ    string
}

func (a *app) newZmap() *cobra.Command {
	var f zmapFlags
	c := &cobra.Command{
		Use:   "zmap URL",
		Short: "Print every object of a store, as zmapio does",
		Long: `Print every object of a store in the format of zmapio: an index, which also
counts prefixes, the key, the length and the content. The content of metadata
is text. Chunks are printed as stored, without decoding: as numbers of the type
given by -t, or with --json as base64. The command fails if an object is larger
than limits.max_chunk.`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error { return a.runZmap(c.Context(), &f, list[0]) },
	}
	fl := c.Flags()
	fl.BoolP("help", "", false, "help for zmap")
	fl.BoolVarP(&f.header, "header", "h", false, "print metadata only")
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
		return &usageError{fmt.Errorf("-t must be a fixed-size netCDF type, not %s", f.typ)}
	}
	m, key, err := a.openStore(ctx, url, false)
	if err != nil {
		return err
	}
	defer m.Close(ctx) //nolint:errcheck // the store is only read, so Close cannot lose data
	limits := a.session.Config().Limits
	z := zmapper{
		ctx: ctx, m: m, w: bufio.NewWriter(a.data), nc: nc, header: f.header, json: a.flags.json,
		maxSize: int64(limits.MaxChunk), room: int64(limits.MaxListing), prefix: key,
	}
	if z.json {
		z.w = bufio.NewWriter(a.out)
	}
	return z.run()
}

// zmapper prints a store depth first, in byte order of the names.
//
// Source: netcdf-c nczarr_test/zmapio.c (output format).
type zmapper struct {
	ctx     context.Context //nolint:containedctx // the context has the lifetime of the command
	m       *zmap.Map
	w       *bufio.Writer // Flush returns its first error
	nc      dtype.NC
	header  bool
	json    bool
	maxSize int64  // maximum size of one object in bytes
	room    int64  // bytes of names that walk may still keep in memory
	prefix  string // prefix of the keys to print
	n       int    // the next index
	open    string // the delimiter before the next JSON row
}

// run prints the store.
func (z *zmapper) run() error {
	z.open = "["
	if err := z.walk(z.prefix, 0); err != nil {
		return errors.Join(err, z.w.Flush())
	}
	switch {
	case z.json && z.open == "[": // nothing was printed
		z.print("[]\n")
	case z.json:
		z.print("\n]\n")
	}
	return z.w.Flush()
}

// zmapRow is an object in the JSON output. Text is the content of a metadata document,
// and Content is the stored chunk.
type zmapRow struct {
	Index   int    `json:"index"`
	Key     string `json:"key"`
	Size    int    `json:"size"`
	Text    string `json:"text,omitempty"`
	Content []byte `json:"content,omitempty"`
}

func (z *zmapper) print(format string, args ...any) { fmt.Fprintf(z.w, format, args...) }

// walk prints the objects below a prefix. Each level of the recursion keeps the names
// below its prefix in memory.
func (z *zmapper) walk(prefix string, depth int) error {
	if err := checkDepth(prefix, depth); err != nil {
		return err
	}
	names, err := z.m.Search(z.ctx, prefix)
	if err != nil {
		return err
	}
	held := int64(0)
	for _, name := range names {
		held += int64(len(name))
	}
	if z.room -= held; z.room < 0 {
		return ncerr.Errorf(ncerr.ErrLimit, "list", zmap.Path(prefix), "the names of this prefix and its parents exceed limits.max_listing")
	}
	defer func() { z.room += held }()
	for _, name := range names {
		key := strings.TrimPrefix(prefix+"/"+name, "/")
		index := z.n
		z.n++
		if err := z.object(index, key); err != nil {
			return err
		}
		if err := z.walk(key, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkDepth fails if depth exceeds the maximum depth of a listing.
func checkDepth(prefix string, depth int) error {
	if depth > zmap.MaxDepth {
		return ncerr.Errorf(ncerr.ErrLimit, "search", fmt.Sprintf("%.100s", prefix), "the store has more than the limit of %d levels", zmap.MaxDepth)
	}
	return nil
}

// object prints the object with the given key. It prints nothing if key is only a
// prefix or the flags exclude the object.
func (z *zmapper) object(index int, key string) error {
	doc := zarr.IsZarrDoc(path.Base(key))
	body, _, err := z.m.ReadAll(z.ctx, key, z.maxSize)
	switch {
	case ncerr.KindOf(err) == ncerr.ErrNotFound: // key is only a prefix
		return nil
	case err != nil:
		return err
	case z.header && !doc:
		return nil
	case z.json:
		return z.row(&zmapRow{Index: index, Key: zmap.Path(key), Size: len(body)}, doc, body)
	case doc:
		z.print("[%d] %s : (%d) |%s|\n", index, zmap.Path(key), len(body), body)
		return nil
	}
	t := z.nc.Type(dtype.Native)
	if len(body)%t.Size != 0 {
		t = dtype.NCUByte.Type(dtype.Native)
	}
	z.print("[%d] %s : (%d) (%s) |", index, zmap.Path(key), len(body)/t.Size, t.NC())
	if err := z.numbers(body, t); err != nil {
		return err
	}
	z.print("|\n")
	return nil
}

// numbersPerCall is the number of numbers that are formatted in one call.
const numbersPerCall = 4096

// numbers prints the content of a chunk in pieces, because the output is many times
// larger than the chunk.
func (z *zmapper) numbers(body []byte, t dtype.Type) error {
	values := dtype.MakeSlice(t.NC(), min(len(body)/t.Size, numbersPerCall))
	for first := 0; first < len(body); {
		piece := body[first:min(first+numbersPerCall*t.Size, len(body))]
		part := dtype.Slice(values, 0, len(piece)/t.Size)
		if err := dtype.Decode(part, piece, t); err != nil {
			return err
		}
		if first > 0 {
			z.print(", ")
		}
		z.print("%s", strings.Join(strings.Fields(strings.Trim(fmt.Sprint(part), "[]")), ", "))
		first += len(piece)
	}
	return nil
}

// row prints an object as JSON.
func (z *zmapper) row(row *zmapRow, doc bool, body []byte) error {
	if row.Content = body; doc {
		row.Text, row.Content = string(body), nil
	}
	z.print("%s\n  ", z.open)
	z.open = ","
	out := &newlineTrimmer{w: z.w}
	e := json.NewEncoder(out)
	e.SetIndent("  ", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(row)
}

// newlineTrimmer drops the newline that a JSON encoder writes after a value.
type newlineTrimmer struct{ w *bufio.Writer }

// Write implements io.Writer. A json.Encoder calls Write once per value.
func (u *newlineTrimmer) Write(p []byte) (int, error) {
	_, err := u.w.Write(bytes.TrimSuffix(p, []byte("\n")))
	return len(p), err
}
