package host

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// TestHostileDescription checks that a plugin is refused if its description exceeds the
// limits or contradicts itself. Optional parts of a description may be missing.
func TestHostileDescription(t *testing.T) {
	t.Parallel()
	many := make([]*pb.ParamDescription, 1000)
	for i := range many {
		many[i] = &pb.ParamDescription{}
	}
	for name, c := range map[string]struct {
		reply *pb.DescribeReply
		want  string
	}{
		"nothing stated":  {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x"}}}, ""},
		"stated":          {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x", Transform: "array to bytes", Objects: "text"}}}, ""},
		"many parameters": {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x", Params: many}}}, "the codec has 65 parameters, more than the limit of 64"},
		"many aliases":    {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x", Aliases: slices.Repeat([]string{"a"}, 1000)}}}, "the codec has 17 aliases, more than the limit of 16"},
		"many choices":    {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x", Params: []*pb.ParamDescription{{Name: "a", Type: "text", Choices: make([]string, 1000)}}}}}, "the limit is 64"},
		"many filters":    {&pb.DescribeReply{Codecs: make([]*pb.CodecDescription, 2000)}, "2000 drivers and filters"},
		"HDF5 position":   {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x", Params: []*pb.ParamDescription{{Name: "a", Type: "int", Hdf5: 1 << 31}}}}}, "position"},
		"many schemes":    {&pb.DescribeReply{Drivers: []*pb.DriverDescription{{Name: "d", Schemes: slices.Repeat([]string{"tape"}, 17)}}}, "17 URL schemes"},
		"no scheme":       {&pb.DescribeReply{Drivers: []*pb.DriverDescription{{Name: "d", Schemes: []string{"a/b"}}}}, `invalid URL scheme "a/b"`},
		"other transform": {&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "x", Transform: "bytes to gold"}}}, "unknown transform"},
	} {
		_, err := (&program{all: true}).setDescription(c.reply)
		if c.want == "" && err != nil || c.want != "" && (ncerr.KindOf(err) != ncerr.ErrPlugin || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: want %q, got %v", name, c.want, err)
		}
	}
}

// TestClaims checks that a plugin cannot claim the names and HDF5 numbers of other
// plugins, or names that are neither in its file name nor in its pin.
func TestClaims(t *testing.T) {
	t.Parallel()
	h := &Host{
		builtin: registry.New(nil, fixedProvider{{ID: "zlib", V3: "numcodecs.zlib", HDF5: 1}}),
		programs: []*program{
			{known: true, codecs: []codecdriver.Description{{ID: "a", V3: "numcodecs.zlib", Aliases: []string{"zlib", "aa"}, HDF5: 1}, {ID: "zlib", HDF5: 5}}},
			{known: true, codecs: []codecdriver.Description{{ID: "b", V3: "aa", HDF5: 7}, {ID: "c", HDF5: 7}}},
		},
	}
	var got []string
	for _, d := range h.Filters() {
		text, _ := json.Marshal(struct {
			Names []string
			HDF5  int
		}{d.Names(), d.HDF5})
		got = append(got, string(text))
	}
	want := []string{`{"Names":["a","aa"],"HDF5":0}`, `{"Names":["b"],"HDF5":7}`, `{"Names":["c"],"HDF5":0}`, `{"Names":["zlib","numcodecs.zlib"],"HDF5":1}`}
	if !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	p := &program{kind: kindFilter, promised: "mine"}
	if _, err := p.setDescription(&pb.DescribeReply{Codecs: []*pb.CodecDescription{{Id: "mine", Aliases: []string{"zstd"}}}}); err != nil || len(p.codecs) != 1 || p.codecs[0].Has("zstd") {
		t.Errorf("a plugin with an alias that it does not own: got %+v, %v", p.codecs, err)
	}
}

// TestDriverClaims checks that a plugin cannot claim the URL schemes of built-in drivers,
// nor access to paths above the one that the user specifies.
func TestDriverClaims(t *testing.T) {
	t.Parallel()
	h := &Host{builtin: registry.New([]driver.Opener{memmap.NewOpener()})}
	r := &pb.DescribeReply{Drivers: []*pb.DriverDescription{{Name: "tape", Schemes: []string{"tape", "mem"}, Nested: true, Locality: "directory"}, {Name: "reel", Schemes: []string{"mem"}}}}
	if dropped := h.dropBuiltinSchemes(r); !slices.Equal(dropped, []string{"mem", "mem"}) {
		t.Errorf("want mem to be dropped twice, got %q", dropped)
	}
	p := &program{all: true}
	if _, err := p.setDescription(r); err != nil {
		t.Fatal(err)
	}
	d := p.driver("tape")
	if !slices.Equal(d.Schemes, []string{"tape"}) || d.Nested || d.Locality != driver.LocalDirectory {
		t.Errorf("got %+v", d)
	}
	if d := p.driver("reel"); len(d.Schemes) != 0 {
		t.Errorf("got %+v", d)
	}
}

// TestSchemesOfPlugins checks that the schemes of plugins are found through a host, and
// that two plugins with the same scheme make its URLs ambiguous.
func TestSchemesOfPlugins(t *testing.T) {
	t.Parallel()
	served := func(name string, schemes ...string) *program {
		return &program{kind: kindDriver, promised: name, known: true, drivers: []driver.Description{{Name: name, Schemes: schemes}}}
	}
	h := &Host{self: &program{builtin: true}, builtin: registry.New([]driver.Opener{memmap.NewOpener()}), programs: []*program{served("tape", "tape", "both"), served("reel", "both")}}
	for url, want := range map[string]string{"tape://a/b": "tape", "both://a/b": "", "other://a/b": "", "mem:a": "mem"} {
		loc, err := ncurl.Parse(url, &ncurl.Env{Schemes: store.Schemes(h, url)})
		if (err == nil) != (want != "") || err == nil && loc.Driver != want {
			t.Errorf("%s: want driver %q, got %+v, %v", url, want, loc, err)
		}
	}
}

type fixedProvider []codecdriver.Description

func (d fixedProvider) Describe() []codecdriver.Description { return d }

func (fixedProvider) Open(string, json.RawMessage, codecdriver.Spec) (codecdriver.Codec, codecdriver.Spec, error) {
	return nil, codecdriver.Spec{}, ncerr.ErrNoFilter
}
