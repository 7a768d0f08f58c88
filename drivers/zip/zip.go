package zip

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// New returns the opener of the driver "zip". It is safe for concurrent use.
// The Path of a spec is the file of the archive.
func New() driver.Opener { return &opener{closeToRename: runtime.GOOS == "windows"} }

type opener struct {
	// closeToRename is true if an open file can be neither renamed nor replaced.
	closeToRename bool
}

var _ driver.Opener = (*opener)(nil)

// Describe implements driver.Opener.
func (*opener) Describe() driver.Description {
	return driver.Description{
		Name:    "zip",
		Summary: "a dataset in one zip archive, rewritten as a whole at each flush",
		Options: []driver.Option{
			{Name: "prefix", Type: "string", From: driver.FromArchiveRoot, Doc: "top-level directory of the dataset in the archive; empty: detected in an existing archive, no directory in a new one; auto: detected in an existing archive, the name of a new archive without its extension; a single dot: no directory; otherwise: the name of the directory"},
			{Name: "spill", Type: "size", Default: "64MiB", Doc: "maximum size of unflushed content in memory; further content, and every object of 256 KiB or more, goes to a temporary file next to the archive"},
			{Name: "deflate", Type: "int", Default: "0", Doc: "compression level for new members, from 1 to 9; 0 stores them uncompressed"},
			{Name: "durability", Type: "string", Default: "rename", Doc: "what a flush waits for: rename does not wait for the disk, fsync waits until the archive and its directory are on disk"},
		},
		Grants:   []string{"path:read", "dir:write"},
		Locality: driver.LocalArchive,
	}
}

// config holds the decoded options.
type config struct {
	Prefix     string      `json:"prefix"`
	Spill      driver.Size `json:"spill"`
	Deflate    int         `json:"deflate"`
	Durability string      `json:"durability"`
}

func readConfig(options []byte) (config, error) {
	c := config{Spill: 64 << 20, Durability: "rename"}
	if err := driver.DecodeOptions(options, &c); err != nil {
		return c, err
	}
	invalid := func(format string, args ...any) (config, error) {
		return c, ncerr.Errorf(ncerr.ErrInvalid, "read driver options", "", format, args...)
	}
	switch {
	case c.Deflate < 0 || c.Deflate > flate.BestCompression:
		return invalid("deflate is %d; it must be from 0 to 9", c.Deflate)
	case c.Durability != "rename" && c.Durability != "fsync":
		return invalid("invalid durability %q: must be rename or fsync", c.Durability)
	}
	if p := c.Prefix; p != "" && p != "auto" && p != "." && classifyName([]byte(p)) != isObject {
		return invalid("invalid prefix %q: must be a directory name, auto or a dot", p)
	}
	return c, nil
}

// fixedPrefix returns the configured prefix, or nil if it must be detected from the names
// in the archive. fresh is true for a new archive.
func (c config) fixedPrefix(name string, fresh bool) *string {
	p := ""
	switch c.Prefix {
	case "":
		if !fresh {
			return nil
		}
	case "auto":
		if !fresh {
			return nil
		}
		base := filepath.Base(filepath.FromSlash(name))
		base = strings.TrimSuffix(base, filepath.Ext(base))
		if classifyName([]byte(base)) == isObject {
			p = base + "/"
		}
	case ".":
	default:
		p = c.Prefix + "/"
	}
	return &p
}

// Open implements driver.Opener. It returns ncerr.ErrCorrupt for a file that is not a
// zip archive. An archive without members is an empty store. In mode Read, an archive
// whose members are all unreadable is ncerr.ErrNotZarr.
func (o *opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.open(ctx, spec)
	if err != nil {
		return nil, ncerr.Wrap("open", spec.Path, err)
	}
	return m, nil
}

func (o *opener) open(ctx context.Context, spec driver.OpenSpec) (*Map, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := readConfig(spec.Options)
	if err != nil {
		return nil, err
	}
	h, err := newStorage(spec.Path, c.Durability == "fsync")
	if err != nil {
		return nil, err
	}
	exists, err := h.look()
	if err != nil && !(exists && spec.Mode == driver.CreateExclusive) {
		return nil, err
	}
	fresh := spec.Mode == driver.Create || spec.Mode == driver.CreateExclusive
	switch {
	case !fresh && !exists:
		return nil, ncerr.Errorf(ncerr.ErrNoDataset, "open", "", "the archive does not exist")
	case spec.Mode == driver.CreateExclusive && exists:
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", "", "the archive already exists")
	}
	m := &Map{home: h, cfg: c, mode: spec.Mode, name: spec.Path, docs: spec.Documents, pools: &pools{}, closeToRename: o.closeToRename}
	if spec.Mode.Writable() {
		if err := h.probe(); err != nil {
			return nil, err
		}
	}
	fixed := c.fixedPrefix(m.name, fresh)
	if fresh {
		m.arch, m.fresh, m.prefix = emptyArchive(*fixed), true, *fixed
		return m, nil
	}
	src, err := h.open()
	if err != nil {
		return nil, err
	}
	d, err := readDirectory(ctx, src)
	if err == nil {
		m.arch, err = newArchive(src, d, fixed, spec.Documents)
	}
	if err != nil {
		return nil, errors.Join(err, src.close())
	}
	if err := m.arch.foreign(); err != nil && spec.Mode == driver.Read {
		return nil, errors.Join(err, src.close())
	}
	m.prefix = m.arch.prefix
	return m, nil
}

// Remove implements driver.Opener. To protect against a wrong path, it fails with
// ncerr.ErrCorrupt for a nonempty file that neither starts like a zip archive nor has a
// directory.
func (o *opener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return ncerr.Wrap("remove", spec.Path, o.remove(ctx, spec))
}

func (o *opener) remove(ctx context.Context, spec driver.OpenSpec) error {
	h, err := newStorage(spec.Path, false)
	if err != nil {
		return err
	}
	exists, err := h.look()
	if err != nil {
		return err
	}
	if !exists {
		return ncerr.Errorf(ncerr.ErrNoDataset, "remove", "", "the archive does not exist")
	}
	src, err := h.open()
	if err != nil {
		return err
	}
	looks := looksLikeZip(ctx, src)
	if err := errors.Join(looks, src.close()); err != nil {
		return err
	}
	return h.remove()
}

// looksLikeZip returns an error if src does not look like a zip archive and so must not
// be removed. It accepts an empty file.
func looksLikeZip(ctx context.Context, src *source) error {
	if src.n == 0 {
		return nil
	}
	head := make([]byte, min(2, src.n))
	if _, err := src.readAt(ctx, head, 0); err != nil {
		return err
	}
	if string(head) == "PK" {
		return nil
	}
	_, err := readDirectory(ctx, src)
	return err
}
