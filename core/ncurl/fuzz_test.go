package ncurl_test

import (
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// FuzzParse checks that Parse does not panic, that its errors are one line of a known
// kind, and that the canonical form parses as an equal Location.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "x.zarr#mode=zip", "file:///d/x#mode=nczarr,file", "[mode=zarr][log]file://x/y#noxarray",
		"s3://b/k#aws.profile=no&aws.region=eu-west-1", "s3://b/k#aws.endpoint=http://x.s3.a.b.c:80",
		"https://a.b.s3.us-west-2.amazonaws.com/k/l", "https://b.storage.googleapis.com/k#mode=gs3,bytes",
		"http://[::1]:9000/b/%C3%BC#s3", "https://h/a%2Fb/../c?sig=1#log=x&Log=y", "mem://%2F/x#dimension_separator=/",
		`C:\x\y`, `\A:\0`, `\a\..\A:\0`, "A:/", "C:/../../x", `\\srv\share`, "file:///C:/x", "dap4://h/p", "https://u:p@h/x", "file:%ff#%41=%26",
		"https://s3.amazonaws.com.cn/b/k", "https://x.s3.us-east-1.vpce.amazonaws.com/b/k",
		"tape://r/a?q#mode=zarr", "hdfs://H:1/x", "r2://b/k#aws.profile=no",
	} {
		f.Add(s, "/w", byte(0))
		f.Add(s, "/w", byte(1))
		f.Add(s, "", byte(3))
	}
	f.Fuzz(func(t *testing.T, text, cwd string, flags byte) {
		if !strings.HasPrefix(cwd, "/") || strings.ContainsRune(cwd, 0) {
			cwd = ""
		}
		env := &ncurl.Env{Windows: flags&1 != 0, Create: flags&2 != 0, Cwd: cwd, Schemes: declared().Schemes, Vars: map[string]string{"AWS_REGION": "env-1"}}
		if flags&4 != 0 {
			env.Profiles = map[string]ncurl.Profile{"default": {Endpoint: "http://p.s3.x.y.z:1"}, "b": {}}
		}
		l, err := ncurl.Parse(text, env)
		if err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrBadURL && k != ncerr.ErrUnsupported && k != ncerr.ErrInvalid {
				t.Fatalf("unexpected error of kind %s: %v", k.Name(), err)
			}
			return
		}
		again, err := ncurl.Parse(l.String(), env)
		if err != nil {
			t.Fatalf("%q: the canonical form %q does not parse: %v", text, l, err)
		}
		if !l.Equal(again) {
			t.Fatalf("%q and its canonical form %q differ:\n%+v\n%+v", text, l, l, again)
		}
	})
}
