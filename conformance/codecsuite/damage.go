package codecsuite

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// bad decodes bytes that may be anything and checks that nothing breaks. It
// gives the value, or nil when there is an error.
func (c *opened) bad(t conformance.T, what string, src []byte) []byte {
	t.Doing("decode", what)
	dst, whole := guarded(int(c.in.MaxBytes))
	before := bytes.Clone(src)
	n, err := c.safely(t.Context(), dst, src)
	switch kind := ncerr.KindOf(err); {
	case errors.Is(err, errPanic):
		t.Errorf("%s: %v", what, err)
	case err == nil && (n < 0 || n > len(dst)):
		t.Errorf("%s: %d bytes are claimed in a buffer of %d", what, n, len(dst))
	case err != nil && kind != ncerr.ErrCorrupt && kind != ncerr.ErrShortBuffer:
		t.Errorf("%s: want ErrCorrupt, got %v", what, err)
	}
	if !whole() {
		t.Errorf("%s: bytes outside the output were written", what)
	}
	if !bytes.Equal(before, src) {
		t.Errorf("%s: the input was changed", what)
	}
	if err != nil || n < 0 || n > len(dst) {
		c.bads[ncerr.KindOf(err)]++
		return nil
	}
	return dst[:n:n]
}

var errPanic = errors.New("panic")

// recovered makes an error of a panic.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = ncerr.Errorf(ncerr.ErrInternal, "", "", "%w: %v", errPanic, r)
	}
}

func (c *opened) safely(ctx context.Context, dst, src []byte) (n int, err error) {
	defer recovered(&err)
	return c.Decode(ctx, dst, src)
}

func truncated(t conformance.T, e *Env) {
	e.each(t, 150, func(c *opened) {
		enc := c.encode(t, data(c.in.DType, 150, "smooth", t.Seed()))
		full := c.bad(t, "whole", enc)
		try := func(n int) {
			got := c.bad(t, "cut short", enc[:n:n])
			if len(got) > 0 && len(got) == len(full) && !bytes.Equal(got, full) {
				t.Errorf("cut short: %d bytes of %d give another value of the same length", n, len(enc))
			}
		}
		for n := 0; n < len(enc); n += 1 + len(enc)/e.effort.truncated {
			try(n)
		}
		for n := max(0, len(enc)-e.effort.truncated); n < len(enc); n++ { // at the end it shows least
			try(n)
		}
		if short := c.bads[ncerr.ErrShortBuffer]; short > 10 && c.bads[ncerr.ErrCorrupt] == 0 {
			t.Errorf("cut short: want ErrCorrupt, got ErrShortBuffer each time, %d times: input that ends early needs no larger buffer", short)
		}
	})
}

func flipped(t conformance.T, e *Env) {
	r := rand.New(rand.NewPCG(t.Seed(), 2))
	e.each(t, 150, func(c *opened) {
		enc := c.encode(t, data(c.in.DType, 150, "smooth", t.Seed()))
		tries, head := e.effort.flipped, e.effort.flipped/4
		if c.nth > 0 {
			tries, head = e.effort.others, 0
		}
		for i := range min(8*len(enc), tries) {
			at := i
			if i >= head { // the head completely, the rest by chance
				at = r.IntN(8 * len(enc))
			}
			enc[at/8] ^= 1 << (at % 8)
			c.bad(t, "bit flipped", enc)
			enc[at/8] ^= 1 << (at % 8)
		}
	})
}

func garbage(t conformance.T, e *Env) {
	r := rand.New(rand.NewPCG(t.Seed(), 3))
	e.each(t, 100, func(c *opened) {
		for range e.effort.garbage {
			src := make([]byte, r.IntN(200))
			for i := range src {
				src[i] = byte(r.Uint32())
			}
			c.bad(t, "random bytes", src)
		}
	})
}

// memory overwrites the head, where sizes are, by large numbers. What else the
// process does meanwhile is counted too: what counts of each place is the least
// that its decodes ever took.
func memory(t conformance.T, e *Env) {
	c := e.first(t, 1000)
	enc := c.encode(t, data(c.in.DType, 1000, "smooth", t.Seed()))
	least := make([]uint64, min(len(enc), e.effort.absurd))
	var tries, took uint64
	for round := range 100 {
		tries, took = 0, 0
		for at := range least {
			n, taken := c.absurd(t, enc, at)
			if round == 0 || taken < least[at] {
				least[at] = taken
			}
			tries, took = tries+n, took+least[at]
		}
		if took>>20 <= tries || t.Failed() {
			return
		}
		time.Sleep(time.Duration(round) * time.Millisecond) // for others to get done
	}
	t.Errorf("%d decodes of %d bytes took %d MiB of memory", tries, c.in.MaxBytes, took>>20)
}

// absurd decodes enc with absurd sizes at a place of its head, and gives how
// often, and how many bytes of memory the process has taken meanwhile.
func (c *opened) absurd(t conformance.T, enc []byte, at int) (tries, took uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for width := 1; width <= 8 && at+width <= len(enc); width++ {
		for _, v := range []byte{0x7F, 0xFF} {
			bad := bytes.Clone(enc)
			for i := range width {
				bad[at+i] = v
			}
			c.bad(t, "absurd size", bad)
			tries++
		}
	}
	runtime.ReadMemStats(&after)
	return tries, after.TotalAlloc - before.TotalAlloc
}
