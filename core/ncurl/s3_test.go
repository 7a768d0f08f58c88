package ncurl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// TestObjectStoreHosts checks that Parse rewrites hosts like the table of the reference,
// netcdf-c. Comments mark the differences.
func TestObjectStoreHosts(t *testing.T) {
	t.Parallel()
	const east, west = "https://s3.us-east-1.amazonaws.com", "https://s3.us-west-2.amazonaws.com"
	const google = "https://storage.googleapis.com"
	for _, c := range []struct {
		text, endpoint, bucket, key, region string
	}{
		{"s3://b/k", east, "b", "k", "us-east-1"},
		{"s3://b", east, "b", "", "us-east-1"},
		{"s3://b/", east, "b", "", "us-east-1"},
		{"s3://B_old/k/l/", east, "B_old", "k/l", "us-east-1"},
		{"s3://my.dotted.bucket/k", east, "my.dotted.bucket", "k", "us-east-1"}, // the reference treats a name with dots as a host
		{"s3://b/a%20b/%C3%BC", east, "b", "a b/ü", "us-east-1"},
		{"s3://s3.us-west-2.amazonaws.com/b/k", west, "b", "k", "us-west-2"},
		{"https://b.s3.us-west-2.amazonaws.com/k", west, "b", "k", "us-west-2"},
		{"https://b.s3.amazonaws.com/k", east, "b", "k", "us-east-1"},
		{"https://B.S3.US-WEST-2.AMAZONAWS.COM/K", west, "b", "K", "us-west-2"},
		{"https://s3.us-west-2.amazonaws.com/b/k", west, "b", "k", "us-west-2"},
		{"https://s3.amazonaws.com/b/k", east, "b", "k", "us-east-1"},
		{"https://a.b.s3.us-west-2.amazonaws.com/k", west, "a.b", "k", "us-west-2"}, // the reference returns NC_EURL
		{"https://a.s3.b.s3.us-west-2.amazonaws.com/k", west, "a.s3.b", "k", "us-west-2"},
		{"https://a.b.s3.amazonaws.com/k", east, "a.b", "k", "us-east-1"}, // the reference returns NC_EURL
		{"https://s3-us-west-2.amazonaws.com/b/k", west, "b", "k", "us-west-2"},
		{"https://b.s3-us-west-2.amazonaws.com/k", west, "b", "k", "us-west-2"},
		{"https://s3.dualstack.us-west-2.amazonaws.com/b/k", "https://s3.dualstack.us-west-2.amazonaws.com", "b", "k", "us-west-2"},
		{"https://s3-fips.us-east-1.amazonaws.com/b/k", "https://s3-fips.us-east-1.amazonaws.com", "b", "k", "us-east-1"},
		{"https://s3.cn-north-1.amazonaws.com.cn/b/k", "https://s3.cn-north-1.amazonaws.com.cn", "b", "k", "cn-north-1"},
		{"s3://b/k#aws.region=cn-north-1", "https://s3.cn-north-1.amazonaws.com.cn", "b", "k", "cn-north-1"},
		{
			"https://x.vpce-1a.s3.us-east-1.vpce.amazonaws.com/b/k", "https://x.vpce-1a.s3.us-east-1.vpce.amazonaws.com",
			"b", "k", "us-east-1",
		},
		{"http://s3.us-west-2.amazonaws.com/b/k", west, "b", "k", "us-west-2"}, // https is forced for Amazon
		{"https://s3.us-west-2.amazonaws.com:443/b/k", west, "b", "k", "us-west-2"},
		{"gs3://b/k", google, "b", "k", ""},
		{"https://storage.googleapis.com/b/k", google, "b", "k", ""},
		{"https://b.storage.googleapis.com/k", google, "b", "k", ""}, // not recognized by the reference
		{"https://a.b.storage.googleapis.com/k", google, "a.b", "k", ""},
		// Other hosts are kept unchanged. http stays http, but the reference forces https.
		{"http://localhost:9000/b/k#mode=s3", "http://localhost:9000", "b", "k", ""},
		{"http://127.0.0.1:7070/b#mode=s3", "http://127.0.0.1:7070", "b", "", ""},
		{"http://[::1]:7070/b/k#mode=s3", "http://[::1]:7070", "b", "k", ""},
		{"http://[0:0::1]:80/b/k#mode=s3", "http://[::1]", "b", "k", ""},
		{"https://minio.example.org/b/k#mode=s3", "https://minio.example.org", "b", "k", ""},
		{"https://s3.gra.io.example.org/b/k#mode=s3", "https://s3.gra.io.example.org", "b", "k", "gra"},
		{"https://s3.example.org/b/k#mode=s3", "https://s3.example.org", "b", "k", ""}, // "example" is not a region
		// Virtual-hosted style on other servers never works in the reference.
		{"https://b.s3.gra.io.example.org/k#mode=s3", "https://s3.gra.io.example.org", "b", "k", "gra"},
		{"https://a.b.s3.example.org/k#mode=s3", "https://s3.example.org", "a.b", "k", ""},
		{"https://h/b/k#mode=s3&aws.endpoint=https://h", "https://h", "b", "k", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			l, err := ncurl.Parse(c.text, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(l.Driver, l.Endpoint, " ", l.Bucket, " ", l.Key, " ", l.Region)
			if want := fmt.Sprint("s3", c.endpoint, " ", c.bucket, " ", c.key, " ", c.region); got != want {
				t.Errorf("want %s\n got %s", want, got)
			}
			again, err := ncurl.Parse(l.String(), nil)
			if err != nil || !l.Equal(again) {
				t.Errorf("%s parses as %+v, %v; want %+v", l, again, err, l)
			}
		})
	}
}

// TestWebHosts checks that Amazon hosts without S3 service, URLs with a query and other
// hosts without a storage mode are web servers.
func TestWebHosts(t *testing.T) {
	t.Parallel()
	for text, w := range map[string]want{
		"https://b.s3-website-eu-west-1.amazonaws.com/k":  {"http", "/k", "https://b.s3-website-eu-west-1.amazonaws.com", ncurl.NCZarr, "", false, ""},
		"https://x.execute-api.eu-west-1.amazonaws.com/k": {"http", "/k", "https://x.execute-api.eu-west-1.amazonaws.com", ncurl.NCZarr, "", false, ""},
		"https://b.s3.amazonaws.com/k?X-Amz-Signature=1":  {"http", "/k", "https://b.s3.amazonaws.com", ncurl.NCZarr, "", false, ""},
		"http://H.example.:80/a%2Fb/./c/../d%7e/":         {"http", "/a%2Fb/d~", "http://h.example", ncurl.NCZarr, "", false, ""},
		"https://h":                    {"http", "/", "https://h", ncurl.NCZarr, "", false, ""},
		"https://h:8443/a b#mode=zarr": {"http", "/a%20b", "https://h:8443", ncurl.Zarr, "zarr,nczarr", false, ""},
		"https://s3.example.org/b/k":   {"http", "/b/k", "https://s3.example.org", ncurl.NCZarr, "", false, ""},
		"https://s2.example.org/b/k":   {"http", "/b/k", "https://s2.example.org", ncurl.NCZarr, "", false, ""},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			check(t, text, nil, w)
		})
	}
}

func TestObjectStoreErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		kind   ncerr.Kind
		phrase string
	}{
		{"https://s2.us-west-1.amazonaws.com/b/k", ncerr.ErrBadURL, `did you mean "s3.us-west-1.amazonaws.com"?`},
		{"https://s2.example.org/b/k#mode=s3", ncerr.ErrBadURL, `did you mean "s3.example.org"?`},
		{"s3://b/k#aws.endpoint=https://s2.example.org", ncerr.ErrBadURL, `did you mean "s3.example.org"?`},
		{"https://x.execute-api.eu-west-1.amazonaws.com/k#mode=s3", ncerr.ErrBadURL, "does not serve S3"},
		{"https://s3.a.b.amazonaws.com/b/k", ncerr.ErrBadURL, "not of the form"},
		{"https://b.s3-accelerate.amazonaws.com/k", ncerr.ErrUnsupported, "form of S3 host"},
		{"https://s3.amazonaws.com/", ncerr.ErrBadURL, "no bucket"},
		{"http://localhost:9000#mode=s3", ncerr.ErrBadURL, "no bucket"},
		{"s3:///k", ncerr.ErrBadURL, "and the path is missing"},
		{"s3:b/k", ncerr.ErrBadURL, `must be followed by "//"`},
		{"s3://localhost:9000/b/k", ncerr.ErrBadURL, "a bucket has no port"},
		{"s3://b c/k", ncerr.ErrBadURL, "bucket name"},
		{"s3://-b/k", ncerr.ErrBadURL, "bucket name"},
		{"s3://b/a//b", ncerr.ErrBadURL, "segment"},
		{"s3://b/a/../b", ncerr.ErrBadURL, "segment"},
		{"s3://b/a%0Ab", ncerr.ErrBadURL, "control character"},
		{"s3://b/%FF", ncerr.ErrBadURL, "UTF-8"},
		{"s3://b/k?x=1", ncerr.ErrBadURL, "query"},
		{"https://h/b/k?x=1#mode=s3", ncerr.ErrBadURL, "query"},
		{"s3://b/k#aws.region=evil.example/", ncerr.ErrBadURL, "a region has only"},
		{"s3://b/k#aws.region", ncerr.ErrBadURL, "needs a value"},
		{"s3://b/k#aws.profile=", ncerr.ErrBadURL, "needs a value"},
		{"s3://b/k#aws.profile=a&aws.profile=b", ncerr.ErrBadURL, `two values, "a" and "b"`},
		{"s3://b/k#aws.endpoint=localhost", ncerr.ErrBadURL, "an endpoint is http://"},
		{"s3://b/k#aws.endpoint=http://h/x", ncerr.ErrBadURL, "an endpoint is http://"},
		{"s3://b/k#aws.endpoint=http://h:x", ncerr.ErrBadURL, "port"},
		{"https://h/b/k#mode=s3&aws.endpoint=http://g", ncerr.ErrBadURL, "conflicts with the host"},
		{"gs3://b/k#aws.endpoint=http://g", ncerr.ErrBadURL, "Google"},
		{"https://s3.amazonaws.com/b/k#mode=gs3", ncerr.ErrBadURL, "Amazon"},
	} {
		checkError(t, c.text, nil, c.kind, c.phrase)
	}
	checkError(t, "s3://b/k", &ncurl.Env{Vars: map[string]string{"AWS_REGION": "a/b"}}, ncerr.ErrInvalid, "the variable AWS_REGION")
	checkError(t, "s3://b/k", &ncurl.Env{S3Endpoint: "nonsense"}, ncerr.ErrInvalid, "the configured endpoint")
}

// settings returns an Env in which the profile, the region and the endpoint each have a
// value from every source.
func settings() *ncurl.Env {
	return &ncurl.Env{
		RC: []ncurl.RCEntry{
			{Key: "AWS.PROFILE", Value: "rc"},
			{Key: "aws.region", Value: "rc-region"},
			{Key: "AWS.ENDPOINT_URL", Value: "http://rc.example"},
		},
		Profiles: map[string]ncurl.Profile{
			"default": {Region: "default-region", Endpoint: "http://default.example"},
			"rc":      {Region: "rcprofile-region"}, "env": {Region: "envprofile-region", Endpoint: "http://envprofile.example"},
			"url": {Region: "urlprofile-region"}, "bare": {},
		},
		Vars: map[string]string{
			"AWS_PROFILE": "env", "AWS_REGION": "env-region", "AWS_DEFAULT_REGION": "envdefault-region",
			"AWS_ENDPOINT_URL_S3": "http://env3.example", "AWS_ENDPOINT_URL": "http://env.example",
		},
		S3Endpoint: "http://configured.example",
	}
}

// TestSelectionOrder removes one source after the other and checks that the next one
// takes effect. Unlike in the reference, the region of a profile precedes the rc key.
func TestSelectionOrder(t *testing.T) {
	t.Parallel()
	env := settings()
	get := func(text string) *ncurl.Location {
		t.Helper()
		l, err := ncurl.Parse(text, env)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := ncurl.Parse(l.String(), env)
		if err != nil || !l.Equal(again) {
			t.Errorf("%s: %s parses as\n%+v, %v\nwant\n%+v", text, l, again, err, l)
		}
		return l
	}
	is := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: want %q, got %q", what, want, got)
		}
	}
	is("region in host", get("https://s3.eu-west-1.amazonaws.com/b/k#aws.region=x").Region, "eu-west-1")
	is("aws.region", get("s3://b/k#aws.region=url-region").Region, "url-region")
	l := get("s3://b/k#aws.profile=url")
	is("aws.profile", l.Profile, "url")
	is("region of the profile", l.Region, "urlprofile-region")
	is("rc profile", get("s3://b/k").Profile, "rc")
	is("rc region after a profile without one", get("s3://b/k#aws.profile=bare").Region, "rc-region")
	is("aws.endpoint", get("s3://b/k#aws.endpoint=http://url.example").Endpoint, "http://url.example")
	is("rc endpoint", get("s3://b/k").Endpoint, "http://rc.example")

	env.RC = nil
	l = get("s3://b/k")
	is("AWS_PROFILE", l.Profile, "env")
	is("region of AWS_PROFILE", l.Region, "envprofile-region")
	is("configured endpoint", l.Endpoint, "http://configured.example")
	is("AWS_REGION", get("s3://b/k#aws.profile=bare").Region, "env-region")
	env.S3Endpoint = ""
	is("AWS_ENDPOINT_URL_S3", get("s3://b/k").Endpoint, "http://env3.example")
	delete(env.Vars, "AWS_ENDPOINT_URL_S3")
	delete(env.Vars, "AWS_REGION")
	is("AWS_ENDPOINT_URL", get("s3://b/k").Endpoint, "http://env.example")
	is("AWS_DEFAULT_REGION", get("s3://b/k#aws.profile=bare").Region, "envdefault-region")
	delete(env.Vars, "AWS_ENDPOINT_URL")
	is("endpoint_url of the profile", get("s3://b/k").Endpoint, "http://envprofile.example")
	is("an endpoint is for s3: only", get("gs3://b/k").Endpoint, "https://storage.googleapis.com")
	delete(env.Vars, "AWS_PROFILE")
	is("default profile", get("s3://b/k").Profile, "default")
	env.Profiles = map[string]ncurl.Profile{}
	env.Vars = nil
	l = get("s3://b/k")
	is("no profile", l.Profile, "")
	is("default region", l.Region, "us-east-1")
	is("no default region elsewhere", get("http://h/b/k#mode=s3").Region, "")
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	env := settings()
	checkError(t, "s3://b/k#aws.profile=urll", env, ncerr.ErrBadURL, `the AWS profile "urll" does not exist; did you mean "url"?`)
	env.RC = nil
	env.Vars = map[string]string{"AWS_PROFILE": "gone"}
	l, err := ncurl.Parse("s3://b/k", env)
	if err != nil || l.Profile != "default" || l.ProfileExplicit || len(l.Warnings) != 1 {
		t.Errorf("AWS_PROFILE with an unknown profile: want profile default and a warning, got %+v, %v", l, err)
	}
	for _, name := range []string{"no", "None"} {
		l, err := ncurl.Parse("s3://b/k#aws.profile="+name, env)
		if err != nil || !l.Unsigned || l.Profile != "" || !strings.HasSuffix(l.String(), "aws.profile=none") {
			t.Errorf("aws.profile=%s: want an unsigned location, got %+v, %v", name, l, err)
		}
	}
	l, err = ncurl.Parse("s3://b/k#aws.profile=unread", nil)
	if err != nil || l.Profile != "unread" || !l.ProfileExplicit {
		t.Errorf("unknown profiles: want the profile unread, got %+v, %v", l, err)
	}
	l, err = ncurl.Parse("s3://b/k#aws.region=eu-west-1&aws.region=eu-west-1", nil)
	if err != nil || l.Region != "eu-west-1" {
		t.Errorf("the same region twice: want eu-west-1, got %+v, %v", l, err)
	}
	l, err = ncurl.Parse("https://s3.eu-west-1.amazonaws.com/b/k#aws.region=eu-west-2", nil)
	if err != nil || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "eu-west-2") {
		t.Errorf("want a warning about a region that contradicts the host: %+v, %v", l, err)
	}
}

func TestRCSections(t *testing.T) {
	t.Parallel()
	env := &ncurl.Env{RC: []ncurl.RCEntry{
		{Host: "h.example:9000/b/deep", Key: "AWS.REGION", Value: "deep"},
		{Host: "https://H.example:9000/", Key: "AWS.REGION", Value: "port"},
		{Host: "h.example", Key: "AWS.REGION", Value: "host"},
		{Key: "AWS.REGION", Value: "first"},
		{Key: "AWS.REGION", Value: "last"},
		{Host: "h.example", Key: "AWS.REGION", Value: "host2"},
	}}
	for text, want := range map[string]string{
		"http://h.example:9000/b/deep/x#mode=s3": "deep", "http://h.example:9000/b/deeper#mode=s3": "port",
		"http://h.example:9001/b#mode=s3": "host2", "http://h.example/b#mode=s3": "host2",
		"http://g.example/b#mode=s3": "last",
	} {
		if l, err := ncurl.Parse(text, env); err != nil || l.Region != want {
			t.Errorf("%s: want %q, got %+v, %v", text, want, l, err)
		}
	}
}

// TestSecrets puts secrets into every part of a location and checks that no output
// contains them.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const s = "hunter2"
	for _, text := range []string{
		"https://user:hunter2@h/x", "https://hunter2@h/x", "s3://KEY:hunter2@b/k", "https://u:hun/hunter2@h/x",
		"https://u:p#hunter2@h/x", "https://u:p?hunter2@h/x#mode=zarr", "https://u:hunter2@h:x/",
		"htps://u:hunter2@h/x", "dods://u:hunter2@h/x", "[token=hunter2]https://h/x#mode=zar",
		"https://h/x?X-Amz-Signature=hunter2&a=b", "https://h/x?sig=hunter2#mode=zar",
		"https://h/x#aws.secret_access_key=hunter2", "https://h/x#aws.secret%5Faccess_key=hunter2&mode=zar",
		"s3://b/k#aws.endpoint=http://u:hunter2@h", "s3://b/k#aws.endpoint=http://u:hunter2@h&aws.endpoint=http://g",
		"s3://b/k#aws.session_token=hunter2", "https://h/x#proxy=http://u:hunter2@p",
		"https://h/x#proxy=http:%2F%2Fu:hunter2@p&mode=zar", "file:x#password=hunter2",
		"https://h/b/k#mode=s3&aws.endpoint=http://u:hunter2@g",
	} {
		l, err := ncurl.Parse(text, nil)
		if err != nil {
			if strings.Contains(err.Error(), s) {
				t.Errorf("%s: the error shows the secret: %v", text, err)
			}
			continue
		}
		var out bytes.Buffer
		if err := l.Explain(&out); err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(l.Redacted())
		if err != nil {
			t.Fatal(err)
		}
		if shown := out.String() + l.Display + string(doc); strings.Contains(shown, s) {
			t.Errorf("%s: the secret is shown:\n%s", text, shown)
		}
		if strings.Contains(text, "Signature") && !strings.Contains(l.String(), s) {
			t.Errorf("%s: String() lacks the signature: %s", text, l)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	l, err := ncurl.Parse("[log]s3://b/k#mode=noxarray,nzf3x&x", nil)
	if err == nil {
		t.Fatalf("want an error, got %+v", l)
	}
	l, err = ncurl.Parse("[log]s3://b/k#mode=NoXarray&x", nil)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, s := range l.Steps {
		rules = append(rules, s.Rule)
		if s.Why == "" || s.Rule == "" {
			t.Errorf("step %+v has no rule or no reason", s)
		}
	}
	want := "prefix scheme legacy merge infer storage profile region rewrite format keep unknown result"
	if got := strings.Join(rules, " "); got != want {
		t.Errorf("want steps %q\n got %q", want, got)
	}
	var out bytes.Buffer
	if err := l.Explain(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"      mode=noxarray,s3  ->  mode=noxarray,s3,nczarr,zarr\n", "warning: unknown fragment key \"x\"\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("Explain lacks %q:\n%s", line, out.String())
		}
	}
	if err := l.Explain(failing{}); err == nil {
		t.Error("Explain did not return the error of a failed write")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, ncerr.ErrIO }

func TestEqual(t *testing.T) {
	t.Parallel()
	a, err := ncurl.Parse("s3://b/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ncurl.Parse("s3://b/l", nil)
	if err != nil {
		t.Fatal(err)
	}
	var none *ncurl.Location
	if a.Equal(b) || a.Equal(nil) || !none.Equal(nil) || !a.Equal(a) {
		t.Error("Equal is wrong for equal, different or nil Locations")
	}
}
