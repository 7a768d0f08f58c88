package filter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/filters/internal/filter"
)

func TestParams(t *testing.T) {
	t.Parallel()
	type got struct {
		n int
		f float64
		b bool
		s string
	}
	def := got{7, 1.5, true, "d"}
	desc := driver.Description{ID: "x", Params: []driver.Param{
		{Name: "n", Type: driver.IntParam, Min: 0, Max: 10, Default: "7"},
		{Name: "f", Type: driver.FloatParam, Default: "1.5"},
		{Name: "b", Type: driver.BoolParam, Default: "true"},
		{Name: "s", Type: driver.TextParam, Choices: []string{"d", "t", "tea"}, Default: "d"},
	}}
	cases := map[string]struct {
		params string
		want   got
		fault  string
	}{
		"nothing":            {"", def, ""},
		"empty":              {"{}", def, ""},
		"null":               {`{"n":null,"s":null}`, def, ""},
		"all":                {`{"id":"x","n":3,"f":2,"b":false,"s":"t"}`, got{3, 2, false, "t"}, ""},
		"numbers as strings": {`{"n":"3","f":" 2.5 ","b":"0"}`, got{3, 2.5, false, "d"}, ""},
		"whole float":        {`{"n":3.0}`, got{3, 1.5, true, "d"}, ""},
		"fraction":           {`{"n":3.5}`, got{}, `"n": 3.5 is not an integer`},
		"too large":          {`{"n":11}`, got{}, "not in the range 0 to 10"},
		"far too large":      {`{"n":1e300}`, got{}, "not in the range"},
		"word":               {`{"n":"much"}`, got{}, "not a number"},
		"infinite":           {`{"f":"inf"}`, got{}, "not a number"},
		"list":               {`{"n":[1]}`, got{}, "not a number"},
		"number as string":   {`{"s":3}`, got{}, "not a string"},
		"boolean of GDAL":    {`{"b":"NO"}`, got{7, 1.5, false, "d"}, ""},
		"not a boolean":      {`{"b":"perhaps"}`, got{}, "not true or false"},
		"unknown":            {`{"z":1,"a":2}`, got{}, `unknown parameter "a", "z"`},
		"far from known":     {`{"zzz":1}`, got{}, `unknown parameter "zzz"; parameters are n, f, b, s`},
		"nearly known":       {`{"nn":1}`, got{}, `unknown parameter "nn"; did you mean "n"?`},
		"no choice":          {`{"s":"te"}`, got{}, `"te" is not one of d, t, tea; did you mean "t`},
		"no object":          {`[1]`, got{}, "not a JSON object"},
	}
	for name, c := range cases {
		var v got
		s := filter.Single{Desc: desc, OpenAs: func(p *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) {
			v = got{p.Int("n"), p.Float("f"), p.Bool("b"), p.Text("s")}
			return nil, in, nil
		}}
		_, _, err := s.Open("x", json.RawMessage(c.params), driver.Spec{})
		switch {
		case c.fault == "" && (err != nil || v != c.want):
			t.Errorf("%s: want %+v, got %+v, %v", name, c.want, v, err)
		case c.fault != "" && (ncerr.KindOf(err) != ncerr.ErrInvalid || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: want ErrInvalid with %q, got %v", name, c.fault, err)
		}
	}
	desc.Params[0].Required, desc.Params[0].Default = true, ""
	s := filter.Single{Desc: desc, OpenAs: func(_ *filter.Params, in driver.Spec) (driver.Codec, driver.Spec, error) { return nil, in, nil }}
	if _, _, err := s.Open("x", nil, driver.Spec{}); ncerr.KindOf(err) != ncerr.ErrInvalid || !strings.Contains(err.Error(), `"n": a value is required`) {
		t.Errorf("a required parameter: want ErrInvalid, got %v", err)
	}
	if _, _, err := s.Open("", nil, driver.Spec{}); ncerr.KindOf(err) != ncerr.ErrNoFilter {
		t.Errorf("the empty id: want ErrNoFilter, got %v", err)
	}
}
