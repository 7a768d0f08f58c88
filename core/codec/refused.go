package codec

// Refusal is a codec of numcodecs, or of its users, that is not offered, and
// why.
type Refusal struct{ ID, Reason string }

var refusals = [...]Refusal{
	{"pickle", "decoding a pickle runs code that the writer chose"},
	{"pcodec", "its format has no implementation outside Rust; it is no part of numcodecs unless another package is installed"},
	{"zfpy", "it needs the zfp library; it is no part of numcodecs unless another package is installed"},
	{"n5_wrapper", "it is the chunk format of N5 stores and never stands in the documents of a Zarr store"},
}

// Refusals gives a copy of the list.
func Refusals() []Refusal { return append([]Refusal(nil), refusals[:]...) }

// Refused gives the reason why a codec is not offered.
func Refused(id string) (reason string, ok bool) {
	for _, r := range refusals {
		if r.ID == id {
			return r.Reason, true
		}
	}
	return "", false
}
