package store_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
)

// recorder has the description of another driver and records how stores are opened.
type recorder struct {
	driver.Opener
	spec *driver.OpenSpec
}

func (r recorder) Open(_ context.Context, spec driver.OpenSpec) (driver.Map, error) {
	*r.spec = spec
	return driver.Base{}, nil
}

// TestLocationOptions compares the options that drivers receive with what the location
// and the configuration say.
func TestLocationOptions(t *testing.T) {
	t.Parallel()
	web := []ncurl.Param{{Key: "proxy", Value: "http://p"}, {Key: "user", Value: "u"}, {Key: "password", Value: "p"}, {Key: "origin", Value: "https://h"}}
	v3 := func(l *ncurl.Location) { l.Version = 3 }
	for name, c := range map[string]struct {
		url     string
		change  func(*ncurl.Location)
		options string
		mode    driver.Mode
		want    string
	}{
		"region":              {"s3://b/k#aws.region=r-1", nil, `{"region":"x","part_size":10737418240}`, driver.Read, `{"part_size":10737418240,"region":"r-1"}`},
		"profile":             {"s3://b/k#aws.region=r-1&aws.profile=p", nil, `{"unsigned":true}`, driver.Read, `{"profile":"p","region":"r-1","unsigned":false}`},
		"unsigned":            {"s3://b/k#aws.region=r-1&aws.profile=none", nil, `{"profile":"q"}`, driver.Read, `{"region":"r-1","unsigned":true}`},
		"no facts":            {"http://h/x", nil, `{ "proxy":"q"}`, driver.Read, `{ "proxy":"q"}`},
		"no options":          {"http://h/x", nil, ``, driver.Read, ``},
		"query":               {"http://h/x?a=1", nil, `{"query":"b"}`, driver.Read, `{"query":"a=1"}`},
		"login":               {"https://h/x", func(l *ncurl.Location) { l.Web = web }, `{"proxy":"q","user":"old","origin":"https://i"}`, driver.Read, `{"origin":"https://h","password":"p","proxy":"q","user":"u"}`},
		"login of the server": {"https://h/x", func(l *ncurl.Location) { l.Web = web }, `{"user":"old","origin":"https://h"}`, driver.Read, `{"origin":"https://h","proxy":"http://p","user":"old"}`},
		"new archive":         {"/d/x.zip#mode=nczarr,zip", nil, ``, driver.Create, `{"prefix":"auto"}`},
		"new archive, set":    {"/d/x.zip#mode=nczarr,zip", nil, `{"prefix":""}`, driver.CreateExclusive, `{"prefix":""}`},
		"new pure archive":    {"/d/x.zip#mode=zarr,zip", nil, ``, driver.Create, ``},
		"new archive of v3":   {"/d/x.zip#mode=nczarr,zip", v3, ``, driver.Create, ``},
		"old archive":         {"/d/x.zip#mode=nczarr,zip", nil, ``, driver.Update, ``},
		"new directory":       {"/d/x#mode=nczarr,file", nil, ``, driver.Create, ``},
	} {
		loc := parse(t, c.url, false)
		if c.change != nil {
			c.change(loc)
		}
		opener, err := builtin.Driver(loc.Driver)
		if err != nil {
			t.Fatal(err)
		}
		var got driver.OpenSpec
		o := &store.Options{Registry: registry.New([]driver.Opener{recorder{opener, &got}}), DriverOptions: map[string][]byte{loc.Driver: []byte(c.options)}}
		s, err := store.Open(t.Context(), loc, c.mode, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if string(got.Options) != c.want || got.Path != loc.Path || got.Endpoint != loc.Endpoint {
			t.Errorf("%s: want options %s, got %s", name, c.want, got.Options)
		}
	}
	loc := parse(t, "s3://b/k", false)
	o := &store.Options{Registry: registry.New(builtin.New()), DriverOptions: map[string][]byte{"s3": []byte("[]")}}
	if _, err := store.Open(t.Context(), loc, driver.Read, o); ncerr.KindOf(err) != ncerr.ErrInvalid || !strings.Contains(err.Error(), "s3") {
		t.Errorf("want an error about the options of s3, got %v", err)
	}
}

// tape is a driver of stores in memory with a scheme of its own.
type tape struct {
	driver.Opener
	desc driver.Description
}

func (t tape) Describe() driver.Description { return t.desc }

// TestSchemes checks which schemes of a registry's drivers are found, and for which URLs.
func TestSchemes(t *testing.T) {
	t.Parallel()
	reg := registry.New(append(builtin.New(),
		tape{nil, driver.Description{Name: "tape", Schemes: []string{"tape"}, Servers: true, Options: []driver.Option{{Name: "q", From: driver.FromQuery}, {Name: "r", From: driver.FromRegion}}}},
		tape{nil, driver.Description{Name: "bad", Schemes: []string{"no scheme"}}},
	))
	for url, want := range map[string]bool{"x.zarr": false, "s3://b/k": false, "dap4://h": false, "tape://h/x": true, "other://h/x": true} {
		found := false
		for _, s := range store.Schemes(reg, url) {
			found = found || s == ncurl.DriverScheme{Name: "tape", Driver: "tape", Servers: true, Query: true, AWS: true}
			if s.Driver == "bad" {
				t.Errorf("%s: found the malformed scheme %q", url, s.Name)
			}
		}
		if found != want {
			t.Errorf("%s: the scheme was found: %t", url, found)
		}
	}
	if d := store.Describe(reg, parse(t, "/d/x#driver=none", false)); d.Name != "none" || store.IsLocal(&d) {
		t.Errorf("an unknown driver: got %+v", d)
	}
}
