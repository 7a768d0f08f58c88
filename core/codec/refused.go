package codec

// Refusal is a codec of numcodecs or another package that this module does not support,
// with the reason.
type Refusal struct{ ID, Reason string }

var refusals = [...]Refusal{
	{"pickle", "decoding a pickle runs code that the writer chose"},
	{"pcodec", "the format has no implementation outside Rust; numcodecs needs another package for it"},
	{"zfpy", "the codec needs the zfp library; numcodecs needs another package for it"},
	{"n5_wrapper", "the codec is the chunk format of N5 stores and does not occur in the metadata of Zarr stores"},
}

// Refusals returns the codecs that are not supported.
func Refusals() []Refusal { return append([]Refusal(nil), refusals[:]...) }

// Refused returns the reason why a codec is not supported, and reports whether the codec
// is in Refusals.
func Refused(id string) (reason string, ok bool) {
	for _, r := range refusals {
		if r.ID == id {
			return r.Reason, true
		}
	}
	return "", false
}
