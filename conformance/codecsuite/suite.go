package codecsuite

import (
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
)

// Suite gives all checks of filters.
func Suite() conformance.Suite[*Env] {
	exact := []string{CapExact}
	both := []string{CapBoth}
	enc := []string{CapEncode}
	return conformance.Suite[*Env]{Name: "codec", Version: "1.7", Checks: []conformance.Check[*Env]{
		{ID: "codec.describe", Doc: "The provider describes the codec, with a summary and a direction, and contradicts itself nowhere.", Run: describe},
		{ID: "codec.open.unknown", Doc: "An id that the provider does not have is ErrNoFilter.", Run: unknown},
		{ID: "codec.open.invalid", Doc: "Parameters that cannot work are ErrInvalid.", Needs: []string{CapInvalid}, Run: invalid},
		{ID: "codec.open.garbage", Doc: "Parameters that are no JSON object are ErrInvalid.", Run: notJSON},
		{ID: "codec.examples.given", Doc: "The author's examples of encoded values decode to what they say, and encoding agrees with them.", Needs: []string{CapExamples}, Run: examplesGiven},
		{ID: "codec.examples.known", Doc: "Under an id of numcodecs, values that numcodecs has encoded decode to what they were, and encoding agrees with them.", Needs: []string{CapKnown}, Run: examplesKnown},
		{ID: "codec.roundtrip", Doc: "Decoding returns the original value for every type, length and pattern.", Needs: exact, Run: roundTrip},
		{ID: "codec.open.kinds", Doc: "Types of elements, shapes, and bytes without structure, are taken, or refused with ErrUnsupported; what is taken survives a round trip.", Needs: enc, Run: kinds},
		{ID: "codec.open.forms", Doc: "Absent parameters mean {}, and the parameters may include the id, and numbers as strings.", Needs: enc, Run: forms},
		{ID: "codec.open.spec", Doc: "The Spec that Open returns is true: MaxBytes of an array of fixed-size elements is their size, and encoding gives exactly that many bytes.", Needs: enc, Run: outSpec},
		{ID: "codec.roundtrip.blob", Doc: "Bytes without structure, such as the output of another step, survive a round trip at every length up to MaxBytes.", Needs: exact, Run: roundTripBlob},
		{ID: "codec.roundtrip.runs", Doc: "Alternating runs of equal and of different values survive a round trip, whatever their lengths.", Needs: exact, Run: roundTripRuns},
		{ID: "codec.roundtrip.distances", Doc: "Bytes that are repeated at distances around powers of two survive a round trip, repetitions of several kilobytes many times over.", Needs: exact, Run: roundTripDistances},
		{ID: "codec.roundtrip.edges", Doc: "Decoding returns the original value for lengths around 64 KiB, and for texts of lengths at which their counts take more bytes.", Effort: conformance.Normal, Needs: exact, Run: roundTripEdges},
		{ID: "codec.roundtrip.large", Doc: "Decoding returns the original value, in time, for a chunk of several megabytes: compressible or not, in short runs, and of two dimensions.", Limit: time.Minute, Needs: exact, Run: roundTripLarge},
		{ID: "codec.roundtrip.huge", Doc: "Decoding returns the original value for a chunk of more than 64 MiB.", Effort: conformance.Thorough, Limit: 5 * time.Minute, Needs: exact, Run: roundTripHuge},
		{ID: "codec.roundtrip.huge.noise", Doc: "Decoding returns the original value for more than 64 MiB of incompressible data.", Effort: conformance.Thorough, Limit: 20 * time.Minute, Needs: exact, Run: roundTripHugeNoise},
		{ID: "codec.size.decoded", Doc: "The decoded size that a codec tells is that of the value, or 0; damaged input breaks nothing.", Needs: enc, Run: decodedSize},
		{ID: "codec.size.promise", Doc: "Encoding never exceeds the size that Open promised, whatever the data.", Needs: enc, Run: sizePromise},
		{ID: "codec.ceiling.encode", Doc: "Encoding into too small a buffer is ErrShortBuffer and writes nothing outside it.", Needs: enc, Run: ceilingEncode},
		{ID: "codec.ceiling.decode", Doc: "Decoding into too small a buffer is ErrShortBuffer and writes nothing outside it.", Needs: both, Run: ceilingDecode},
		{ID: "codec.ceiling.roomy", Doc: "Decoding into a larger buffer gives the same bytes and the right length.", Needs: both, Run: roomy},
		{ID: "codec.input.truncated", Doc: "Decoding input cut at any length returns an error, a shorter value or the value itself. It never returns another value of the same length, panics or writes outside the output.", Needs: enc, Run: truncated},
		{ID: "codec.input.flipped", Doc: "Decoding input with a flipped bit returns an error or a value, and never panics or writes outside the output.", Needs: enc, Run: flipped},
		{ID: "codec.input.garbage", Doc: "Decoding random bytes returns an error or a value, and never panics, hangs or writes outside the output.", Run: garbage},
		{ID: "codec.input.overwritten", Doc: "Decoding input with bytes overwritten anywhere, or made of one repeated byte, returns an error or a value, and never panics, hangs or writes outside the output.", Needs: enc, Run: overwritten},
		{ID: "codec.input.large", Doc: "Decoding megabytes that are damaged, or that nobody has encoded, returns an error or a value in time, and never panics or writes outside the output.", Effort: conformance.Normal, Needs: enc, Run: largeInput},
		{ID: "codec.input.detected", Doc: "A codec whose encoded form has a checksum never takes a value with a flipped bit for good.", Needs: []string{CapEncode, CapDetects}, Run: detects},
		{ID: "codec.input.memory", Doc: "Input that claims to be large takes no memory before it has proved it.", Level: conformance.Extended, Needs: enc, Run: memory},
		{ID: "codec.source", Doc: "Neither direction changes its input.", Needs: both, Run: source},
		{ID: "codec.released", Doc: "The memory of a call belongs to the caller again when the call has returned: nothing reads it or writes to it later.", Needs: both, Run: released},
		{ID: "codec.deterministic", Doc: "Encoding the same bytes twice gives the same bytes, from any codec with the same parameters.", Needs: enc, Run: deterministic},
		{ID: "codec.stateless", Doc: "Nothing of one call shows in the result of another, however alike their input is, nor of codecs for the other order of bytes.", Needs: both, Run: stateless},
		{ID: "codec.stateless.tables", Doc: "Values that share parts with those before are encoded as they are after any others.", Needs: both, Run: statelessTables},
		{ID: "codec.params.apart", Doc: "What a codec does depends on its own parameters, not on those with which others are opened before or after, whatever the size of elements.", Needs: []string{CapBoth, CapRestart}, Run: paramsApart},
		{ID: "codec.params.described", Doc: "Parameters are what the description says: unknown ones and values that it excludes are ErrInvalid, or the nearest of a range, an absent one is its default, and values survive a round trip with the ends of a range and with every choice.", Needs: enc, Run: paramsDescribed},
		{ID: "codec.concurrent", Doc: "A codec may be used by many goroutines at once, with any parameters and types, while others decode damaged input.", Needs: both, Run: concurrent},
		{ID: "codec.cancel", Doc: "A call returns the context's error or the right result after the context has ended.", Needs: both, Run: cancelled},
		{ID: "codec.lasting.calls", Doc: "The thousandth call works as the first does, and in a thorough run the 70,000th.", Level: conformance.Extended, Effort: conformance.Normal, Needs: both, Run: lastingCalls},
		{ID: "codec.lasting.memory", Doc: "Codecs that are opened, for ever new shapes, and calls that follow each other, however they end, take no more and more memory or descriptors.", Level: conformance.Extended, Effort: conformance.Normal, Needs: []string{CapBoth, CapMeasured}, Run: lastingMemory},
		{ID: "codec.pipeline", Doc: "Running all steps at once returns the same bytes as running them one by one, for every job of a batch.", Needs: []string{CapBoth, CapPipeline}, Run: pipeline},
	}}
}
