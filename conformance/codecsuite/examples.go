package codecsuite

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Example is a value and its encoded form as another implementation wrote it.
type Example struct {
	// ID is the id of the codec. Params is its configuration, as in the metadata.
	ID     string
	Params json.RawMessage
	// In describes the value.
	In driver.Spec
	// Source is the value that was encoded, and Decoded the result of decoding. They are
	// equal unless the codec is lossy.
	Source, Decoded, Encoded []byte
	// Unique is set if Encoded is the only encoded form of Source that the format allows.
	Unique bool
	// Corrupt is set if Encoded is a damaged encoded form of a value like Decoded, so that
	// Decode must fail with ncerr.ErrCorrupt.
	Corrupt bool
}

// ReadExamples reads a file of examples, a JSON array of objects with these members:
//
//	codec    the configuration of the codec, with its id, as in the metadata
//	dtype    the element type; absent for bytes without structure
//	shape    the shape; absent for one dimension of elements of fixed size
//	order    the layout of the elements, "C" (which is the default) or "F"
//	decoded  the value in hexadecimal, as core/codec/driver lays elements out
//	encoded  its encoded form in hexadecimal
//	source   what was encoded, if a lossy codec decodes to something else
//	unique   true if the format allows no other encoded form
//	corrupt  true if the encoded form is damaged and must be refused
//
// The members decoded_file, encoded_file and source_file name files with the raw bytes
// instead, relative to the file of examples. ReadExamples fails with ncerr.ErrInvalid
// for a malformed file.
func ReadExamples(path string) ([]Example, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseExamples(text, filepath.Dir(path))
}

func parseExamples(text []byte, dir string) ([]Example, error) {
	var list []exampleJSON
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, ncerr.New(ncerr.ErrInvalid, "read examples", "", err)
	}
	examples := make([]Example, len(list))
	for i := range list {
		var err error
		if examples[i], err = list[i].example(dir); err != nil {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "read examples", "", "example %d: %w", i+1, err)
		}
	}
	return examples, nil
}

// exampleJSON is the file form of an Example.
type exampleJSON struct {
	Codec       json.RawMessage `json:"codec"`
	DType       string          `json:"dtype"`
	Shape       []int           `json:"shape"`
	Order       string          `json:"order"`
	Source      *string         `json:"source"`
	SourceFile  string          `json:"source_file"`
	Decoded     *string         `json:"decoded"`
	DecodedFile string          `json:"decoded_file"`
	Encoded     *string         `json:"encoded"`
	EncodedFile string          `json:"encoded_file"`
	Unique      bool            `json:"unique"`
	Corrupt     bool            `json:"corrupt"`
}

func (j exampleJSON) example(dir string) (Example, error) {
	x := Example{Params: j.Codec, Unique: j.Unique, Corrupt: j.Corrupt}
	var codec struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(j.Codec, &codec); err != nil || codec.ID == "" {
		return x, fmt.Errorf(`codec must be an object with an "id"`)
	}
	x.ID = codec.ID
	var err error
	if x.Decoded, err = content(dir, "decoded", j.Decoded, j.DecodedFile); err != nil {
		return x, err
	}
	if x.Encoded, err = content(dir, "encoded", j.Encoded, j.EncodedFile); err != nil {
		return x, err
	}
	x.Source = x.Decoded
	if j.Source != nil || j.SourceFile != "" {
		if x.Source, err = content(dir, "source", j.Source, j.SourceFile); err != nil {
			return x, err
		}
	}
	x.In, err = j.spec(x)
	return x, err
}

// spec returns the description of x's value. It fails if the size does not match the
// shape.
func (j exampleJSON) spec(x Example) (driver.Spec, error) {
	in := driver.Spec{Kind: driver.Blob, MaxBytes: int64(max(len(x.Decoded), len(x.Source)))}
	if j.DType == "" {
		return in, nil
	}
	var err error
	in.Kind, in.Shape = driver.Array, j.Shape
	switch j.Order {
	case "", "C":
	case "F":
		in.Order = driver.F
	default:
		return in, fmt.Errorf("order must be C or F, not %q", j.Order)
	}
	if in.DType, err = dtype.Parse(j.DType); err != nil {
		return in, err
	}
	if in.Shape == nil && in.DType.Fixed() {
		in.Shape = []int{len(x.Decoded) / in.DType.Size}
	}
	n, err := in.Elements()
	if err != nil {
		return in, err
	}
	for _, b := range [][]byte{x.Decoded, x.Source} {
		if !in.DType.Fixed() {
			if _, err := driver.ParseValues(b, n); err != nil {
				return in, err
			}
		} else if len(b) != n*in.DType.Size {
			return in, fmt.Errorf("%d elements of %v take %d bytes, not %d", n, in.DType, n*in.DType.Size, len(b))
		}
	}
	return in, nil
}

// content returns bytes given as a hexadecimal string or as the name of a file.
func content(dir, name string, text *string, file string) ([]byte, error) {
	switch {
	case (text == nil) == (file == ""):
		return nil, fmt.Errorf("exactly one of %s and %s_file is required", name, name)
	case text == nil:
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		b, err := os.ReadFile(file)
		if err != nil { // keep only the text, so that the error's kind is ErrInvalid
			return nil, fmt.Errorf("%s_file: %s", name, err.Error())
		}
		return b, nil
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(*text), ""))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

// knownText is the output of testdata/known.py.
//
//go:embed testdata/known.json
var knownText []byte

// known returns the built-in examples by codec id.
var known = sync.OnceValues(func() (map[string][]Example, error) {
	all, err := parseExamples(knownText, "")
	byID := map[string][]Example{}
	for _, x := range all {
		byID[x.ID] = append(byID[x.ID], x)
	}
	return byID, err
})

func examplesGiven(t conformance.T, e *Env) {
	for i, x := range e.target.Examples {
		if refused, err := e.example(t, x); err != nil {
			t.Errorf("example %d: %v", i+1, err)
		} else if refused != nil {
			t.Errorf("example %d: open with %s: %v", i+1, x.Params, refused)
		}
	}
}

// examplesKnown checks the built-in examples. A codec may refuse their parameters as
// unsupported or invalid.
func examplesKnown(t conformance.T, e *Env) {
	all, err := known()
	if err != nil {
		t.Fatalf("%v", err)
	}
	for i, x := range all[e.target.ID] {
		refused, err := e.example(t, x)
		if err != nil {
			t.Errorf("example %d of numcodecs: %v", i+1, err)
		}
		if refused == nil {
			continue
		}
		if kind := ncerr.KindOf(refused); kind != ncerr.ErrUnsupported && kind != ncerr.ErrInvalid {
			t.Errorf("example %d of numcodecs: open with %s: %v", i+1, x.Params, refused)
		}
		t.Logf("%s refused: %v", x.Params, refused)
	}
}

// example checks one example. It returns an error from Open as refused, and describes any
// other failure in wrong.
func (e *Env) example(t conformance.T, x Example) (refused, wrong error) {
	d := e.target.description()
	c, out, err := e.target.Provider.Open(e.target.ID, x.Params, x.In)
	if err != nil {
		return err, nil
	}
	o := &opened{Codec: c, in: x.In, out: out, params: x.Params}
	if x.Corrupt {
		return nil, o.refuses(t, d, x.Encoded)
	}
	if d.Decode {
		if err := o.decodesTo(t, x.Encoded, x.Decoded); err != nil {
			return nil, fmt.Errorf("%s: decode: %w", x.Params, err)
		}
	}
	if !d.Encode {
		return nil, nil
	}
	enc, err := o.tryEncode(t, x.Source)
	if err != nil {
		return nil, fmt.Errorf("%s: encode: %w", x.Params, err)
	}
	if x.Unique && !bytes.Equal(enc, x.Encoded) {
		return nil, fmt.Errorf("%s: encode: %s", x.Params, describeDifference(x.Encoded, enc))
	}
	if d.Decode {
		if err := o.decodesTo(t, enc, x.Decoded); err != nil {
			return nil, fmt.Errorf("%s: decode its own encoded form: %w", x.Params, err)
		}
	}
	return nil, nil
}

// refuses decodes damaged input, which must fail with ErrCorrupt if the codec decodes at all.
func (c *opened) refuses(t conformance.T, d driver.Description, damaged []byte) error {
	if !d.Decode {
		return nil
	}
	t.Step("decode a damaged example with", string(c.params))
	n, err := c.safeDecode(t.Context(), make([]byte, c.in.MaxBytes), damaged)
	if err == nil {
		return fmt.Errorf("%s: decode: want ErrCorrupt for damaged input, got %d bytes and no error", c.params, n)
	}
	if ncerr.KindOf(err) != ncerr.ErrCorrupt {
		return fmt.Errorf("%s: decode: want ErrCorrupt for damaged input, got %w", c.params, err)
	}
	return nil
}

// decodesTo decodes enc and compares the result with want.
func (c *opened) decodesTo(t conformance.T, enc, want []byte) error {
	t.Step("decode an example with", string(c.params))
	dst := make([]byte, c.in.MaxBytes)
	n, err := c.safeDecode(t.Context(), dst, enc)
	switch {
	case err != nil:
		return err
	case n < 0 || n > len(dst):
		return fmt.Errorf("decode returns a length of %d bytes for a buffer of %d", n, len(dst))
	case !bytes.Equal(dst[:n], want):
		return fmt.Errorf("%s", describeDifference(want, dst[:n]))
	}
	return nil
}

// describeDifference describes the first difference between want and got.
func describeDifference(want, got []byte) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	if len(got) == len(want) {
		return fmt.Sprintf("%d bytes that differ at byte %d: % x instead of % x", len(got), at, got[at:min(len(got), at+8)], want[at:min(len(want), at+8)])
	}
	return fmt.Sprintf("%d bytes instead of %d, which differ at byte %d: % x instead of % x", len(got), len(want), at, got[at:min(len(got), at+8)], want[at:min(len(want), at+8)])
}
