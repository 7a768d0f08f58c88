package ncurl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// TestWebSettings checks which rc keys are passed to the http driver and that the steps
// contain no secret.
func TestWebSettings(t *testing.T) {
	t.Parallel()
	env := &ncurl.Env{RC: []ncurl.RCEntry{
		{Key: "HTTP.CREDENTIALS.USERNAME", Value: "everywhere"},
		{Host: "https://data.example", Key: "http.credentials.username", Value: "u"},
		{Host: "data.example", Key: "HTTP.CREDENTIALS.PASSWORD", Value: "hush"},
		{Host: "other.example", Key: "HTTP.NETRC", Value: "/n"},
		{Key: "HTTP.SSL.CAINFO", Value: "/ca.pem"},
	}}
	loc, err := ncurl.Parse("https://data.example/x.zarr", env)
	if err != nil {
		t.Fatal(err)
	}
	want := []ncurl.Param{{Key: "ca_file", Value: "/ca.pem"}, {Key: "user", Value: "u"}, {Key: "password", Value: "hush"}, {Key: "origin", Value: "https://data.example"}}
	if !slices.Equal(loc.Web, want) {
		t.Errorf("want %v, got %v", want, loc.Web)
	}
	var told strings.Builder
	if err := loc.Explain(&told); err != nil || strings.Contains(told.String(), "hush") {
		t.Errorf("want steps without the password, got error %v, steps %s", err, told.String())
	}
	if other, err := ncurl.Parse("s3://bucket/x.zarr", env); err != nil || other.Web != nil {
		t.Errorf("want no web settings for a bucket, got %v, %v", other.Web, err)
	}
}

// TestWebLogin checks that a login of the rc files is used only for the server of
// its section, over TLS or on this machine, and that the warning about an ignored
// login does not contain its value.
func TestWebLogin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		section, url string
		used         bool
	}{
		{"", "https://data.example/x", false},
		{"data.example", "https://data.example/x", true},
		{"https://Data.Example/x", "https://data.example/x/y", true},
		{"https://data.example/y", "https://data.example/x", false},
		{"data.example", "https://data.example:8443/x", false},
		{"data.example:8443", "https://data.example:8443/x", true},
		{"data.example", "http://data.example/x", false},
		{"http://data.example", "http://data.example/x", false},
		{"http://data.example", "https://data.example/x", false},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080/x", true},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/x", false},
		{"http://127.0.0.1.data.example", "http://127.0.0.1.data.example/x", false},
	} {
		env := &ncurl.Env{RC: []ncurl.RCEntry{
			{Host: c.section, Key: "HTTP.CREDENTIALS.USERNAME", Value: "me", Source: "rc:1"},
			{Host: c.section, Key: "HTTP.CREDENTIALS.PASSWORD", Value: "hush", Source: "rc:2"},
		}}
		loc, err := ncurl.Parse(c.url, env)
		if err != nil {
			t.Fatal(err)
		}
		if used := len(loc.Web) == 3 && loc.Web[1].Value == "hush" && loc.Web[2].Value == loc.Endpoint; used != c.used || !used && loc.Web != nil {
			t.Errorf("[%s] for %s: want a login %v, got %v", c.section, c.url, c.used, loc.Web)
		}
		if told := strings.Join(loc.Warnings, "\n"); strings.Contains(told, "hush") || strings.Contains(told, "rc:2") && c.used {
			t.Errorf("[%s] for %s: unexpected warning %s", c.section, c.url, told)
		}
	}
	env := &ncurl.Env{RC: []ncurl.RCEntry{{Key: "HTTP.CREDENTIALS.PASSWORD", Value: "hush", Source: "rc:2"}}}
	loc, err := ncurl.Parse("https://data.example/x", env)
	if err != nil || len(loc.Warnings) != 1 || !strings.Contains(loc.Warnings[0], "HTTP.CREDENTIALS.PASSWORD (rc:2) is ignored") {
		t.Errorf("want one warning about the password, got error %v, warnings %q", err, loc.Warnings)
	}
}
