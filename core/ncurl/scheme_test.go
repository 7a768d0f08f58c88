package ncurl_test

import (
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// declared is an Env with schemes that drivers declare. Two drivers declare "twice", and
// one declares a scheme with rules of its own.
func declared() *ncurl.Env {
	return &ncurl.Env{
		Schemes: []ncurl.DriverScheme{
			{Name: "tape", Driver: "tape", Query: true},
			{Name: "hdfs", Driver: "hadoop", Servers: true},
			{Name: "r2", Driver: "cloud", AWS: true},
			{Name: "twice", Driver: "tape"},
			{Name: "twice", Driver: "cloud"},
			{Name: "s3", Driver: "tape"},
			{Name: "http", Driver: "tape"},
			{Name: "dap4", Driver: "tape"},
		},
		Vars: map[string]string{"AWS_REGION": "env-1"},
	}
}

// TestDeclaredSchemes parses URLs whose schemes drivers declare, and their canonical
// forms.
func TestDeclaredSchemes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, driver, endpoint, path, query, region, display string }{
		{"tape://Reel-7/a%20b/c/", "tape", "", "Reel-7/a b/c", "", "", "tape://Reel-7/a%20b/c"},
		{"TAPE://reel?sig=1#mode=zarr", "tape", "", "reel", "sig=1", "", "tape://reel?***#mode=zarr,nczarr"},
		{"hdfs://Node:8020/x/y#mode=nczarr", "hadoop", "hdfs://node:8020", "x/y", "", "", "hdfs://node:8020/x/y#mode=nczarr"},
		{"hdfs://node", "hadoop", "hdfs://node", "", "", "", "hdfs://node"},
		{"r2://b/k", "cloud", "", "b/k", "", "env-1", "r2://b/k#aws.region=env-1"},
		{"r2://b/k#aws.region=west&aws.profile=none", "cloud", "", "b/k", "", "west", "r2://b/k#aws.profile=none&aws.region=west"},
		{"s3://b/k", "s3", "https://s3.env-1.amazonaws.com", "b/k", "", "env-1", "https://s3.env-1.amazonaws.com/b/k#mode=s3"},
		{"http://h/k", "http", "http://h", "/k", "", "", "http://h/k"},
	} {
		l, err := ncurl.Parse(c.url, declared())
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if l.Driver != c.driver || l.Endpoint != c.endpoint || l.Path != c.path || l.Query != c.query || l.Region != c.region || l.Display != c.display {
			t.Errorf("%s: got %+v", c.url, l)
		}
		if again, err := ncurl.Parse(l.String(), declared()); err != nil || !l.Equal(again) {
			t.Errorf("%s: the canonical form %s: got %+v, %v", c.url, l, again, err)
		}
	}
	if l, err := ncurl.Parse("r2://b/k#aws.profile=none", declared()); err != nil || !l.Unsigned {
		t.Errorf("want an unsigned location, got %+v, %v", l, err)
	}
}

// TestDeclaredSchemesRefused checks the errors for URLs with declared schemes.
func TestDeclaredSchemesRefused(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]struct {
		kind ncerr.Kind
		text string
	}{
		"twice://a/b":                {ncerr.ErrInvalid, "the drivers tape and cloud both declare the scheme twice"},
		"dap4://a/b":                 {ncerr.ErrUnsupported, "DAP"},
		"tapes://a/b":                {ncerr.ErrBadURL, `did you mean "tape"`},
		"hdfs://a/b?q":               {ncerr.ErrBadURL, "query"},
		"hdfs://a:0/b":               {ncerr.ErrBadURL, "port"},
		"tape://a/b?q=\"":            {ncerr.ErrBadURL, "percent-encoded"},
		"tape://a/../b":              {ncerr.ErrBadURL, "segment"},
		"tape://../b":                {ncerr.ErrBadURL, "before the path"},
		"tape://a%40b/c":             {ncerr.ErrBadURL, "before the path"},
		"tape://u:p@a/b":             {ncerr.ErrBadURL, "user name or password"},
		"tape://a/b#mode=zip":        {ncerr.ErrUnsupported, "zip"},
		"tape://a/b#mode=file":       {ncerr.ErrBadURL, "the scheme tape: conflicts with mode=file"},
		"tape://a/b#mode=bytes":      {ncerr.ErrBadURL, "mode=bytes"},
		"tape://a/b#driver=x":        {ncerr.ErrBadURL, "driver=x needs a path"},
		"r2://b/k#aws.region=A%20B":  {ncerr.ErrBadURL, "aws.region"},
		"r2://b/k#aws.profile=other": {0, ""}, // profiles are unknown, so that any name is accepted
	} {
		_, err := ncurl.Parse(url, declared())
		if want.text == "" {
			if err != nil {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if ncerr.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: want %v with %q, got %v", url, want.kind, want.text, err)
		}
	}
	if !ncurl.HasRules("s3") || !ncurl.HasRules("dods") || !ncurl.HasRules("") || ncurl.HasRules("tape") {
		t.Error("HasRules is wrong about s3, dods, a path or tape")
	}
}
