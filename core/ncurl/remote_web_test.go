package ncurl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// TestWebSettings shows which rc keys reach the http driver, and that no
// secret is told.
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
	want := []ncurl.Param{{Key: "user", Value: "u"}, {Key: "password", Value: "hush"}, {Key: "ca_file", Value: "/ca.pem"}}
	if !slices.Equal(loc.Web, want) {
		t.Errorf("want %v, got %v", want, loc.Web)
	}
	var told strings.Builder
	if err := loc.Explain(&told); err != nil || strings.Contains(told.String(), "hush") {
		t.Errorf("%v: %s", err, told.String())
	}
	if other, err := ncurl.Parse("s3://bucket/x.zarr", env); err != nil || other.Web != nil {
		t.Errorf("settings of web servers for a bucket: %v, %v", other.Web, err)
	}
}
