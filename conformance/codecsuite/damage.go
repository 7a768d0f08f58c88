package codecsuite

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

// decodeDamaged decodes bytes that may be damaged and checks that nothing outside the
// output changes. It returns the value, or nil if decoding fails.
func (c *opened) decodeDamaged(t conformance.T, what string, src []byte) []byte {
	what += ", " + abbreviated(src)
	t.Step("decode", what)
	dst, whole := guarded(int(c.in.MaxBytes))
	before := bytes.Clone(src)
	n, err := c.safeDecode(t.Context(), dst, src)
	switch kind := ncerr.KindOf(err); {
	case err != nil && t.Context().Err() != nil: // a timeout, which the engine reports
		return nil
	case errors.Is(err, errPanic):
		t.Errorf("%s: %v", what, err)
	case err == nil && (n < 0 || n > len(dst)):
		t.Errorf("%s: decode returns a length of %d bytes for a buffer of %d", what, n, len(dst))
	case err != nil && kind != ncerr.ErrCorrupt && kind != ncerr.ErrShortBuffer:
		t.Errorf("%s: want ErrCorrupt, got %v", what, err)
	}
	if !whole() {
		t.Errorf("%s: decode writes outside its output buffer", what)
	}
	if !bytes.Equal(before, src) {
		t.Errorf("%s: decode changes its input", what)
	}
	if c.tries++; c.large || c.tries%5 == 0 { // five is odd, so every bit of a byte is covered
		c.decodeDamagedAgain(t, what, src, dst[:max(0, min(n, len(dst)))], err)
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

// wellFormed checks that a decoded value holds the number of valid UTF-8 strings that c.in
// declares.
func (c *opened) wellFormed(t conformance.T, what string, value []byte) {
	n, err := c.in.Elements()
	if err != nil {
		t.Fatalf("%v", err)
	}
	v, err := driver.ParseValues(value, n)
	if err != nil {
		t.Errorf("%s: the result is not a list of %d values: %v", what, n, err)
		return
	}
	for i := range n {
		if text := v.At(i); !utf8.Valid(text) {
			t.Errorf("%s: string %d is not UTF-8: % x", what, i, text)
			return
		}
	}
}

// decodeDamagedAgain decodes src into a buffer filled with different bytes. The value
// or the kind of error must be the same as before.
func (c *opened) decodeDamagedAgain(t conformance.T, what string, src, want []byte, wantErr error) {
	dst := bytes.Repeat([]byte{^byte(canary)}, int(c.in.MaxBytes))
	n, err := c.safeDecode(t.Context(), dst, src)
	switch got := dst[:max(0, min(n, len(dst)))]; {
	case t.Context().Err() != nil:
	case ncerr.KindOf(err) != ncerr.KindOf(wantErr):
		t.Errorf("%s: the result depends on the previous content of the output buffer: %s instead of %s", what, outcome(err), outcome(wantErr))
	case err == nil && !bytes.Equal(want, got):
		t.Errorf("%s: the result depends on the previous content of the output buffer: %s", what, describeDifference(want, got))
	}
}

// abbreviated describes input by its length and its first and last bytes.
func abbreviated(b []byte) string {
	const head, tail = 24, 8
	if len(b) <= head+tail {
		return strconv.Itoa(len(b)) + " bytes: " + hex.EncodeToString(b)
	}
	return strconv.Itoa(len(b)) + " bytes: " + hex.EncodeToString(b[:head]) + "..." + hex.EncodeToString(b[len(b)-tail:])
}

var errPanic = errors.New("panic")

// recovered turns a panic into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		line, _, _ := strings.Cut(fmt.Sprint(r), "\n")
		*err = ncerr.Errorf(ncerr.ErrInternal, "", "", "%w: %s", errPanic, line)
	}
}

// safeEncode and safeDecode call the codec and return a panic as an error.
func (c *opened) safeEncode(ctx context.Context, dst, src []byte) (n int, err error) {
	defer recovered(&err)
	return c.Encode(ctx, dst, src)
}

func (c *opened) safeDecode(ctx context.Context, dst, src []byte) (n int, err error) {
	defer recovered(&err)
	return c.Decode(ctx, dst, src)
}

// truncated cuts the encoded form at every length, or at some lengths with brief
// effort. A format that encodes an empty value as at least one byte is expected to mark
// the end of a value, so that truncation is an error. The exceptions are codecs that
// encode to arrays, and codecs described as a preparation, which may add only a
// checksum: it may match the truncated data by chance.
func truncated(t conformance.T, e *Env) {
	d := e.target.description()
	e.each(t, 150, func(c *opened) {
		enc := c.encode(t, data(c.in.DType, 150, "smooth", t.Seed()))
		full, emptySize := c.decodeDamaged(t, "whole", enc), 0
		if none := e.open(t, c.params, c.in.DType, 0); none != nil && c.in.DType.Fixed() {
			emptySize = len(none.encode(t, data(c.in.DType, 0, "zeros", 0)))
		}
		if c.out.Kind == driver.Array && c.out.DType.Fixed() || d.Transform == driver.ArrayToBytes {
			if got := c.decodeDamaged(t, "extra byte", append(bytes.Clone(enc), 0)); got != nil {
				t.Errorf("extra byte: want ErrCorrupt for input of %d bytes, because the encoded form of the array has %d, with %s for %s", len(enc)+1, len(enc), c.params, describeSpec(c.in))
			}
		}
		marksEnd := emptySize > 0 && !d.Preparation && (d.Transform == driver.BytesToBytes || d.Transform == driver.ArrayToBytes)
		try := func(n int) {
			got := c.decodeDamaged(t, "truncated input", enc[:n:n])
			switch {
			case len(got) > 0 && (len(got) == len(full) || !c.in.DType.Fixed() && d.Objects != driver.NoObjects) && !bytes.Equal(got, full): // elements of variable length are always complete in number
				t.Errorf("truncated input: the first %d of %d bytes decode to a different value of the same length", n, len(enc))
			case n == 0 && got != nil && emptySize > 0:
				t.Errorf("empty input: want ErrCorrupt, because an empty value is encoded as %d bytes; got %d bytes and no error", emptySize, len(got))
			case got != nil && len(got) < len(full) && marksEnd:
				t.Errorf("truncated input: want an error, but the first %d of %d bytes decode to %d of %d bytes, with %s for %s", n, len(enc), len(got), len(full), c.params, describeSpec(c.in))
			}
		}
		for n := 0; n < len(enc); n += 1 + len(enc)/e.effort.truncated {
			try(n)
		}
		for n := max(0, len(enc)-e.effort.truncated); n < len(enc); n++ { // damage at the end is the hardest to detect
			try(n)
		}
		if short, corrupt := c.bads[ncerr.ErrShortBuffer], c.bads[ncerr.ErrCorrupt]; short > 10 && 2*short > corrupt {
			t.Errorf("truncated input: want ErrCorrupt, got ErrShortBuffer %d times and ErrCorrupt %d times; a larger buffer does not help", short, corrupt)
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
			if i >= head { // every bit of the header, then random bits
				at = r.IntN(8 * len(enc))
			}
			c.flip(t, enc, at)
		}
	})
}

// flip decodes enc with bit n flipped, and then restores enc.
func (c *opened) flip(t conformance.T, enc []byte, n int) []byte {
	enc[n/8] ^= 1 << (n % 8)
	got := c.decodeDamaged(t, "bit "+strconv.Itoa(n%8)+" of byte "+strconv.Itoa(n/8)+" flipped", enc)
	enc[n/8] ^= 1 << (n % 8)
	return got
}

// largeInput decodes large damaged input. A decoder that scans all of the input for each
// byte exceeds the time limit.
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
		for range 5 { // a parallel decoder may drop the errors from some parts
			c.flip(t, enc, r.IntN(8*len(enc)))
		}
		cut := r.IntN(len(enc))
		c.decodeDamaged(t, "truncated input", enc[:cut:cut])
		for i, v := range []byte{0, 0xFF, 1, 0x10, 0x80} {
			if pattern == "runs" && i < 2 {
				c.decodeDamaged(t, "a header followed by one repeated byte", append(bytes.Clone(enc[:min(len(enc), 16)]), bytes.Repeat([]byte{v}, most)...))
			} else if pattern == "runs" {
				c.decodeDamaged(t, "one repeated byte", bytes.Repeat([]byte{v}, most))
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
			c.decodeDamaged(t, "random bytes", src)
		}
	})
}

// maxDecodeMemory is the maximum number of bytes that decoding a short input may allocate,
// and meanDecodeMemory is the maximum mean over many inputs. They allow for windows and
// tables of fixed size.
const maxDecodeMemory, meanDecodeMemory = 64 << 20, 1 << 20

// memory overwrites the header, where formats store sizes, with large numbers. For a codec in
// this process it uses the lowest of several measurements of the memory that decoding an
// input allocates, because allocations of other goroutines are counted too. For a codec in a
// separate process it measures the memory of that process, after several calls per input, so
// that memory that the codec reuses has been written to and is counted.
func memory(t conformance.T, e *Env) {
	if e.target.Usage == nil {
		e.valueMemory(t)
	}
	c := e.first(t, 1000)
	inputs := absurdSizes(c.encode(t, data(c.in.DType, 1000, "smooth", t.Seed())), e.effort.absurd)
	least := make([]uint64, len(inputs))
	var worst int
	var sum uint64
	if e.target.Usage != nil {
		e.checkMemory(t, c, inputs)
		return
	}
	for round := range 100 {
		worst, sum = 0, 0
		for i, bad := range inputs {
			if round > 0 && least[i] <= meanDecodeMemory {
				sum += least[i]
				continue
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c.decodeDamaged(t, "input with a false size", bad)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; round == 0 || took < least[i] {
				least[i] = took
			}
			if sum += least[i]; least[i] > least[worst] {
				worst = i
			}
		}
		if least[worst] <= maxDecodeMemory && sum <= meanDecodeMemory*uint64(len(inputs)) || t.Failed() {
			return
		}
		if round > 5 && least[worst] > 2*maxDecodeMemory { // other goroutines do not allocate that much every time
			break
		}
		time.Sleep(time.Duration(round) * time.Millisecond) // let other goroutines finish
	}
	t.Errorf("decoding %d inputs with false sizes, for values of %d bytes, allocates %d MiB in total and %d MiB for one of them: %s", len(inputs), c.in.MaxBytes, sum>>20, least[worst]>>20, abbreviated(inputs[worst]))
}

// valueMemory checks that decoding a value of about 2 MiB into a buffer of its size
// allocates at most a small multiple of that size.
func (e *Env) valueMemory(t conformance.T) {
	const size, multiple = 2 << 20, 8
	typ := e.first(t, 1000).in.DType
	n := size / int(room(typ, 1))
	c := e.open(t, e.params[0], typ, n)
	if c == nil {
		return
	}
	enc := c.encode(t, data(typ, n, "smooth", t.Seed()))
	dst := make([]byte, c.in.MaxBytes)
	least := uint64(math.MaxUint64)
	for round := range 50 { // other goroutines may allocate too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := c.safeDecode(t.Context(), dst, enc); err != nil {
			t.Errorf("decode a value of %d bytes with %s: %v", len(dst), c.params, err)
			return
		}
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least <= maxDecodeMemory+multiple*size {
			return
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
	}
	t.Errorf("decoding a value of %d bytes allocates %d MiB", len(dst), least>>20)
}

// checkMemory checks that decoding inputs does not make the process of c grow by much.
func (e *Env) checkMemory(t conformance.T, c *opened, inputs [][]byte) {
	before, err := e.target.Usage()
	for i := 0; i < len(inputs) && err == nil; i++ {
		for range 3 {
			c.decodeDamaged(t, "input with a false size", inputs[i])
		}
		var u conformance.Usage
		if u, err = e.target.Usage(); u.Memory > before.Memory+4*maxDecodeMemory {
			t.Errorf("the process grows from %d to %d MiB when it decodes input with a false size: %s", before.Memory>>20, u.Memory>>20, abbreviated(inputs[i]))
			return
		}
	}
	if err != nil {
		t.Errorf("measure resource usage: %v", err)
	}
}

// absurdSizes returns copies of enc, each with an absurd size at one offset below
// places, or with a huge but plausible size at one of a few later offsets.
func absurdSizes(enc []byte, places int) (inputs [][]byte) {
	var claims, sizes [][]byte
	for width := 1; width <= 8; width++ {
		claims = append(claims, bytes.Repeat([]byte{0x7F}, width), bytes.Repeat([]byte{0xFF}, width))
	}
	for _, size := range []uint32{100 << 20, 256 << 20, 1 << 30, 3 << 30} { // plausible to a decoder
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

// overwritten writes bytes that turn lengths, counts and distances into zero, negative
// or huge numbers throughout the input. It also decodes input that consists of one
// repeated byte, alone or after a valid start.
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
					c.decodeDamaged(t, "a valid start followed by one repeated byte", append(bytes.Clone(enc[:n]), bytes.Repeat([]byte{v}, len(enc))...))
				}
			}
		})
	}
	e.each(t, 150, func(c *opened) {
		for v := 0; v < 256 && c.nth == 0; v += 64 / e.effort.places {
			for _, n := range []int{1, 2, 3, 4, 5, 8, 16, 64, 1000} {
				c.decodeDamaged(t, "one repeated byte", bytes.Repeat([]byte{byte(v)}, n))
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
			c.decodeDamaged(t, fmt.Sprintf("%d bytes overwritten at %d", width, at), bad)
		}
	}
}

// checksummed maps the id of each codec of numcodecs whose format has a checksum of the
// value to parameters that enable the checksum.
var checksummed = map[string]string{
	"adler32": `{}`, "bz2": `{}`, "crc32": `{}`, "crc32c": `{}`, "fletcher32": `{}`, "gzip": `{}`, "jenkins_lookup3": `{}`,
	"lzma": `{}`, "zlib": `{}`, "zstd": `{"checksum":true}`,
}

// detects flips bits of encoded noise. A format that stores noise verbatim decodes a
// flipped bit to a different value, which only a checksum detects. The noise is the same
// in all runs, because a checksum misses about one flipped bit in billions.
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
		e.detects(t, p, 1<<12, e.effort.flipped/4) // whole blocks, if each has a checksum
		if t.Effort() != conformance.Brief {
			e.detects(t, p, 1<<20/int(room(e.types[0], 1))+5003, 10)
		}
	}
}

// detects checks that flipped bits are detected, using n elements of the first type that
// the filter supports.
func (e *Env) detects(t conformance.T, p json.RawMessage, n, tries int) {
	for _, typ := range e.types {
		c, out, err := e.target.Provider.Open(e.target.ID, p, driver.Spec{DType: typ, Shape: []int{n}, MaxBytes: room(typ, n)})
		if err != nil { // codec.open.kinds checks the error
			e.refused(t, typ, err)
			continue
		}
		o := &opened{Codec: c, in: driver.Spec{DType: typ, MaxBytes: room(typ, n)}, out: out, params: p, bads: map[ncerr.Kind]int{}}
		o.detects(t, data(typ, n, "bits", 1), tries, e.target.description().Preparation)
		return
	}
}

// detects flips bits of the encoded form of src. Decoding must return an error, or the
// same value if the bit has no effect. If checks is set and the encoded form contains src,
// the other bytes are a checksum. Then every flipped bit must be an error, and so must a
// checksum of all zeros or all ones.
func (c *opened) detects(t conformance.T, src []byte, tries int, checks bool) {
	enc := c.encode(t, src)
	want := c.decodeDamaged(t, "whole", enc)
	checks = checks && bytes.Contains(enc, src)
	for _, v := range []byte{0, 0xFF} {
		bad := bytes.Repeat([]byte{v}, len(enc))
		copy(bad[max(0, bytes.Index(enc, src)):], src)
		if checks && !bytes.Equal(bad, enc) && c.decodeDamaged(t, "wrong checksum", bad) != nil {
			t.Errorf("with %s: decode accepts a checksum whose bytes are all %#02x for %d bytes of data", c.params, v, len(src))
			return
		}
	}
	var places []int
	step := max(1, 8*len(enc)/tries)
	for at := 0; at < 8*len(enc); at += step + (step+1)%2 { // an odd step covers every bit position of a byte
		places = append(places, at)
	}
	for i := range min(16, len(enc)) { // a checksum over words may ignore the last bytes
		places = append(places, 8*(len(enc)-1-i)+i%8)
	}
	for _, at := range places {
		switch got := c.flip(t, enc, at); {
		case got != nil && !bytes.Equal(got, want):
			t.Errorf("with %s: decoding input with a flipped bit in byte %d of %d returns a different value instead of an error", c.params, at/8, len(enc))
			return
		case got != nil && checks:
			t.Errorf("with %s: decoding input with a flipped bit in byte %d of %d, in the checksum, returns the value instead of an error", c.params, at/8, len(enc))
			return
		}
	}
}

// released overwrites all memory passed to a call as soon as the call has returned. It
// first reuses the same memory for all calls, then uses fresh memory for each, which must
// not change later.
func released(t conformance.T, e *Env) {
	e.released(t, 300, 3)
	if t.Effort() != conformance.Brief {
		e.released(t, 70_000, 1) // a codec may use several goroutines for large values
		e.releasedByCancel(t, 200_000)
	}
}

// releasedByCancel cancels calls at different times, reuses the memory for calls that are not
// canceled, and compares their results. A codec that returns before its goroutines have
// stopped changes them. Calls of a fast codec are for more than n elements, so that they last
// long enough.
func (e *Env) releasedByCancel(t conformance.T, n int) {
	var c *opened
	var sources, encoded, values [2][]byte
	var took time.Duration // of decoding
	for ; ; n *= 4 {
		c = e.first(t, n)
		for i, pattern := range []string{"noise", "smooth"} {
			sources[i] = c.data(n, pattern, t.Seed())
			encoded[i], values[i] = c.encode(t, sources[i]), e.value(t, c, sources[i])
			began := time.Now()
			c.checkDecode(t, encoded[i], values[i], len(values[i]))
			took = time.Since(began)
		}
		if took > 4*time.Millisecond || n > 2<<20 || !c.in.DType.Fixed() {
			break
		}
	}
	rounds := 40
	if took > 20*time.Millisecond {
		rounds = 16
	}
	enc, dst := make([]byte, c.out.MaxBytes), make([]byte, c.in.MaxBytes)
	for i := 0; i < rounds && !t.Failed(); i++ {
		k := i % 2
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(took/2*time.Duration(i)/time.Duration(rounds), cancel) // took includes the time before and after the call
		if i%4 < 2 {
			t.Step("decode", strconv.Itoa(n), "elements and cancel the context")
			_, _ = c.Decode(ctx, dst, encoded[k])
			m, err := c.Decode(t.Context(), dst, encoded[1-k])
			if err != nil || !bytes.Equal(dst[:m], values[1-k]) {
				t.Errorf("decode %d bytes of %v after a canceled call into the same memory: got a different value or an error: %s", len(values[1-k]), c.in.DType, outcome(err))
			}
		} else {
			t.Step("encode", strconv.Itoa(n), "elements and cancel the context")
			_, _ = c.Encode(ctx, enc, sources[k])
			m, err := c.Encode(t.Context(), enc, sources[1-k])
			if err != nil {
				t.Errorf("encode %d bytes of %v after a canceled call into the same memory: %v", len(sources[1-k]), c.in.DType, err)
			} else {
				c.checkDecode(t, enc[:m], values[1-k], len(values[1-k]))
			}
		}
		timer.Stop()
		cancel()
	}
}

// released overwrites the memory of calls for n elements, for the given number of
// types.
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
				if len(bytes.Trim(memory[k], overwriteByte)) > 0 {
					t.Errorf("%v: the %s in round %d changed after the call returned", c.in.DType, name, i)
				}
			}
		}
	})
}

// overwriteByte is the byte that overwrites memory.
const overwriteByte = "#"

// release encodes src from memory[0] into memory[1], decodes the result into memory[2],
// which must then equal want, and overwrites each buffer after its call.
func (c *opened) release(t conformance.T, src, want []byte, memory [3][]byte) {
	overwrite := func(b []byte) { copy(b, bytes.Repeat([]byte(overwriteByte), len(b))) }
	t.Step("encode", c.in.DType.String(), "with", string(c.params))
	n, err := c.Encode(t.Context(), memory[1], memory[0][:copy(memory[0], src)])
	if err != nil {
		t.Fatalf("encode %v with %s: %v", c.in.DType, c.params, err)
	}
	overwrite(memory[0])
	t.Step("decode", c.in.DType.String(), "with", string(c.params))
	n, err = c.Decode(t.Context(), memory[2], memory[1][:n])
	if err != nil || n != len(want) || !bytes.Equal(memory[2][:n], want) {
		t.Errorf("a value of %v changes in a round trip with %s when the memory of earlier calls is reused: got %d bytes, %s", c.in.DType, c.params, n, outcome(err))
	}
	if len(bytes.Trim(memory[0], overwriteByte)) > 0 {
		t.Errorf("%v: decode writes to the input of encode", c.in.DType)
	}
	overwrite(memory[1])
	overwrite(memory[2])
}
