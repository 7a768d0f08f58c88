package builtin_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/filters/builtin"
	"github.com/seed-695719ce/nczarr/filters/internal/filtertest"
)

// python returns an interpreter that has numcodecs, or skips the test.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("NCZARR_PEERS_PYTHON"), "python3"} {
		if name == "" {
			continue
		}
		if exec.CommandContext(t.Context(), name, "-W", "ignore", "-c", "import numcodecs").Run() == nil {
			return name
		}
	}
	t.Skip("a Python with numcodecs is missing; set NCZARR_PEERS_PYTHON")
	return ""
}

// script decodes NAME.enc with the configuration in NAME.json to NAME.out, and encodes
// NAME.raw to NAME.peer, for every NAME.json in a folder.
const script = `
import sys, json, pathlib, warnings
warnings.simplefilter("ignore")
import numpy, numcodecs
for f in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    d = json.loads(f.read_text())
    dtype = d.pop("_dtype")
    c = numcodecs.get_codec(d)
    raw = numpy.frombuffer(f.with_suffix(".raw").read_bytes(), dtype)
    out = c.decode(f.with_suffix(".enc").read_bytes())
    f.with_suffix(".out").write_bytes(numpy.asarray(out).tobytes())
    f.with_suffix(".peer").write_bytes(numpy.asarray(c.encode(raw)).tobytes())
`

// field returns n elements of a smooth field with a little noise.
func field(t dtype.Type, n int) []byte {
	r := rand.New(rand.NewPCG(5, 9))
	b := make([]byte, n*t.Size)
	for i := range n {
		v := 280 + 20*math.Sin(float64(i)/300) + 0.05*r.NormFloat64()
		e := b[i*t.Size:]
		switch {
		case t.Kind == dtype.Float && t.Size == 4:
			binary.LittleEndian.PutUint32(e, math.Float32bits(float32(v)))
		case t.Kind == dtype.Float:
			binary.LittleEndian.PutUint64(e, math.Float64bits(v))
		case t.Size == 1:
			e[0] = byte(v)
		case t.Size == 2:
			binary.LittleEndian.PutUint16(e, uint16(100*v))
		case t.Size == 4:
			binary.LittleEndian.PutUint32(e, uint32(1000*v))
		default:
			binary.LittleEndian.PutUint64(e, uint64(100000*v))
		}
	}
	return b
}

// TestPeer checks that numcodecs decodes our encoded data and that we decode the data of
// numcodecs. It logs each output that is more than 15 percent larger than that of
// numcodecs.
func TestPeer(t *testing.T) {
	t.Parallel()
	py := python(t)
	var configs []string
	for _, c := range []string{"lz4", "lz4hc", "zlib", "zstd"} {
		for _, level := range []int{0, 1, 5, 9} {
			for shuffle := -1; shuffle <= 2; shuffle++ {
				configs = append(configs, fmt.Sprintf(`"id":"blosc","cname":%q,"clevel":%d,"shuffle":%d,"blocksize":0`, c, level, shuffle))
			}
		}
	}
	configs = append(configs, `"id":"blosc","cname":"lz4","clevel":5,"shuffle":1,"blocksize":1000`,
		`"id":"zlib","level":1`, `"id":"zlib","level":9`, `"id":"gzip","level":5`, `"id":"zstd","level":-3`, `"id":"zstd","level":1`, `"id":"zstd","level":7`, `"id":"zstd","level":19`,
		`"id":"zstd","level":3,"checksum":true`, `"id":"zstd","level":4,"checksum":true`, `"id":"zstd","level":8`, `"id":"lz4"`, `"id":"lz4","acceleration":7`,
		`"id":"fletcher32"`, `"id":"crc32"`, `"id":"adler32","location":"end"`)
	type job struct {
		name, config, dtype string
		raw                 []byte
	}
	var jobs []job
	dir := t.TempDir()
	for _, dt := range []string{"<u1", "<i2", "<f4", "<f8"} {
		typ, err := dtype.Parse(dt)
		if err != nil {
			t.Fatal(err)
		}
		list := append(append([]string(nil), configs...), fmt.Sprintf(`"id":"delta","dtype":%q`, dt), fmt.Sprintf(`"id":"shuffle","elementsize":%d`, typ.Size))
		for _, n := range []int{3, 1000, 60_001} {
			for i, c := range list {
				if n == 60_001 && dt != "<f4" && i%3 != 0 {
					continue
				}
				jobs = append(jobs, job{fmt.Sprintf("%04d", len(jobs)), c, dt, field(typ, n)})
			}
		}
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open := func(j job) (driver.Codec, []byte) {
		typ, _ := dtype.Parse(j.dtype)
		id := strings.Split(j.config, `"`)[3]
		c, out := filtertest.Open(t, builtin.Provider(), id, "{"+j.config+"}",
			driver.Spec{DType: typ, Shape: []int{len(j.raw) / typ.Size}, MaxBytes: int64(len(j.raw))})
		return c, make([]byte, out.MaxBytes)
	}
	sizes := map[string]int{}
	for _, j := range jobs {
		c, buf := open(j)
		n, err := c.Encode(t.Context(), buf, j.raw)
		if err != nil {
			t.Fatalf("%s of %s: %v", j.config, j.dtype, err)
		}
		sizes[j.name] = n
		write(j.name+".json", []byte(`{"_dtype":"`+j.dtype+`",`+j.config+`}`))
		write(j.name+".raw", j.raw)
		write(j.name+".enc", buf[:n])
	}
	if out, err := exec.CommandContext(t.Context(), py, "-c", script, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, j := range jobs {
		out, err := os.ReadFile(filepath.Join(dir, j.name+".out"))
		if err != nil {
			t.Fatal(err)
		}
		peer, err := os.ReadFile(filepath.Join(dir, j.name+".peer"))
		if err != nil {
			t.Fatal(err)
		}
		c, _ := open(j)
		dst := make([]byte, len(j.raw))
		if _, err := c.Decode(t.Context(), dst, peer); err != nil {
			t.Errorf("{%s} of %d %s: cannot decode the output of numcodecs: %v", j.config, len(j.raw), j.dtype, err)
			continue
		}
		// Sums of floats lose bits, but our sums must lose the same bits.
		if string(dst) != string(out) {
			t.Errorf("{%s} of %d %s: numcodecs decodes different bytes", j.config, len(j.raw), j.dtype)
		}
		if !strings.Contains(j.config, "delta") && string(dst) != string(j.raw) {
			t.Errorf("{%s} of %d %s: wrong bytes", j.config, len(j.raw), j.dtype)
		}
		if len(j.raw) > 50_000 && float64(sizes[j.name]) > 1.15*float64(len(peer)) {
			t.Logf("{%s} of %d %s: %d bytes, numcodecs %d (%.2f)", j.config, len(j.raw), j.dtype, sizes[j.name], len(peer), float64(sizes[j.name])/float64(len(peer)))
		}
	}
	t.Logf("%d configurations", len(jobs))
}
