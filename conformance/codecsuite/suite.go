package codecsuite

import (
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
)

// Suite returns all checks of filters.
func Suite() conformance.Suite[*Env] {
	exact := []string{CapExact}
	both := []string{CapBoth}
	enc := []string{CapEncode}
	return conformance.Suite[*Env]{Name: "codec", Version: "1.14", Checks: []conformance.Check[*Env]{
		{ID: "codec.describe", Doc: "The provider's description of the codec is consistent. It has a summary and declares encoding, decoding or both.", Run: describe},
		{ID: "codec.open.unknown", Doc: "Opening an unknown id fails with ErrNoFilter.", Run: unknown},
		{ID: "codec.open.invalid", Doc: "Opening with invalid parameters fails with ErrInvalid.", Needs: []string{CapInvalid}, Run: invalid},
		{ID: "codec.open.garbage", Doc: "Opening with parameters that are not a JSON object fails with ErrInvalid.", Run: notJSON},
		{ID: "codec.examples.given", Doc: "The author's examples decode to their recorded values. Encoding their sources returns the recorded bytes, or other bytes that decode to the same value if the format allows several encoded forms. Damaged examples fail with ErrCorrupt.", Needs: []string{CapExamples}, Run: examplesGiven},
		{ID: "codec.examples.known", Doc: "A codec whose id numcodecs also uses decodes values that numcodecs encoded. Encoding these values returns the same bytes as numcodecs, or other bytes that decode to the same value if the format allows several encoded forms.", Needs: []string{CapKnown}, Run: examplesKnown},
		{ID: "codec.roundtrip", Doc: "Decoding returns the original value for every type, length and pattern.", Needs: exact, Run: roundTrip},
		{ID: "codec.open.kinds", Doc: "Open accepts any element type, any shape and unstructured bytes, or fails with ErrUnsupported. Data that it accepts survives a round trip.", Needs: enc, Run: kinds},
		{ID: "codec.open.forms", Doc: "Open accepts every name in the description. Nil parameters mean the same as {}. Parameters may include the id, and their numbers may be quoted.", Needs: enc, Run: forms},
		{ID: "codec.open.spec", Doc: "The Spec that Open returns is correct: its kind and its element type agree with the description; for an array of fixed-size elements, MaxBytes is their total size, and encoding returns exactly that many bytes.", Needs: enc, Run: outSpec},
		{ID: "codec.open.orders", Doc: "A codec treats the same numbers in both byte orders alike: they have the same values after a round trip and, if the codec encodes to an array of numbers, the same encoded values.", Needs: both, Run: orders},
		{ID: "codec.roundtrip.blob", Doc: "Unstructured bytes, such as the output of another step, survive a round trip at every length up to MaxBytes.", Needs: exact, Run: roundTripBlob},
		{ID: "codec.roundtrip.runs", Doc: "Runs of equal elements, of any length, survive a round trip.", Needs: exact, Run: roundTripRuns},
		{ID: "codec.roundtrip.distances", Doc: "Bytes repeated at distances around powers of two, up to hundreds of kilobytes, survive a round trip.", Needs: exact, Run: roundTripDistances},
		{ID: "codec.roundtrip.edges", Doc: "Decoding returns the original value for lengths around 64 KiB, for strings of the lengths at which a length prefix needs another byte, and for more than 65,536 different strings.", Effort: conformance.Normal, Needs: exact, Run: roundTripEdges},
		{ID: "codec.roundtrip.large", Doc: "Decoding returns the original value, within the time limit, for a chunk of several megabytes that is compressible, incompressible, made of short runs, or two-dimensional.", Limit: time.Minute, Needs: exact, Run: roundTripLarge},
		{ID: "codec.roundtrip.huge", Doc: "Decoding returns the original value for a chunk of more than 64 MiB.", Effort: conformance.Thorough, Limit: 5 * time.Minute, Needs: exact, Run: roundTripHuge},
		{ID: "codec.roundtrip.huge.noise", Doc: "Decoding returns the original value for more than 64 MiB of incompressible data.", Effort: conformance.Thorough, Limit: 20 * time.Minute, Needs: exact, Run: roundTripHugeNoise},
		{ID: "codec.size.decoded", Doc: "DecodedSize returns the size of the value (for elements of variable length, an upper bound), or 0 if the size is unknown. Decoding into a buffer of that size succeeds. DecodedSize does not panic on damaged input.", Needs: enc, Run: decodedSize},
		{ID: "codec.size.promise", Doc: "Encoding never exceeds the size that Open promised, for any data.", Needs: enc, Run: sizePromise},
		{ID: "codec.ceiling.encode", Doc: "Encoding into a buffer that is too small fails with ErrShortBuffer and writes nothing outside it.", Needs: enc, Run: ceilingEncode},
		{ID: "codec.ceiling.decode", Doc: "Decoding into a buffer that is too small fails with ErrShortBuffer and writes nothing outside it.", Needs: both, Run: ceilingDecode},
		{ID: "codec.ceiling.memory", Doc: "Decoding into a buffer that is much shorter than the value does not allocate memory for the whole value.", Level: conformance.Extended, Effort: conformance.Normal, Limit: 2 * time.Minute, Needs: both, Run: ceilingMemory},
		{ID: "codec.ceiling.roomy", Doc: "Decoding into a larger buffer returns the same bytes and the correct length.", Needs: both, Run: largerBuffer},
		{ID: "codec.input.truncated", Doc: "Decoding input that is truncated at any length returns an error or the whole value. A shorter value is allowed only if the codec is described as a preparation, encodes to arrays, or encodes an empty value as zero bytes. Empty input is an error, unless the codec encodes an empty value as zero bytes. An extra byte at the end is an error if the codec encodes arrays. Decoding never returns a different value of the same length or, if the codec encodes elements of variable length, of the same number of elements. It never panics or writes outside the output.", Needs: enc, Run: truncated},
		{ID: "codec.input.flipped", Doc: "Decoding input with a flipped bit returns an error or a value, and never panics or writes outside the output.", Needs: enc, Run: flipped},
		{ID: "codec.input.garbage", Doc: "Decoding random bytes returns an error or a value, and never panics, hangs or writes outside the output.", Run: garbage},
		{ID: "codec.input.overwritten", Doc: "Decoding input with bytes overwritten anywhere, or made of one repeated byte, returns an error or a value, and never panics, hangs or writes outside the output.", Needs: enc, Run: overwritten},
		{ID: "codec.input.large", Doc: "Decoding megabytes of damaged or invented input returns an error or a value within the time limit, and never panics or writes outside the output.", Effort: conformance.Normal, Needs: enc, Run: largeInput},
		{ID: "codec.input.detected", Doc: "A codec whose encoded form has a checksum never decodes input with a flipped bit to a different value.", Needs: []string{CapEncode, CapDetects}, Run: detects},
		{ID: "codec.input.memory", Doc: "Decoding allocates little memory for short input that declares a huge size, and at most a small multiple of the size of a value for valid input.", Level: conformance.Extended, Needs: enc, Run: memory},
		{ID: "codec.source", Doc: "Neither encoding nor decoding changes its input.", Needs: both, Run: source},
		{ID: "codec.released", Doc: "A codec does not read or write the memory of a call after the call has returned, even if the call was canceled.", Needs: both, Run: released},
		{ID: "codec.deterministic", Doc: "Codecs with the same parameters always encode the same bytes identically.", Needs: enc, Run: deterministic},
		{ID: "codec.stateless", Doc: "The result of a call does not depend on earlier calls with similar input, or on calls of a codec for the other byte order or for elements of another size.", Needs: both, Run: stateless},
		{ID: "codec.stateless.tables", Doc: "The encoded form of a value does not depend on values encoded earlier, even if they have parts in common with it; a codec that has encoded them and a new one encode it identically.", Needs: both, Run: statelessTables},
		{ID: "codec.params.apart", Doc: "A codec depends on its own parameters only, not on the parameters of codecs opened before or after it, for any element size.", Needs: []string{CapBoth, CapRestart}, Run: paramsApart},
		{ID: "codec.params.described", Doc: "Parameters behave as described. Unknown parameters fail with ErrInvalid. Values that the description excludes fail with ErrInvalid or are clamped to the range. An absent parameter has its default. Both ends of a range, both values of a bool and every choice are accepted for at least one type and one combination of the other parameters. Values, including empty ones, survive a round trip with each of these parameter values, and with every accepted value if the range is short.", Needs: enc, Run: paramsDescribed},
		{ID: "codec.concurrent", Doc: "A codec works when many goroutines use it concurrently and some of them decode damaged input, for any parameters and types. It encodes the same bytes as in a single call.", Needs: both, Run: concurrent},
		{ID: "codec.cancel", Doc: "A call with a canceled context returns the context's error, without a kind around it, or the correct result, and a call that takes seconds stops soon after its context is canceled.", Needs: both, Run: canceled},
		{ID: "codec.lasting.calls", Doc: "The thousandth call works like the first, and so does the 70,000th in a thorough run.", Level: conformance.Extended, Effort: conformance.Normal, Needs: both, Run: lastingCalls},
		{ID: "codec.lasting.memory", Doc: "Memory and descriptors do not grow with the number of codecs, shapes and calls, whether the calls succeed or fail.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{CapBoth, CapMeasured}, Run: lastingMemory},
		{ID: "codec.pipeline", Doc: "A pipeline that consists of the codec returns the same bytes as the codec itself, for every job of a batch.", Needs: []string{CapBoth, CapPipeline}, Run: pipeline},
	}}
}
