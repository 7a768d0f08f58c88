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

// New gives the opener of the driver "zip". It is safe for concurrent use.
//
// The Path of a spec is the file of the archive; with Env.Inner set it is only
// used in messages, and the archive is the object InnerKey of that Map, which
// must be able to read ranges.
func New() driver.Opener { return &opener{closeToRename: runtime.GOOS == "windows"} }

type opener struct {
	// closeToRename says that an open file can be neither renamed nor
	// replaced.
	closeToRename bool
}

var _ driver.Opener = (*opener)(nil)

// Describe implements driver.Opener.
func (*opener) Describe() driver.Description {
	return driver.Description{
		Name:    "zip",
		Summary: "a dataset in one zip archive, rewritten as a whole at each flush",
		Options: []driver.Option{
			{Name: "prefix", Type: "string", Doc: "top-level directory of the dataset in the archive. Empty: none in a new archive, recognised in an existing one; auto: named after a new archive without its extension, recognised in an existing one; a single dot: none; else its name"},
			{Name: "spill", Type: "size", Default: "64MiB", Doc: "how much unflushed content is kept in memory; more, and every object of 256 KiB or more, goes to a temporary file beside the archive"},
			{Name: "deflate", Type: "int", Default: "0", Doc: "level from 1 to 9 at which new members are deflated; 0 stores them as they are"},
			{Name: "durability", Type: "string", Default: "rename", Doc: "what a flush waits for: rename leaves writing to the disk to the system, fsync waits until archive and directory are on it"},
		},
		Grants: []string{"path:read", "dir:write"},
	}
}

// config is what OpenSpec.Options may say.
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
		return invalid("deflate is %d; it is a level from 1 to 9, or 0 for none", c.Deflate)
	case c.Durability != "rename" && c.Durability != "fsync":
		return invalid("durability is %q; it is rename or fsync", c.Durability)
	}
	if p := c.Prefix; p != "" && p != "auto" && p != "." && classifyName([]byte(p)) != isObject {
		return invalid("prefix is %q; it is the name of a directory, auto or a dot", p)
	}
	return c, nil
}

// fixedPrefix gives the prefix that the configuration demands, nil when the
// names in the archive are to decide. fresh says that the archive is new.
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

// Open implements driver.Opener. What cannot be taken for a zip archive is
// ncerr.ErrCorrupt; an archive without members is an empty store, and one with
// none that is an object is ncerr.ErrNotZarr for reading.
func (o *opener) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := o.open(ctx, spec)
	if err != nil {
		return nil, ncerr.Wrap("open", place(spec), err)
	}
	return m, nil
}

// place names the archive in messages.
func place(spec driver.OpenSpec) string {
	if spec.Path == "" && spec.Env.Inner != nil {
		return spec.Env.InnerKey
	}
	return spec.Path
}

func (o *opener) open(ctx context.Context, spec driver.OpenSpec) (*Map, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, err := readConfig(spec.Options)
	if err != nil {
		return nil, err
	}
	h, err := o.home(spec, c)
	if err != nil {
		return nil, err
	}
	exists, err := h.look(ctx)
	if err != nil && !(exists && spec.Mode == driver.CreateExclusive) {
		return nil, err
	}
	fresh := spec.Mode == driver.Create || spec.Mode == driver.CreateExclusive
	switch {
	case !fresh && !exists:
		return nil, ncerr.Errorf(ncerr.ErrNoDataset, "open", "", "there is no such archive")
	case spec.Mode == driver.CreateExclusive && exists:
		return nil, ncerr.Errorf(ncerr.ErrExists, "create", "", "there is an archive already")
	}
	m := &Map{home: h, cfg: c, mode: spec.Mode, name: place(spec), docs: spec.Documents, pools: &pools{}, closeToRename: o.closeToRename}
	if spec.Mode.Writable() {
		if err := h.probe(ctx); err != nil {
			return nil, err
		}
	}
	fixed := c.fixedPrefix(m.name, fresh)
	if fresh {
		m.arch, m.fresh, m.prefix = emptyArchive(*fixed), true, *fixed
		return m, nil
	}
	src, err := h.open(ctx)
	if err != nil {
		return nil, err
	}
	if m.arch, err = openArchive(ctx, src, fixed, spec.Documents); err != nil {
		return nil, errors.Join(err, src.close())
	}
	if err := m.arch.foreign(); err != nil && spec.Mode == driver.Read {
		return nil, errors.Join(err, src.close())
	}
	m.prefix = m.arch.prefix
	return m, nil
}

// Remove implements driver.Opener. So that a slip in a path costs nothing, a
// file that neither is a zip archive nor begins like one nor is empty is
// refused with ncerr.ErrCorrupt.
func (o *opener) Remove(ctx context.Context, spec driver.OpenSpec) error {
	return ncerr.Wrap("remove", place(spec), o.remove(ctx, spec))
}

func (o *opener) remove(ctx context.Context, spec driver.OpenSpec) error {
	h, err := o.home(spec, config{})
	if err != nil {
		return err
	}
	exists, err := h.look(ctx)
	if err != nil {
		return err
	}
	if !exists {
		return ncerr.Errorf(ncerr.ErrNoDataset, "remove", "", "there is no such archive")
	}
	src, err := h.open(ctx)
	if err != nil {
		return err
	}
	looks := looksLikeZip(ctx, src)
	if err := errors.Join(looks, src.close()); err != nil {
		return err
	}
	return h.remove(ctx)
}

// looksLikeZip accepts what may be removed as an archive.
func looksLikeZip(ctx context.Context, src source) error {
	if src.size() == 0 {
		return nil
	}
	head := make([]byte, min(2, src.size()))
	if _, err := src.readAt(ctx, head, 0); err != nil {
		return err
	}
	if string(head) == "PK" {
		return nil
	}
	_, err := readDirectory(ctx, src)
	return err
}

func (o *opener) home(spec driver.OpenSpec, c config) (home, error) {
	if spec.Env.Inner != nil {
		return newMapHome(spec.Env.Inner, spec.Env.InnerKey)
	}
	return newFileHome(spec.Path, c.Durability == "fsync")
}
