package ncurl_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// TestNoSecretIsShown checks that neither the error for a location nor the output
// for a valid one contains a secret, whatever its position and however the location
// is malformed.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"http://u:PW@h/x", "https://PW@h/x", "https://u:p#PW@h/x", "https://u:p?PW@h/x", "https://u:p/PW@h/x", "s3://u:PW@b/k",
		"http:/u:PW@h/x", "http:u:PW@h/x", `http:\\\\u:PW@h`, `http:\\u:PW@h`, "http:////u:PW@h", "HTTP:/u:PW@h", "https:/PW@h/x", "s3:u:PW@b",
		" http://u:PW@h/x", "\"http://u:PW@h/x\"", "<http://u:PW@h/x>", "2://u:PW@h/x", "http:/u:PW@h/x#mode=zip", "dods://u:PW@h/x",
		"file://u:PW@h/x", "file://PW@h/x", "FILE://u:PW@h", "file://u:p/PW@h/x", "file://u:p#PW@h/x", "file://u:p?PW@h/x", "file:u:PW@h/x", "file:/u:PW@h/x",
		"file:///u:PW@h/x", "file:////u:PW@h/x", `file:\\u:PW@h/x`, "[log]file://u:PW@h/x", "file://u:PW@h/x#mode=zip", "mem://u:PW@h/x", "mem:u:PW@h/x",
		"file://u%3APW@h/x", "//u:PW@h/x", "://u:PW@h/x", "[log]//u:PW@h/x", ":///u:PW@h",
		"http://h/x?code=PW", "http://h/x?sas=PW&a=b", "http://h/x?jwt=PW", "http://h/x?hdnts=PW", "http://h/x?password%3DPW",
		"http://h/x?PW", "http://h/x?PW==", "http://h/x?a=PW b", "http://h/x?a=1&PW#mode=s3", "s3://b/k?x=PW", "http://h/x?a=1?PW",
		"http://h/x#frob=PW", "http://h/x#frob%3DPW", "http://h/x#a%zz=PW", "http://h/x#a=%zzPW", "s3://b/k#mode=s3,frob&b=PW", "http://h/x#aws.secretkey=PW",
		"s3://b/k#aws.endpoint=http://u:PW@h", "s3://b/k#aws.secret=PW", "[code=PW]http://h/x", "[a][code=PW]s3://b/k?x", "[code=PW http://h/x?y",
	} {
		if shown := ncurl.Masked(text); strings.Contains(shown, "PW") {
			t.Errorf("%q is shown as %q", text, shown)
		}
		loc, err := ncurl.Parse(text, &ncurl.Env{Cwd: "/w"})
		if err != nil {
			if strings.Contains(err.Error(), "PW") {
				t.Errorf("%q: the error shows the secret: %v", text, err)
			}
			continue
		}
		if !strings.Contains(text, "@") && loc.Driver == ncurl.DriverFile {
			continue // file names are not secret
		}
		var told strings.Builder
		if err := loc.Explain(&told); err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(loc.Redacted())
		if err != nil {
			t.Fatal(err)
		}
		if all := fmt.Sprint(told.String(), string(doc), loc.Display, loc.Warnings); strings.Contains(all, "PW") {
			t.Errorf("%q: the secret is shown: %s", text, all)
		}
	}
}

// TestMaskedKeepsTheRest checks that Masked keeps the parts that are not secret, and that
// Parse does not mistake part of a path before "@" for a user name.
func TestMaskedKeepsTheRest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3://b/k#mode=nczarr,s3&aws.region=eu-west-1": "s3://b/k#mode=nczarr,s3&aws.region=eu-west-1",
		"http://h:1/x@1.zarr":                          "http://***@1.zarr", // "h:1/x" may be a user name and password
		"https://h/x@1.zarr":                           "https://h/x@1.zarr",
		"http://h/x?a=b#log":                           "http://h/x?***#log",
		"[mode=zarr]file:x":                            "[mode=zarr]file:x",
		"data/run@2.zarr":                              "data/run@2.zarr",
	} {
		if got := ncurl.Masked(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
	for text, want := range map[string]string{
		"data/run@2.zarr":             "file:///w/data/run%402.zarr#mode=file",
		"//data/12:00/run@2.zarr":     "file:///data/12:00/run%402.zarr#mode=file",
		"12:00@2.zarr":                "file:///w/12:00%402.zarr#mode=file",
		"file:run@2.zarr":             "file:///w/run%402.zarr#mode=file",
		"file:///d/12:00/run@2.zarr":  "file:///d/12:00/run%402.zarr#mode=file",
		"file://12:00/run%402.zarr":   "file:///w/12:00/run%402.zarr#mode=file",
		"file://d/run@2.zarr#mode=s3": "",
	} {
		loc, err := ncurl.Parse(text, &ncurl.Env{Cwd: "/w"})
		if err == nil && loc.Display != want || err != nil && (want != "" || strings.Contains(err.Error(), "user name")) {
			t.Errorf("%q: want %q, got %v, %v", text, want, loc, err)
		}
	}
}

func TestScheme(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x.zarr": "", "/d/http://x": "", "c:x": "", "run12:00.zarr": "", "./a://b": "", "file:x": "file", "[mode=zarr]S3://b": "s3", "mem:x": "mem", " http://h": " http", "http:x": "http",
	} {
		if got := ncurl.Scheme(text); got != want {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}
