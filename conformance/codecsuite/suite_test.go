package codecsuite_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/conformance/codecsuite"
	"github.com/seed-695719ce/nczarr/core/codec"
	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/builtin"
)

// params maps the id of each codec to valid and to invalid sets of parameters.
var params = map[string][2][]string{
	"blosc": {
		{`{}`, `{"cname":"zstd","clevel":3,"shuffle":2}`, `{"cname":"zlib","shuffle":0}`, `{"cname":"snappy","clevel":9,"shuffle":-1}`, `{"cname":"lz4hc","blocksize":256}`, `{"cname":"blosclz","clevel":7}`, `{"clevel":"1","shuffle":"bitshuffle"}`, `{"clevel":0}`},
		{`{"cname":"lzma"}`, `{"clevel":10}`, `{"clevel":1.5}`, `{"shuffle":3}`, `{"shuffle":"no"}`, `{"blocksize":-1}`, `{"more":1}`},
	},
	"astype":     {{`{}`, `{"encode_dtype":"<f8"}`}, {`{"encode_dtype":"what"}`}},
	"base64":     {{`{}`}, {`{"more":1}`}},
	"bitround":   {{`{"keepbits":3}`, `{"keepbits":"0"}`}, {`{}`, `{"keepbits":-1}`, `{"keepbits":53}`}},
	"bz2":        {{`{"level":9}`, `{}`}, {`{"level":0}`}},
	"categorize": {{`{"labels":` + labels() + `}`, `{"astype":">i4","labels":` + labels() + `}`}, {`{}`, `{"labels":3}`, `{"labels":[],"astype":"<f4"}`}},
	"cast_value": {
		{`{"data_type":"<i4"}`, `{"data_type":"|u1","rounding":"towards-zero","out_of_range":"wrap"}`, `{"data_type":"<f4","out_of_range":"clamp","scalar_map":{"encode":[[0,0]],"decode":[]}}`},
		{`{}`, `{"data_type":"what"}`, `{"data_type":"<f8","out_of_range":"wrap"}`, `{"data_type":"|u1","scalar_map":{"encode":[["x",0]]}}`, `{"data_type":"|u1","scalar_map":{"more":[]}}`, `{"data_type":"|u1","rounding":"up"}`},
	},
	"scale_offset":  {{`{}`, `{"scale":1}`, `{"offset":0}`}, {`{"scale":0}`, `{"offset":"x"}`, `{"more":1}`}},
	"zarr.packbits": {{`{}`, `{"padding_encoding":"first_byte"}`, `{"padding_encoding":"last_byte","first_bit":0}`}, {`{"padding_encoding":"middle"}`, `{"first_bit":64}`, `{"last_bit":-1}`, `{"first_bit":1,"last_bit":0}`}},
	"fixedscaleoffset": {
		{`{"offset":1,"scale":10,"astype":"<i4"}`, `{"offset":0,"scale":2,"astype":"<f8"}`},
		{`{}`, `{"offset":1,"scale":0}`, `{"offset":"x","scale":1}`},
	},
	"jenkins_lookup3": {{`{}`, `{"initval":9}`}, {`{"initval":-1}`, `{"prefix":"x"}`}},
	"json2":           {{`{}`, `{"ensure_ascii":false,"indent":2}`}, {`{"encoding":"utf-16"}`, `{"more":1}`}},
	"lzma": {
		{`{}`, `{"delta":4,"check":0}`, `{"format":3,"filters":[{"id":3,"dist":4},{"id":4611686018427387905,"lc":0,"lp":2,"pb":1}]}`},
		{`{"format":4}`, `{"format":3}`, `{"format":3,"filters":[{"id":4}]}`, `{"check":2}`, `{"preset":10}`, `{"format":1,"filters":[{"id":4611686018427387905}]}`},
	},
	"msgpack2":   {{`{}`, `{"use_bin_type":false}`}, {`{"raw":"perhaps"}`}},
	"packbits":   {{`{}`}, {`{"more":1}`}},
	"quantize":   {{`{"digits":3}`, `{"digits":-2,"astype":"<f8"}`}, {`{}`, `{"digits":1.5}`}},
	"crc32":      {{`{}`, `{"location":"end"}`}, {`{"location":"middle"}`}},
	"crc32c":     {{`{}`}, {`{"location":3}`}},
	"adler32":    {{`{}`}, {`{"more":3}`}},
	"fletcher32": {{`{}`}, {`{"location":"end"}`}},
	"lz4":        {{`{}`, `{"acceleration":-1}`, `{"acceleration":"100"}`}, {`{"acceleration":"x"}`}},
	"delta":      {{`{}`}, {`{"dtype":"what"}`, `{"dtype":7}`}},
	"gzip":       {{`{}`, `{"level":9}`, `{"level":0}`, `{"level":"3"}`}, {`{"level":10}`, `{"level":"x"}`, `{"level":[1]}`}},
	"shuffle":    {{`{}`, `{"elementsize":0}`, `{"elementsize":3}`}, {`{"elementsize":-1}`, `{"elementsize":"big"}`}},
	"szip":       {{`{"mask":4,"pixels-per-block":8}`, `{"mask":"32","pixels-per-block":32}`}, {`{}`, `{"pixels-per-block":3}`, `{"pixels-per-block":64}`}},
	"vlen-utf8":  {{`{}`}, {`{"more":1}`}},
	"vlen-bytes": {{`{}`}, {`{"more":1}`}},
	"vlen-array": {{`{"dtype":"|u1"}`}, {`{}`, `{"dtype":"|O"}`}},
	"zlib":       {{`{}`, `{"level":9}`, `{"level":-1}`, `{"level":null}`}, {`{"level":-2}`, `{"lever":1}`}},
	"zstd":       {{`{}`, `{"level":0,"checksum":true}`, `{"level":-5}`}, {`{"level":"fast"}`, `{"checksum":"maybe"}`}},
}

// labels returns all words of the suite as a JSON array.
func labels() string {
	b, err := json.Marshal(codecsuite.Words())
	if err != nil {
		panic(err)
	}
	return string(b)
}

// exact maps the ids of lossy codecs to the types that they store exactly.
var exact = map[string][]string{
	"delta": {"|u1", "<i2", ">i2", "<i4", "<i8", "<u8"},
	"json2": {"|u1", "<i2", ">i2", "<i4", "<i8", "<u8", "|b1", "|O"},
}

func target(p driver.Provider, id string) *codecsuite.Target {
	t := &codecsuite.Target{Provider: p, ID: id, Exact: exact[id] != nil}
	for _, s := range exact[id] {
		typ, err := dtype.Parse(s)
		if err != nil {
			panic(err)
		}
		t.Types = append(t.Types, typ)
	}
	for _, s := range params[id][0] {
		t.Params = append(t.Params, json.RawMessage(s))
	}
	for _, s := range params[id][1] {
		t.Invalid = append(t.Invalid, json.RawMessage(s))
	}
	if id == "packbits" { // it supports only the integers 0 and 1
		t.Types = []dtype.Type{{Kind: dtype.Bool, Size: 1}}
	}
	return t
}

// TestBuiltin runs the suite on every built-in codec, briefly except for one codec of each
// kind: blocks with headers, frames, a permutation, bits, elements of variable length, and
// rounding. If NCZARR_FULL is set, as make nightly does, the effort is normal for all.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	normal := []string{"blosc", "zstd", "shuffle", "szip", "vlen-utf8", "bitround"}
	full := os.Getenv("NCZARR_FULL") == "1"
	for _, d := range builtin.Provider().Describe() {
		t.Run(d.ID, func(t *testing.T) {
			t.Parallel()
			effort := conformance.Brief
			if !testing.Short() && (full || slices.Contains(normal, d.ID)) {
				effort = conformance.Normal
			}
			conformance.TestWith(t, codecsuite.Suite(), target(runs{builtin.Provider()}, d.ID), &conformance.Options{Effort: effort})
		})
	}
}

// TestExactForSome checks that a filter that declares some types as exact may be lossy
// for all others.
func TestExactForSome(t *testing.T) {
	t.Parallel()
	tg := &codecsuite.Target{Provider: builtin.Provider(), ID: "bitround", Params: []json.RawMessage{json.RawMessage(`{"keepbits":8}`)}, Exact: true}
	tg.Types = []dtype.Type{{Kind: dtype.Int, Size: 4, Order: dtype.Little}}
	r := conformance.Run(t.Context(), codecsuite.Suite(), tg, &conformance.Options{Select: []string{"codec.open.*"}, Limit: 10 * time.Minute})
	if !r.OK() {
		t.Errorf("a correct codec fails: %+v", r.Results)
	}
}

// runs is a provider that also implements PipelineOpener.
type runs struct{ driver.Provider }

func (r runs) OpenPipeline(ctx context.Context, steps []driver.Step, in driver.Spec) (driver.Pipeline, []driver.Spec, error) {
	p, err := codec.Open(ctx, steps, in, func(string) (driver.Provider, error) { return r.Provider, nil })
	if err != nil {
		return nil, nil, err
	}
	return p, p.Specs()[1:], nil
}

// planted is a provider whose codecs have one defect.
type planted struct {
	driver.Provider
	defect string
}

func (p planted) Open(id string, params json.RawMessage, in driver.Spec) (driver.Codec, driver.Spec, error) {
	if p.defect == "accepts any parameters" && id != "shuffle" {
		id, params = "shuffle", nil
	}
	c, out, err := p.Provider.Open(id, params, in)
	return &broken{Codec: c, defect: p.defect}, out, err
}

type broken struct {
	driver.Codec
	defect string
}

func (b *broken) Encode(ctx context.Context, dst, src []byte) (int, error) {
	n, err := b.Codec.Encode(ctx, dst, src)
	if b.defect == "clears the last encoded byte" && n > 5 && n%2 == 1 {
		dst[n-1] = 0
	}
	return n, err
}

func (b *broken) Decode(ctx context.Context, dst, src []byte) (int, error) {
	switch b.defect {
	case "panics on short output":
		if len(dst) < len(src) {
			panic("index out of range")
		}
	case "truncates silently":
		n, err := b.Codec.Decode(ctx, dst, src[:min(len(src), len(dst))])
		if ncerr.KindOf(err) == ncerr.ErrShortBuffer {
			return len(dst), nil
		}
		return n, err
	case "pads the output with zeros":
		n, err := b.Codec.Decode(ctx, dst, src)
		clear(dst[n:])
		return len(dst), err
	case "modifies its input":
		n, err := b.Codec.Decode(ctx, dst, src)
		if len(src) > 0 {
			src[0]++
		}
		return n, err
	}
	return b.Codec.Decode(ctx, dst, src)
}

// TestPlantedDefects checks that each planted defect fails the checks written for it.
func TestPlantedDefects(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"accepts any parameters":       {"codec.open.unknown"},
		"clears the last encoded byte": {"codec.roundtrip"},
		"panics on short output":       {"codec.ceiling.decode"},
		"truncates silently":           {"codec.ceiling.decode"},
		"pads the output with zeros":   {"codec.input.truncated"},
		"modifies its input":           {"codec.source", "codec.input.flipped"},
		"":                             {},
	}
	for defect, checks := range cases {
		tg := &codecsuite.Target{Provider: planted{builtin.Provider(), defect}, ID: "shuffle"}
		report := conformance.Run(t.Context(), codecsuite.Suite(), tg, &conformance.Options{Select: checks, Limit: 10 * time.Minute})
		failed := map[string]bool{}
		for _, r := range report.Results {
			failed[r.ID] = r.Status == conformance.StatusFail || r.Status == conformance.StatusError
		}
		for _, id := range checks {
			if !failed[id] {
				t.Errorf("a codec with the defect %q passes %s", defect, id)
			}
			delete(failed, id)
		}
		if defect == "" {
			for id, bad := range failed {
				if bad {
					t.Errorf("a correct codec fails %s: %+v", id, report.Results)
				}
			}
		}
	}
}
