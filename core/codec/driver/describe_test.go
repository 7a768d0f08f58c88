package driver_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

func TestCheckDescription(t *testing.T) {
	t.Parallel()
	level := driver.Param{Name: "level", Type: driver.IntParam, Min: 1, Max: 9, Default: "3", HDF5: 1}
	with := func(change func(p *driver.Param)) []driver.Param {
		p := level
		change(&p)
		return []driver.Param{p}
	}
	many := slices.Repeat([]string{"a"}, 65)
	for name, c := range map[string]struct {
		d    driver.Description
		want string // part of the error, or "" if no error is expected
	}{
		"nothing":          {driver.Description{}, ""},
		"level":            {driver.Description{ID: "x", Params: []driver.Param{level}}, ""},
		"objects":          {driver.Description{ID: "x", Transform: driver.ArrayToBytes, Objects: driver.Text}, ""},
		"objects of bytes": {driver.Description{ID: "x", Transform: driver.BytesToBytes, Objects: driver.Text}, "only a codec that encodes arrays"},
		"objects, no more": {driver.Description{ID: "x", Objects: driver.Text}, "only a codec that encodes arrays"},
		"transform":        {driver.Description{Transform: "x"}, "unknown transform"},
		"kind of objects":  {driver.Description{Objects: "x"}, "unknown kind"},
		"prepares":         {driver.Description{Preparation: true}, "preparation"},
		"number":           {driver.Description{HDF5: 1 << 16}, "filter number"},
		"aliases":          {driver.Description{Aliases: many[:17]}, "aliases"},
		"parameters":       {driver.Description{Params: slices.Repeat([]driver.Param{level}, 65)}, "65 parameters"},
		"twice":            {driver.Description{Params: []driver.Param{level, level}}, "duplicate"},
		"same place":       {driver.Description{Params: []driver.Param{level, {Name: "b", Type: driver.IntParam, HDF5: 1}}}, "duplicate"},
		"id":               {driver.Description{Params: with(func(p *driver.Param) { p.Name = "id" })}, "duplicate"},
		"type":             {driver.Description{Params: with(func(p *driver.Param) { p.Type = "x" })}, "unknown type"},
		"range":            {driver.Description{Params: with(func(p *driver.Param) { p.Min = 10 })}, "range"},
		"range of text":    {driver.Description{Params: with(func(p *driver.Param) { p.Type = driver.TextParam })}, "range"},
		"default":          {driver.Description{Params: with(func(p *driver.Param) { p.Default = "10" })}, "default"},
		"default of HDF5":  {driver.Description{Params: with(func(p *driver.Param) { p.HDF5Default = "x" })}, "default"},
		"required":         {driver.Description{Params: with(func(p *driver.Param) { p.Required = true })}, "must not have a default"},
		"place":            {driver.Description{Params: with(func(p *driver.Param) { p.HDF5 = 33 })}, "position 33"},
		"place of a float": {driver.Description{Params: []driver.Param{{Name: "a", Type: driver.FloatParam, HDF5: 1}}}, "position 1"},
		"choices":          {driver.Description{Params: []driver.Param{{Name: "a", Type: driver.TextParam, Choices: many}}}, "choices"},
		"no choice":        {driver.Description{Params: []driver.Param{{Name: "a", Type: driver.TextParam, Choices: []string{"b"}, Default: "c"}}}, "default"},
		"no bool":          {driver.Description{Params: []driver.Param{{Name: "a", Type: driver.BoolParam, Default: "1"}}}, "default"},
		"fact":             {driver.Description{Params: with(func(p *driver.Param) { p.Input = driver.InputType })}, `"type"`},
	} {
		err := c.d.Check()
		if c.want == "" && err != nil || c.want != "" && (ncerr.KindOf(err) != ncerr.ErrInvalid || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: want %q, got %v", name, c.want, err)
		}
	}
}

func TestNamesOfDescription(t *testing.T) {
	t.Parallel()
	d := driver.Description{ID: "a", Aliases: []string{"c"}}
	if d.Has("") || !d.Has("a") || !d.Has("c") || d.Has("b") || !slices.Equal(d.Names(), []string{"a", "c"}) {
		t.Errorf("Has or Names is wrong: Names returned %q", d.Names())
	}
	for _, c := range []struct {
		d    driver.Description
		want bool
	}{
		{driver.Description{}, true},
		{driver.Description{Transform: driver.BytesToBytes}, true},
		{driver.Description{Transform: driver.BytesToBytes, Preparation: true}, false},
		{driver.Description{Transform: driver.ArrayToArray}, false},
	} {
		if c.d.Compresses() != c.want {
			t.Errorf("%+v: want %v", c.d, c.want)
		}
	}
}
