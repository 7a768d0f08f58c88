package registry_test

import (
	"slices"
	"strings"
	"testing"

	codecdriver "github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

type opener struct {
	driver.Opener
	name, summary string
}

func (o opener) Describe() driver.Description {
	return driver.Description{Name: o.name, Summary: o.summary}
}

type provider struct {
	codecdriver.Provider
	list []codecdriver.Description
}

func (p *provider) Describe() []codecdriver.Description { return p.list }

// TestRegistry checks which of several drivers and codecs of the same name are found, and
// what errors suggest, in one registry and in two after one another.
func TestRegistry(t *testing.T) {
	t.Parallel()
	first := &provider{list: []codecdriver.Description{{ID: "zlib", Aliases: []string{"gz"}}, {ID: "lz4"}}}
	second := &provider{list: []codecdriver.Description{{ID: "gz"}, {ID: "zstd"}}}
	own := registry.New([]driver.Opener{opener{name: "zip", summary: "1"}, opener{name: "file", summary: "2"}, opener{name: "zip", summary: "3"}}, first, second)
	next := registry.New([]driver.Opener{opener{name: "file", summary: "4"}, opener{name: "tape", summary: "5"}}, &provider{list: []codecdriver.Description{{ID: "zlib"}, {ID: "snappy"}}})
	for _, c := range []struct {
		reg              registry.Registry
		drivers, filters string
	}{
		{own, "file 2, zip 1", "zlib lz4 gz zstd"},
		{registry.Before(own, next), "file 2, zip 1, tape 5", "zlib lz4 gz zstd zlib snappy"},
	} {
		var drivers, filters []string
		for _, d := range c.reg.Drivers() {
			drivers = append(drivers, d.Name+" "+d.Summary)
			if o, err := c.reg.Driver(d.Name); err != nil || o.Describe().Summary != d.Summary {
				t.Errorf("driver %s: got %+v, %v", d.Name, o, err)
			}
		}
		for _, d := range c.reg.Filters() {
			filters = append(filters, d.ID)
		}
		if got := strings.Join(drivers, ", "); got != c.drivers {
			t.Errorf("want drivers %s, got %s", c.drivers, got)
		}
		if !slices.Equal(filters, strings.Fields(c.filters)) {
			t.Errorf("want filters %s, got %q", c.filters, filters)
		}
		for id, want := range map[string]*provider{"zlib": first, "gz": first, "zstd": second} {
			if p, err := c.reg.Filter(id); p != codecdriver.Provider(want) || err != nil {
				t.Errorf("filter %s: got %+v, %v", id, p, err)
			}
		}
	}
	if _, err := own.Driver("zap"); ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), "available drivers are file, zip") {
		t.Errorf("got %v", err)
	}
	if _, err := own.Filter("zlip"); ncerr.KindOf(err) != ncerr.ErrNoFilter || !strings.Contains(err.Error(), `gz, lz4, zlib, zstd; did you mean "zlib"`) {
		t.Errorf("got %v", err)
	}
	if _, err := registry.Before(own, next).Driver("zap"); ncerr.KindOf(err) != ncerr.ErrUnsupported || !strings.Contains(err.Error(), "available drivers are file, tape") {
		t.Errorf("got %v", err)
	}
}
