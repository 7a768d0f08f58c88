package codecsuite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// bad decodes bytes that may be anything and checks that nothing breaks. It
// gives the value, or nil when there is an error.
func (c *opened) bad(t conformance.T, what string, src []byte) []byte {
	what += ", " + abbreviated(src)
	t.Doing("decode", what)
	dst, whole := guarded(int(c.in.MaxBytes))
	before := bytes.Clone(src)
	n, err := c.safely(t.Context(), dst, src)
	switch kind := ncerr.KindOf(err); {
	case err != nil && t.Context().Err() != nil: // it took too long, which is told of the check
		return nil
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
	if c.tries++; c.large || c.tries%5 == 0 { // all bits of bytes have their turn
		c.badAgain(t, what, src, dst[:max(0, min(n, len(dst)))], err)
	}
	if c.text && err == nil {
		c.wellFormed(t, what, dst[:max(0, min(n, len(dst)))])
	}
	if err != nil || n < 0 || n > len(dst) {
		c.bads[ncerr.KindOf(err)]++
		return nil
	}
	return dst[:n:n]
}

// wellFormed checks that a decoded value is the texts that c.in announces.
func (c *opened) wellFormed(t conformance.T, what string, value []byte) {
	n, err := c.in.Elements()
	if err != nil {
		t.Fatalf("%v", err)
	}
	v, err := driver.ParseValues(value, n)
	if err != nil {
		t.Errorf("%s: it gives what is not %d values: %v", what, n, err)
		return
	}
	for i := range n {
		if text := v.At(i); !utf8.Valid(text) {
			t.Errorf("%s: text %d is not UTF-8: % x", what, i, text)
			return
		}
	}
}

// badAgain decodes bytes that may be anything into memory that has other bytes
// in it, which must give the same value or the same kind of error.
func (c *opened) badAgain(t conformance.T, what string, src, want []byte, wantErr error) {
	dst := bytes.Repeat([]byte{^byte(canary)}, int(c.in.MaxBytes))
	n, err := c.safely(t.Context(), dst, src)
	switch got := dst[:max(0, min(n, len(dst)))]; {
	case t.Context().Err() != nil:
	case ncerr.KindOf(err) != ncerr.KindOf(wantErr):
		t.Errorf("%s: with other bytes in the output before, it gives %s instead of %s", what, outcome(err), outcome(wantErr))
	case err == nil && !bytes.Equal(want, got):
		t.Errorf("%s: with other bytes in the output before, it gives %s", what, other(want, got))
	}
}

// abbreviated describes input by its length, its first bytes and its last ones.
func abbreviated(b []byte) string {
	const head, tail = 24, 8
	if len(b) <= head+tail {
		return strconv.Itoa(len(b)) + " bytes: " + hex.EncodeToString(b)
	}
	return strconv.Itoa(len(b)) + " bytes: " + hex.EncodeToString(b[:head]) + "..." + hex.EncodeToString(b[len(b)-tail:])
}

var errPanic = errors.New("panic")

// recovered makes an error of a panic.
func recovered(err *error) {
	if r := recover(); r != nil {
		line, _, _ := strings.Cut(fmt.Sprint(r), "\n")
		*err = ncerr.Errorf(ncerr.ErrInternal, "", "", "%w: %s", errPanic, line)
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
			c.flip(t, enc, at)
		}
	})
}

// flip decodes enc with the bit at flipped.
func (c *opened) flip(t conformance.T, enc []byte, at int) []byte {
	enc[at/8] ^= 1 << (at % 8)
	got := c.bad(t, "bit "+strconv.Itoa(at%8)+" of byte "+strconv.Itoa(at/8)+" flipped", enc)
	enc[at/8] ^= 1 << (at % 8)
	return got
}

// largeInput damages large values, and makes up large input. A decoder that does
// work for all of it with each of its bytes hangs.
func largeInput(t conformance.T, e *Env) {
	const most = 2 << 20
	typ := e.first(t, 1000).in.DType
	r := rand.New(rand.NewPCG(t.Seed(), 6))
	for _, pattern := range []string{"runs", "bits"} {
		n := most / int(room(typ, 1))
		if pattern == "bits" {
			n = n/2 + 5000
		}
		c := e.open(t, e.params[0], typ, n)
		if c == nil {
			return
		}
		c.large = true
		enc := c.encode(t, c.data(n, pattern, t.Seed()))
		for range 5 { // what works in parts may lose the errors of some
			c.flip(t, enc, r.IntN(8*len(enc)))
		}
		cut := r.IntN(len(enc))
		c.bad(t, "cut short", enc[:cut:cut])
		for i, v := range []byte{0, 0xFF, 1, 0x10, 0x80} {
			if pattern == "runs" && i < 2 {
				c.bad(t, "input that goes on with one byte", append(bytes.Clone(enc[:min(len(enc), 16)]), bytes.Repeat([]byte{v}, most)...))
			} else if pattern == "runs" {
				c.bad(t, "input of one byte", bytes.Repeat([]byte{v}, most))
			}
		}
	}
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

// claimed is how much memory the decoding of a few bytes may take at once, and
// usual how much of it in the mean: windows and tables have their size in advance.
const claimed, usual = 64 << 20, 1 << 20

// memory overwrites the head, where sizes are, by large numbers. What else the
// process does meanwhile is counted too: what counts of each input is the least
// that decoding it ever took. Of a process of its own it is measured what it holds,
// after as many calls as make memory that is taken again be filled with zeros.
func memory(t conformance.T, e *Env) {
	c := e.first(t, 1000)
	inputs := absurd(c.encode(t, data(c.in.DType, 1000, "smooth", t.Seed())), e.effort.absurd)
	least := make([]uint64, len(inputs))
	var worst int
	var sum uint64
	if e.target.Usage != nil {
		e.holds(t, c, inputs)
		return
	}
	for round := range 100 {
		worst, sum = 0, 0
		for i, bad := range inputs {
			if round > 0 && least[i] <= usual {
				sum += least[i]
				continue
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c.bad(t, "absurd size", bad)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; round == 0 || took < least[i] {
				least[i] = took
			}
			if sum += least[i]; least[i] > least[worst] {
				worst = i
			}
		}
		if least[worst] <= claimed && sum <= usual*uint64(len(inputs)) || t.Failed() {
			return
		}
		if round > 5 && least[worst] > 2*claimed { // others do not take that much each time
			break
		}
		time.Sleep(time.Duration(round) * time.Millisecond) // for others to get done
	}
	t.Errorf("%d decodes of %d bytes took %d MiB of memory, and one of them %d MiB: that of %s", len(inputs), c.in.MaxBytes, sum>>20, least[worst]>>20, abbreviated(inputs[worst]))
}

// holds checks that the process of c takes little more memory by decoding inputs.
func (e *Env) holds(t conformance.T, c *opened, inputs [][]byte) {
	before, err := e.target.Usage()
	for i := 0; i < len(inputs) && err == nil; i++ {
		for range 3 {
			c.bad(t, "absurd size", inputs[i])
		}
		var u conformance.Usage
		if u, err = e.target.Usage(); u.Memory > before.Memory+4*claimed {
			t.Errorf("the process grows from %d to %d MiB with an absurd size: %s", before.Memory>>20, u.Memory>>20, abbreviated(inputs[i]))
			return
		}
	}
	if err != nil {
		t.Errorf("measure: %v", err)
	}
}

// absurd returns copies of enc with absurd sizes at the first places of its head,
// and of sizes at some places behind.
func absurd(enc []byte, places int) (inputs [][]byte) {
	var claims, sizes [][]byte
	for width := 1; width <= 8; width++ {
		claims = append(claims, bytes.Repeat([]byte{0x7F}, width), bytes.Repeat([]byte{0xFF}, width))
	}
	for _, size := range []uint32{100 << 20, 256 << 20, 1 << 30, 3 << 30} { // a decoder may take these for possible
		sizes = append(sizes, binary.LittleEndian.AppendUint32(nil, size), binary.BigEndian.AppendUint32(nil, size),
			binary.LittleEndian.AppendUint64(nil, uint64(size)), binary.BigEndian.AppendUint64(nil, uint64(size)), binary.AppendUvarint(nil, uint64(size)))
	}
	claims = append(claims, sizes...)
	for at := 0; at < len(enc); at++ {
		if at >= places {
			at, claims = at+len(enc)/8, sizes
		}
		for _, claim := range claims {
			if at+len(claim) <= len(enc) {
				bad := bytes.Clone(enc)
				copy(bad[at:], claim)
				inputs = append(inputs, bad)
			}
		}
	}
	return inputs
}

// overwritten puts bytes with which lengths, counts and distances become none,
// negative or huge at places all over the input, and decodes input that goes on
// or begins with one byte.
func overwritten(t conformance.T, e *Env) {
	for _, pattern := range []string{"zeros", "smooth", "noise"} {
		e.each(t, 150, func(c *opened) {
			if c.nth > 1 || t.Failed() {
				return
			}
			enc := c.encode(t, data(c.in.DType, 150, pattern, t.Seed()))
			head := e.effort.places / 2
			for at := 0; at < len(enc); {
				c.overwrite(t, enc, at)
				if at++; at > head {
					at += len(enc) / head
				}
			}
			for _, v := range []byte{0, 1, 0x80, 0xFF} {
				for _, n := range []int{1, 2, 4, 8, 16, len(enc) / 2} {
					n = min(n, len(enc))
					c.bad(t, "input that goes on with one byte", append(bytes.Clone(enc[:n]), bytes.Repeat([]byte{v}, len(enc))...))
				}
			}
		})
	}
	e.each(t, 150, func(c *opened) {
		for v := 0; v < 256 && c.nth == 0; v += 64 / e.effort.places {
			for _, n := range []int{1, 2, 3, 4, 5, 8, 16, 64, 1000} {
				c.bad(t, "input of one byte", bytes.Repeat([]byte{byte(v)}, n))
			}
		}
	})
}

func (c *opened) overwrite(t conformance.T, enc []byte, at int) {
	for width := 1; width <= 8 && at+width <= len(enc); width *= 2 {
		for _, v := range []byte{0, 0xFF, 1, 0x7F, 0x80} {
			if width > 1 && v != 0 && v != 0xFF {
				continue
			}
			bad := bytes.Clone(enc)
			copy(bad[at:], bytes.Repeat([]byte{v}, width))
			c.bad(t, fmt.Sprintf("%d bytes overwritten at %d", width, at), bad)
		}
	}
}

// checksummed are the codecs of numcodecs whose format has a checksum of the
// value, and parameters with which it has.
var checksummed = map[string]string{
	"adler32": `{}`, "bz2": `{}`, "crc32": `{}`, "crc32c": `{}`, "fletcher32": `{}`, "gzip": `{}`, "jenkins_lookup3": `{}`,
	"lzma": `{}`, "zlib": `{}`, "zstd": `{"checksum":true}`,
}

// detects flips bits of encoded noise: what is stored as it is shows a flipped
// bit in the value, and then only a checksum finds it. The noise is the same in
// all runs, because a checksum misses a flipped bit once in billions.
func detects(t conformance.T, e *Env) {
	params := e.params
	if p, ok := checksummed[e.target.ID]; ok && !e.target.Detects {
		params = []json.RawMessage{json.RawMessage(p)}
	}
	for _, p := range params {
		e.detects(t, p, 300, e.effort.flipped)
		e.detects(t, p, 1, e.effort.flipped)
		e.detects(t, p, 0, e.effort.flipped)
		e.detects(t, p, 70_003, e.effort.flipped/20)
		if t.Effort() != conformance.Brief {
			e.detects(t, p, 1<<20/int(room(e.types[0], 1))+5003, 10)
		}
	}
}

// detects flips bits of n elements of the first type that the filter takes.
func (e *Env) detects(t conformance.T, p json.RawMessage, n, tries int) {
	for _, typ := range e.types {
		c, out, err := e.target.Provider.Open(e.target.ID, p, driver.Spec{DType: typ, Shape: []int{n}, MaxBytes: room(typ, n)})
		if err != nil { // codec.open.kinds checks whether it may be refused
			e.refused(t, typ, err)
			continue
		}
		o := &opened{Codec: c, in: driver.Spec{DType: typ, MaxBytes: room(typ, n)}, out: out, params: p, bads: map[ncerr.Kind]int{}}
		o.detects(t, data(typ, n, "bits", 1), tries, e.target.description().Prepares)
		return
	}
}

// detects flips bits of what src is encoded to. What only checks the value stores
// it as it is, and the rest is the checksum: no bit of either may change, and no
// value of the checksum stands for one that is missing.
func (c *opened) detects(t conformance.T, src []byte, tries int, checks bool) {
	enc := c.encode(t, src)
	want := c.bad(t, "whole", enc)
	checks = checks && bytes.Contains(enc, src)
	for _, v := range []byte{0, 0xFF} {
		bad := bytes.Repeat([]byte{v}, len(enc))
		copy(bad[max(0, bytes.Index(enc, src)):], src)
		if checks && !bytes.Equal(bad, enc) && c.bad(t, "no checksum", bad) != nil {
			t.Errorf("%s: with bytes %#02x instead of the checksum %d bytes are taken for good", c.params, v, len(src))
			return
		}
	}
	var places []int
	step := max(1, 8*len(enc)/tries)
	for at := 0; at < 8*len(enc); at += step + (step+1)%2 { // odd, so that all bits of bytes have their turn
		places = append(places, at)
	}
	for i := range min(16, len(enc)) { // a sum of words may lack the last bytes
		places = append(places, 8*(len(enc)-1-i)+i%8)
	}
	for _, at := range places {
		switch got := c.flip(t, enc, at); {
		case got != nil && !bytes.Equal(got, want):
			t.Errorf("%s: with a bit of byte %d of %d flipped it gives another value instead of an error", c.params, at/8, len(enc))
			return
		case got != nil && checks:
			t.Errorf("%s: with a bit of byte %d of %d flipped, which is of the checksum, it gives the value instead of an error", c.params, at/8, len(enc))
			return
		}
	}
}

// released overwrites everything that a call was given as soon as it has
// returned: first in memory that all calls use again, then in memory of their
// own, which must stay as it is from then on.
func released(t conformance.T, e *Env) {
	e.released(t, 300, 3)
	if t.Effort() != conformance.Brief {
		e.released(t, 70_000, 1) // large values may be the work of several goroutines
	}
}

// released is for n elements of the first types.
func (e *Env) released(t conformance.T, n, types int) {
	const rounds = 6
	e.each(t, n, func(c *opened) {
		if c.nth >= types {
			return
		}
		value, encoded := int(c.in.MaxBytes), int(c.out.MaxBytes)
		memory := [3][]byte{make([]byte, value), make([]byte, encoded), make([]byte, value)}
		sources, values := make([][]byte, rounds), make([][]byte, rounds)
		for i := range rounds {
			sources[i] = c.data(n, "noise", uint64(i))
			values[i] = e.value(t, c, sources[i])
		}
		for i := range rounds {
			c.release(t, sources[i], values[i], memory)
		}
		var kept [][3][]byte
		for i := range rounds {
			memory = [3][]byte{make([]byte, value), make([]byte, encoded), make([]byte, value)}
			c.release(t, sources[i], values[i], memory)
			kept = append(kept, memory)
		}
		for i, memory := range kept {
			for k, name := range []string{"input of encode", "output of encode", "output of decode"} {
				if len(bytes.Trim(memory[k], scrawl)) > 0 {
					t.Errorf("%v: the %s of round %d has changed after the call had returned", c.in.DType, name, i)
				}
			}
		}
	})
}

// scrawl is what memory is overwritten with.
const scrawl = "#"

// release encodes src from the first of the memories into the second, decodes
// that into the third, which must give want, and overwrites each after its call.
func (c *opened) release(t conformance.T, src, want []byte, memory [3][]byte) {
	overwrite := func(b []byte) { copy(b, bytes.Repeat([]byte(scrawl), len(b))) }
	t.Doing("encode", c.in.DType.String(), "with", string(c.params))
	n, err := c.Encode(t.Context(), memory[1], memory[0][:copy(memory[0], src)])
	if err != nil {
		t.Fatalf("encode %v with %s: %v", c.in.DType, c.params, err)
	}
	overwrite(memory[0])
	t.Doing("decode", c.in.DType.String(), "with", string(c.params))
	n, err = c.Decode(t.Context(), memory[2], memory[1][:n])
	if err != nil || n != len(want) || !bytes.Equal(memory[2][:n], want) {
		t.Errorf("%v with %s does not come back once the memory of the calls before was used again: %d bytes, %s", c.in.DType, c.params, n, outcome(err))
	}
	if len(bytes.Trim(memory[0], scrawl)) > 0 {
		t.Errorf("%v: decode writes to the input of encode", c.in.DType)
	}
	overwrite(memory[1])
	overwrite(memory[2])
}
