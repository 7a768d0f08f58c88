package codec

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// direction selects encoding or decoding.
type direction bool

const (
	decode direction = false
	encode direction = true
)

func (d direction) String() string {
	if d == encode {
		return "encode"
	}
	return "decode"
}

// fullAllocSize is the size in bytes up to which scratch memory is allocated in full. A
// larger buffer whose exact size is unknown grows as needed.
const fullAllocSize = 16 << 20

// name returns the ids of steps [lo, hi), joined with "+".
func (p *Pipeline) name(lo, hi int) string { return strings.Join(p.ids[lo:hi], "+") }

// fault adds the ids of steps [lo, hi) to an error. It does not change an error of the
// caller's context or an error that already contains an id. size is the size of the
// output buffer.
func (p *Pipeline) fault(ctx context.Context, err error, d direction, lo, hi int, size int) error {
	if ncerr.IsContext(err) && ctx.Err() != nil {
		return err
	}
	kind := ncerr.KindOf(err)
	if kind == ncerr.ErrShortBuffer && d == decode {
		err = ncerr.Errorf(ncerr.ErrCorrupt, "", "", "the decoded data has more than the limit of %d bytes", size)
		kind = ncerr.ErrCorrupt
	}
	if kind == 0 || kind == ncerr.ErrIO {
		kind = ncerr.ErrFilter
	}
	var e *ncerr.Error
	if errors.As(err, &e) && e.Kind == kind && e.Op == d.String() && e.Key != "" {
		return e
	}
	return ncerr.New(kind, d.String(), p.name(lo, hi), err)
}

// limit returns the maximum size at point i of the chain, which is the input of step i.
// When decoding, it allows slightly more for bytes without structure, because chunks from
// other writers may be larger than chunks from the encoders of this module. If steps are
// skipped, the sizes between steps are unknown and limit uses the largest one.
func (p *Pipeline) limit(i int, d direction, skip uint32) int64 {
	s := &p.specs[i]
	n := s.MaxBytes
	if skip != 0 {
		n = p.widest
	}
	if d == decode && i > 0 && (s.Kind == driver.Blob || skip != 0) {
		n += n/16 + 4096
	}
	return n
}

// limitBetween returns the limit at point i for data that decodes to at most top bytes
// at point lo. If elements vary in size and the chunk may be larger than top, the limit
// is reduced in proportion.
func (p *Pipeline) limitBetween(i, lo int, d direction, skip uint32, top int64) int64 {
	n := p.limit(i, d, skip)
	if d == encode || skip != 0 || p.exact() {
		return n
	}
	whole := p.limit(lo, d, skip)
	if top >= whole {
		return n
	}
	ratio := max(1, float64(n)/float64(whole))
	return min(n, int64(ratio*float64(top))+driver.OutputSlack)
}

// worker holds the scratch memory for one chunk.
type worker struct{ a, b, out []byte }

// apply runs the codecs of a stage on src. The result is in dst if dst is not nil, and
// in memory of the worker otherwise. It is src itself if all steps are skipped. top is
// the maximum size of the last output.
func (w *worker) apply(ctx context.Context, p *Pipeline, st *stage, d direction, dst, src []byte, top int64, skip uint32) ([]byte, error) {
	first, last, inc := st.hi-1, st.lo, -1
	if d == encode {
		first, last, inc = st.lo, st.hi-1, 1
	}
	for last != first-inc && skip>>uint(last)&1 != 0 { // the last applied step writes to dst
		last -= inc
	}
	cur, next, other := src, &w.a, &w.b
	for i := first; i != last+inc; i += inc {
		if skip>>uint(i)&1 != 0 {
			continue
		}
		ceiling, buf, fixed := top, &w.out, dst
		if i != last {
			at := i
			if d == encode {
				at = i + 1
			}
			ceiling, buf, fixed = p.limitBetween(at, st.lo, d, skip, top), next, nil
			next, other = other, next
		}
		out, err := w.step(ctx, p, st.codecs[i-st.lo], i, d, fixed, buf, cur, ceiling)
		if err != nil {
			return nil, err
		}
		cur = out
	}
	return cur, nil
}

// step runs one codec. It writes the output to fixed, or to *buf if fixed is nil.
func (w *worker) step(ctx context.Context, p *Pipeline, c driver.Codec, i int, d direction, fixed []byte, buf *[]byte, src []byte, ceiling int64) ([]byte, error) {
	if fixed != nil {
		n, err := call(ctx, c, d, fixed, src)
		if err != nil {
			return nil, p.fault(ctx, err, d, i, i+1, len(fixed))
		}
		return fixed[:n], nil
	}
	allocSize, err := initialSize(c, d, p.specs[i], src, ceiling)
	if err != nil {
		return nil, p.fault(ctx, err, d, i, i+1, int(ceiling))
	}
	for {
		if int64(cap(*buf)) < allocSize {
			*buf = make([]byte, allocSize)
		}
		dst := (*buf)[:allocSize]
		n, err := call(ctx, c, d, dst, src)
		if err == nil {
			return dst[:n], nil
		}
		if ncerr.KindOf(err) != ncerr.ErrShortBuffer || allocSize >= ceiling {
			return nil, p.fault(ctx, err, d, i, i+1, int(allocSize))
		}
		allocSize = min(ceiling, max(4*allocSize, 1<<16))
	}
}

// initialSize returns the initial size of the buffer for the output of a step.
func initialSize(c driver.Codec, d direction, in driver.Spec, src []byte, ceiling int64) (int64, error) {
	if ceiling <= fullAllocSize || in.Kind == driver.Array && in.DType.Fixed() {
		return ceiling, nil
	}
	if d == encode {
		return min(ceiling, max(fullAllocSize, 2*int64(len(src)))), nil
	}
	if s, ok := c.(driver.DecodedSizer); ok {
		n, err := decodedSize(s, src)
		if err != nil {
			return 0, err
		}
		if n > ceiling {
			return 0, ncerr.ErrShortBuffer
		}
		return max(n, 0), nil
	}
	return min(ceiling, max(fullAllocSize, 8*int64(len(src)))), nil
}

// decodedSize calls DecodedSize. It turns a panic into an error for the chunk.
func decodedSize(s driver.DecodedSizer, src []byte) (n int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			n, err = 0, ncerr.Errorf(ncerr.ErrFilter, "", "", "panic: %v", r)
		}
	}()
	return s.DecodedSize(src)
}

// call runs a codec. It turns a panic or an impossible length into an error for the
// chunk.
func call(ctx context.Context, c driver.Codec, d direction, dst, src []byte) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			n, err = 0, ncerr.Errorf(ncerr.ErrFilter, "", "", "panic: %v", r)
		}
	}()
	if d == encode {
		n, err = c.Encode(ctx, dst, src)
	} else {
		n, err = c.Decode(ctx, dst, src)
	}
	if err == nil && (n < 0 || n > len(dst)) {
		return 0, ncerr.Errorf(ncerr.ErrFilter, "", "", "the codec returned a length of %d bytes for a buffer of %d", n, len(dst))
	}
	return n, err
}
