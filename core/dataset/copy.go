package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/array"
	"github.com/seed-695719ce/nczarr/core/budget"
	"github.com/seed-695719ce/nczarr/core/chunk"
	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// CopyOptions selects what [Copy] copies and changes. The zero value copies everything
// unchanged.
type CopyOptions struct {
	// Chunks returns the chunk shape for the copy of v. If Chunks or its result is nil,
	// the copy has the chunk grid of v. A rectilinear grid becomes a regular grid of the
	// largest chunk lengths if the copy has shards or the format of dst has no
	// rectilinear grids.
	Chunks func(v *Var) ([]int64, error)
	// Shards returns the shape, in elements, of the shards in the copy of v. chunks is
	// the chunk shape of the copy. A nil shape makes each chunk an object. If ok is
	// false, the copy has the outermost shards of v, provided that the format of dst
	// supports shards.
	Shards func(v *Var, chunks []int64) (shape []int64, ok bool, err error)
	// Codecs returns the codec chain for the copy of v. All chunks are then encoded
	// again, even if v has the same chain. If ok is false, the copy has the chain of v.
	Codecs func(v *Var) (chain []zarr.CodecSpec, ok bool, err error)
	// Quantize returns the quantization for the copy of v. If ok is false, the values
	// are copied as they are, without rounding them a second time.
	Quantize func(v *Var) (q dtype.Quantization, ok bool, err error)
	// Select reports whether to copy v; nil copies all variables.
	Select func(v *Var) bool
	// NoVerify copies chunks that need no conversion without decoding them. Damaged
	// chunks are then copied without an error.
	NoVerify bool
	// Memory is the maximum amount of data that Copy holds in addition to what the reads
	// and writes need, in bytes; 0 means 64 MiB, or 128 MiB if chunks of the source then
	// have to be decoded less often. A chunk or shard of the copy is held as a whole even if
	// it is larger; a larger shard causes a warning. Options.Budget of dst limits all of this
	// memory together.
	Memory int64
	// Progress, if not nil, is called after each block with the number of bytes of
	// array data written so far and in total.
	Progress func(done, total int64)
}

// Copy copies everything below src into dst, which is usually the root of a new dataset:
// dimensions, attributes, groups, variables and values. It converts what the format of
// dst cannot represent, such as unlimited dimensions in pure Zarr. Chunks whose encoding
// does not change are copied as stored, except in shards. Unless NoVerify is set, Copy
// decodes each of these chunks once to check it. Copy reads one part of a variable while
// it writes another. After an error the copy is incomplete and the caller should abort
// dst. Copy also fails if the source was replaced in the meantime (see
// [Dataset.CheckUnchanged]).
func Copy(ctx context.Context, dst, src *Group, o *CopyOptions) error {
	if o == nil {
		o = &CopyOptions{}
	}
	c := newCopier(o)
	if err := c.group(ctx, dst, src); err != nil {
		return err
	}
	for i := range c.pairs {
		if err := c.data(ctx, &c.pairs[i]); err != nil {
			return withVarPath(c.pairs[i].src, err)
		}
	}
	return src.ds.CheckUnchanged(ctx)
}

type copier struct {
	opts   CopyOptions
	chosen bool // CopyOptions.Memory was set
	dims   map[*Dim]*Dim
	pairs  []pair
	held   *reserved // the memory for the data of the current variable

	mu          sync.Mutex // guards done, and is held while Progress is called
	done, total int64
}

// usualMemory is CopyOptions.Memory if it is not set.
const usualMemory = 64 << 20

func newCopier(o *CopyOptions) *copier {
	c := &copier{opts: *o, dims: make(map[*Dim]*Dim), chosen: o.Memory > 0}
	if !c.chosen {
		c.opts.Memory = usualMemory
	}
	return c
}

// pair is a variable and its copy. quantize is the rounding to apply. recode requests
// that chunks are encoded again even if the codecs are the same.
type pair struct {
	dst, src *Var
	quantize dtype.Quantization
	recode   bool
}

// group copies the definitions of a group and its subgroups.
func (c *copier) group(ctx context.Context, dst, src *Group) error {
	for _, a := range src.Attrs() {
		if err := dst.SetAttr(a); err != nil {
			return err
		}
	}
	for _, d := range src.Dims() {
		made, err := dst.DefineDim(d.Name(), d.Len(), d.Unlimited())
		if err != nil {
			return err
		}
		made.anonymous = d.anonymous
		c.dims[d] = made
	}
	for _, v := range src.Vars() {
		if c.opts.Select != nil && !c.opts.Select(v) {
			continue
		}
		if err := c.define(ctx, dst, v); err != nil {
			return err
		}
	}
	for _, sub := range src.Groups() {
		made, err := dst.DefineGroup(sub.Name())
		if err != nil {
			return err
		}
		if err := c.group(ctx, made, sub); err != nil {
			return err
		}
	}
	return nil
}

// define defines the copy of a variable, without data.
func (c *copier) define(ctx context.Context, dst *Group, v *Var) error {
	if err := v.CheckSize(); err != nil {
		return err
	}
	spec := v.spec()
	if dst.ds.layout.Keys(0).Prefix && !v.meta.Keys.Prefix {
		spec.Separator = 0 // the keys differ in any case
	}
	dropped, err := c.element(ctx, dst, v, spec)
	if err != nil {
		return err
	}
	v.keepMask(ctx, dst.ds, spec)
	for i, d := range spec.Dims {
		if spec.Dims[i] = c.dims[d]; spec.Dims[i] == nil {
			return ncerr.Errorf(ncerr.ErrNoDim, "copy", v.Path(), "dimension %q is not among the copied dimensions", d.Path())
		}
	}
	if c.opts.Chunks != nil && len(spec.Dims) > 0 {
		chunks, err := c.opts.Chunks(v)
		if err != nil {
			return err
		}
		if chunks != nil {
			spec.Chunks, spec.Grid = chunks, nil
		}
	}
	// unfit returns why the copy cannot have the grid, or "".
	unfit := func(grid *chunk.Grid) string {
		switch {
		case grid == nil || grid.Regular():
		case !dst.ds.layout.HasRectilinear():
			return "which the format cannot record"
		case grid.Uncovered(v.Shape()) >= 0:
			return "and do not cover the lengths of the dimensions"
		}
		return ""
	}
	if why := unfit(spec.Grid); why != "" {
		spec.Grid = nil
		dst.ds.log.Warn("the chunks differ in shape, "+why+": the copy has chunks of the largest shape", "path", v.Path(), "chunks", spec.Chunks)
	}
	if dst.ds.layout.HasShards() && len(v.meta.Shards) > 0 {
		grid := v.ObjectGrid()
		spec.ShardGrid = &grid
		if why := unfit(spec.ShardGrid); why != "" {
			spec.ShardGrid, spec.Shards = nil, slices.Clone(grid.Largest())
			dst.ds.log.Warn("the shards differ in shape, "+why+": the copy has shards of the largest shape", "path", v.Path(), "shards", spec.Shards)
		}
	}
	if c.opts.Shards != nil && len(spec.Dims) > 0 {
		shape, ok, err := c.opts.Shards(v, spec.Chunks)
		if err != nil {
			return err
		}
		if ok {
			spec.Shards, spec.ShardGrid = shape, nil
		}
	}
	if spec.Shards != nil { // chunks in shards have one shape
		spec.Grid = nil
	}
	recode := false
	if c.opts.Codecs != nil {
		chain, ok, err := c.opts.Codecs(v)
		if err != nil {
			return err
		}
		if recode = ok; ok {
			spec.Codecs, dropped = chain, nil
		}
	}
	if err := c.quantize(v, spec); err != nil {
		return err
	}
	attrs := slices.Clone(spec.Attrs)
	spec.Attrs = slices.DeleteFunc(spec.Attrs, func(a Attr) bool { return v.misfit(a) })
	made, err := dst.DefineVar(ctx, v.Name(), spec)
	if err != nil {
		return withVarPath(v, err)
	}
	switch {
	case len(spec.Attrs) == len(attrs):
	case dst.ds.layout.NCZarr():
		dst.ds.log.Warn("the copy omits the attribute _FillValue, because its value does not fit the type of the variable", "path", v.Path())
	default: // readers of pure Zarr treat it as any other attribute
		made.attrs = attrs
	}
	if len(dropped) > 0 {
		dst.ds.log.Warn("the copy omits codecs that require another element type", "path", v.Path(), "codecs", strings.Join(dropped, ","), "type", made.meta.DType.String())
	}
	c.pairs = append(c.pairs, pair{made, v, spec.Quantize, recode})
	c.total += chunk.All(v.Shape()).Len() * v.elemBytes()
	return nil
}

// misfit reports whether a is a _FillValue that software other than netCDF's stored and
// that does not fit the type of v.
func (v *Var) misfit(a Attr) bool { return a.Name == fillAttr && v.checkAttr(a) != nil }

// withVarPath adds the path of v to an error that occurred while opening a codec, because
// such an error does not contain the path.
func withVarPath(v *Var, err error) error {
	var e *ncerr.Error
	if errors.As(err, &e) && e.Op == "open codec" {
		return ncerr.Errorf(e.Kind, "copy", v.Path(), "%w", err)
	}
	return err
}

// quantize sets the quantization for the copy of v, if CopyOptions specifies one, and
// removes the attribute of v's own quantization.
func (c *copier) quantize(v *Var, spec *VarSpec) error {
	if c.opts.Quantize == nil {
		return nil
	}
	q, ok, err := c.opts.Quantize(v)
	if err != nil || !ok {
		return err
	}
	spec.Quantize = q
	old := v.Quantization().Mode.Attr()
	spec.Attrs = slices.DeleteFunc(spec.Attrs, func(a Attr) bool { return a.Name == old })
	return nil
}

// spec returns a VarSpec that defines a variable like v.
func (v *Var) spec() *VarSpec {
	s := &VarSpec{
		Type: v.nc, Dims: v.Dims(), Chunks: v.Chunks(), Grid: v.meta.Grid, Order: v.meta.DType.Order,
		Separator: v.meta.Keys.Separator, Attrs: v.Attrs(), NoFill: !v.meta.HasFill,
	}
	if len(s.Dims) == 0 {
		s.Chunks = nil
	}
	if fill, ok := v.Fill(); ok {
		s.Fill = fill
	}
	return s
}

// element sets the element type and the codecs of a copy of v in dst. The copy has v's
// element type if the layout of dst supports it. element returns the ids of the codecs
// that do not fit the element type.
func (c *copier) element(ctx context.Context, dst *Group, v *Var, spec *VarSpec) (dropped []string, err error) {
	keep := dst.ds.layout.AllowsAnyType()
	switch {
	case v.nc != dtype.NCString, dst.ds.strings == StringsAuto && keep:
	case dst.ds.strings == StringsVarLen, !dst.ds.FixedStrings():
		keep = keep && v.isVariableLength()
		spec.MaxStrLen = VarLen
	case v.isVariableLength():
		keep = false
		spec.MaxStrLen, err = v.longestString(ctx, dst.ds.opts.Budget, c.opts.Memory)
	default:
		keep = keep && v.meta.DType.Kind == dtype.Bytes
		spec.MaxStrLen = v.meta.DType.Size
	}
	if keep {
		spec.DType = v.meta.DType
	}
	if keep && v.in == nil {
		spec.Codecs = v.Codecs()
		if v.isVariableLength() && dst.ds.layout.ByteOrderInCodec() && len(spec.Codecs) > 0 { // dst has its own codec for the type
			if first, _ := v.group.ds.Codecs().Find(spec.Codecs[0].ID); first.Objects != codecdriver.NoObjects {
				spec.Codecs = spec.Codecs[1:]
			}
		}
	} else {
		spec.Codecs, dropped = v.portableCodecs()
		spec.Codecs = slices.DeleteFunc(slices.Clone(spec.Codecs), func(c zarr.CodecSpec) bool {
			refused := v.meta.DType.Kind == dtype.Bool && !dst.ds.layout.AllowsCodec(c.ID, v.nc.Type(dtype.OrderNone))
			if refused {
				dropped = append(dropped, c.ID)
			}
			return refused
		})
	}
	if dst.ds.layout.Format() != 3 { // the copy is not encoded with these codecs, and has equal values
		spec.Codecs = slices.DeleteFunc(spec.Codecs, func(c zarr.CodecSpec) bool { return zarr.OnlyV3(c.ID) })
	}
	return dropped, err
}

// portableCodecs returns the codecs that fit a copy of v with the corresponding netCDF
// element type, and the ids of the other codecs, which require another element type and
// would misinterpret the bytes. Both lists omit the object codec, which belongs to the
// element type.
func (v *Var) portableCodecs() (fit []zarr.CodecSpec, dropped []string) {
	t, _ := v.stored()
	if t.NCZarrNative() && t.Kind != dtype.Bytes {
		return v.Codecs(), nil
	}
	to, codecs := v.nc.Type(v.meta.DType.Order), v.group.ds.Codecs()
	for _, c := range v.Codecs() {
		d, _ := codecs.Find(c.ID)
		switch {
		case v.isVariableLength() && d.Objects != codecdriver.NoObjects:
		case requiresOtherType(&d, c, to):
			dropped = append(dropped, c.ID)
		default:
			fit = append(fit, c)
		}
	}
	return fit, dropped
}

// requiresOtherType reports whether a codec requires an element type other than t.
func requiresOtherType(d *codecdriver.Description, c zarr.CodecSpec, t dtype.Type) bool {
	var params map[string]json.RawMessage
	if json.Unmarshal(c.Params, &params) != nil {
		return false
	}
	for i := range d.Params {
		stated := params[d.Params[i].Name]
		var text string
		if stated == nil || d.Params[i].Input != codecdriver.InputType {
			continue
		}
		if json.Unmarshal(stated, &text) != nil {
			return true
		}
		if own, err := dtype.Parse(text); err != nil || own != t {
			return true
		}
	}
	return false
}

// longestString reads all strings of v, about memory bytes at a time, and returns the
// length in bytes of the longest, at least 1. It takes its memory from the given budget.
func (v *Var) longestString(ctx context.Context, from *budget.Budget, memory int64) (int, error) {
	most := 1
	held, err := reserve(ctx, from, min(memory, v.leastBlock(v.ChunkGrid(), v.Shape())), memory, v.conversions(), v)
	if err != nil {
		return most, ncerr.Wrap("copy", v.Path(), err)
	}
	defer held.done()
	ctx = held.ctx
	b, err := v.blocks(v.All(), v.ChunkGrid(), held.own)
	if err != nil {
		return most, err
	}
	for i := range b.plan.Len() {
		err := v.ReadParts(ctx, b.at(i), func(_ chunk.Selection, part any) error {
			text, _ := part.([]string)
			for _, s := range text {
				most = max(most, len(s))
			}
			return nil
		})
		if err != nil {
			return most, err
		}
	}
	return most, nil
}

// data copies the values of one variable.
func (c *copier) data(ctx context.Context, p *pair) error {
	shape := p.src.Shape()
	if slices.Contains(shape, 0) {
		return nil
	}
	least := p.src.leastBlock(p.dst.ObjectGrid(), shape)
	held, err := reserve(ctx, p.dst.group.ds.opts.Budget, least, max(least, c.memory(p, shape)), max(p.src.conversions(), p.dst.conversions()), p.src, p.dst)
	if err != nil {
		return ncerr.Wrap("copy", p.src.Path(), err)
	}
	defer held.done()
	ctx, c.held = held.ctx, held
	boxes := []chunk.Selection{chunk.All(shape)}
	movable, err := p.movable(ctx)
	if err != nil {
		return err
	}
	if movable {
		whole, edges := p.dst.split(shape)
		if err := c.move(ctx, p, whole); err != nil {
			return err
		}
		boxes = edges
	}
	for _, box := range boxes {
		if err := c.recode(ctx, p, box); err != nil {
			return err
		}
	}
	return nil
}

// memory returns the maximum amount of data in bytes that a copy of the given shape holds. It is
// more than usual if the chunks of the source are then part of fewer blocks, because a chunk
// is decoded once for each block.
func (c *copier) memory(p *pair, shape []int64) int64 {
	usual := c.opts.Memory
	if from, to := p.src.ChunkGrid(), p.dst.ObjectGrid(); !c.chosen && from.Regular() && to.Regular() {
		more, errMore := p.src.blockGrid(to, shape, 2*usual)
		less, errLess := p.src.blockGrid(to, shape, usual)
		if errMore == nil && errLess == nil && overlaps(from, more, shape) < overlaps(from, less, shape) {
			return 2 * usual
		}
	}
	return usual
}

// overlaps returns the number of pairs of a chunk and a block of an array of the given shape
// that have elements in common. Both grids are regular.
func overlaps(chunks, blocks chunk.Grid, shape []int64) float64 {
	all := 1.0
	for d, n := range shape {
		c, b := chunks.Largest()[d], blocks.Largest()[d]
		pairs := float64(chunks.Len(d, n)) + float64(blocks.Len(d, n)) - 1 // each boundary of either begins another pair
		if times := c / chunk.GCD(c, b); times <= (n-1)/b {
			pairs -= float64((n - 1) / (times * b)) // boundaries of both
		}
		all *= pairs
	}
	return all
}

// recode copies the values of box, which begins at a chunk boundary of the copy.
func (c *copier) recode(ctx context.Context, p *pair, box chunk.Selection) error {
	shard := p.dst.heldShardSize(box.Count)
	if shard > c.opts.Memory {
		p.dst.group.ds.log.Warn("a shard of the copy exceeds the memory limit, but must be written as a whole", "path", p.dst.Path(), "bytes", shard, "memory", c.opts.Memory)
	}
	workers, size := int64(1), c.held.own
	if p.nested() && p.src.leastBlock(p.dst.ObjectGrid(), box.Count) <= c.held.own/2 && c.held.mayShare(2) {
		workers, size = 2, size/2 // one worker reads while the other writes
		if !p.src.group.ds.remote() && !p.dst.group.ds.remote() {
			size /= 2 // larger blocks of whole chunks are not faster
		}
	}
	b, err := p.src.blocks(box, p.dst.ObjectGrid(), size)
	if err != nil {
		return err
	}
	return parallel(ctx, workers, b.plan.Len(), func() func(context.Context, int64) error {
		var buf any // reused for all blocks of the worker
		share := c.held.share(workers)
		return func(ctx context.Context, i int64) error {
			ctx = share(ctx)
			sel := b.at(i)
			if buf == nil || int64(dtype.Len(buf)) < sel.Len() {
				buf = p.src.NewSlice(sel.Len())
			}
			err := c.block(ctx, p, sel, buf)
			if err == nil {
				c.progress(sel.Len() * p.src.elemBytes())
			}
			return err
		}
	})
}

// heldShardSize returns the size in bytes, before encoding, of the largest part of a box
// of the given shape that lies in one shard of v. It is 0 if v has no shards.
func (v *Var) heldShardSize(box []int64) int64 {
	shape := v.Shards()
	if shape == nil {
		return 0
	}
	for d := range shape {
		shape[d] = min(shape[d], box[d])
	}
	return v.shardBytes(shape)
}

// nested reports whether blocks may have any size: each chunk of the source lies in one
// chunk of the copy, and elements have a fixed size.
func (p *pair) nested() bool {
	from, to := p.src.ChunkGrid(), p.dst.ChunkGrid()
	if !from.Equal(to) && !(from.Regular() && to.Regular()) {
		return false
	}
	for d, n := range p.src.Chunks() {
		if to.Largest()[d]%n != 0 {
			return false
		}
	}
	return !p.src.isVariableLength()
}

// parallel runs up to workers goroutines. Each calls start once, and then the function
// that start returned for some of the numbers 0 to n-1. Each number is processed once.
func parallel(ctx context.Context, workers, n int64, start func() func(context.Context, int64) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			work := start()
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := work(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// progress reports that n more bytes were copied.
func (c *copier) progress(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done += n; c.opts.Progress != nil {
		c.opts.Progress(c.done, c.total)
	}
}

// block copies one block. buf is a slice with at least one element for each of sel. block
// does not create chunks that are absent in the source if they read as the same values in
// the copy, including in netcdf-c.
func (c *copier) block(ctx context.Context, p *pair, sel chunk.Selection, buf any) error {
	var found, only []bool
	values := dtype.Slice(buf, 0, int(sel.Len()))
	if text, ok := buf.([]string); ok {
		clear(text) // the values of the previous block
	}
	err := p.src.read(ctx, sel, values, &found)
	if err != nil {
		return p.src.splitRead(sel, err, func(half chunk.Selection) error { return c.block(ctx, p, half, buf) })
	}
	if found != nil && p.src.sameFill(p.dst) && !p.dst.AbsentMisreadByNetCDF() && !p.undefined() {
		if only, err = overlappingChunks(sel, p.src.ChunkGrid(), p.dst.ChunkGrid(), found); err != nil {
			return err
		}
	}
	return p.dst.write(ctx, sel, values, p.quantize, func(ctx context.Context, a *array.Array, sel chunk.Selection, shape []int64, from array.Slab) error {
		return a.WriteThrough(ctx, sel, shape, from, only) // no other write follows for these chunks
	})
}

// blocks is a division of a box of a variable into blocks.
type blocks struct {
	start []int64 // start of the box
	plan  *chunk.Plan
}

// blocks divides box, which begins at a boundary of chunks of grid, into blocks of about
// memory bytes each. They consist of whole chunks, unless the grid is rectilinear and the
// box does not begin at the start of the array.
func (v *Var) blocks(box chunk.Selection, grid chunk.Grid, memory int64) (*blocks, error) {
	count := slices.Clone(box.Count)
	for d := range count {
		count[d] = max(count[d], 1) // a block has at least one element
	}
	grid, err := v.blockGrid(grid, count, memory)
	if err != nil {
		return nil, ncerr.Wrap("copy", v.Path(), err)
	}
	plan, err := chunk.NewPlan(chunk.All(box.Count), grid)
	return &blocks{box.Start, plan}, ncerr.Wrap("copy", v.Path(), err)
}

// at returns block i.
func (b *blocks) at(i int64) chunk.Selection {
	proj := make(chunk.Projection, len(b.start))
	b.plan.At(i, proj)
	sel := chunk.Selection{Start: slices.Clone(b.start), Count: make([]int64, len(b.start))}
	for d, s := range proj {
		sel.Start[d] += s.Out
		sel.Count[d] = s.N
	}
	return sel
}

// leastBlock returns the size in bytes of the smallest block of an array of the given shape
// that consists of whole chunks of grid.
func (v *Var) leastBlock(grid chunk.Grid, shape []int64) int64 {
	size := v.elemBytes()
	for d, n := range grid.Largest() {
		if size *= max(1, min(n, shape[d])); size > math.MaxInt64>>32 { // more than any memory
			return size
		}
	}
	return size
}

// blockGrid returns a grid of blocks that consist of whole chunks of grid. It combines as
// many chunks along the last dimensions as memory allows, but no more than the same number of
// blocks needs. Along a dimension whose chunks differ in length, it combines all chunks or none.
func (v *Var) blockGrid(grid chunk.Grid, shape []int64, memory int64) (chunk.Grid, error) {
	block, runs := slices.Clone(grid.Largest()), grid.Runs()
	size := v.elemBytes()
	for d := range block {
		block[d] = min(block[d], shape[d])
		size *= block[d]
	}
	for d := len(block) - 1; d >= 0; d-- {
		all := ceilDiv(shape[d], block[d])
		more := max(1, min(memory/max(1, size), all))
		more = ceilDiv(all, ceilDiv(all, more)) // as many blocks, of about equal length
		size *= more
		whole := block[d]*more >= shape[d]
		block[d] = min(block[d]*more, shape[d])
		if runs != nil && (whole || runs[d][0].Count == 0) {
			runs[d] = []chunk.Run{{Len: block[d]}}
		}
		if !whole {
			break
		}
	}
	if runs == nil {
		return chunk.Regular(block), nil
	}
	return chunk.NewGrid(runs)
}

// ceilDiv returns n/by, rounded up.
func ceilDiv(n, by int64) int64 { return (n-1)/by + 1 }
