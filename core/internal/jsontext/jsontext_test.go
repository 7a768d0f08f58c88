package jsontext_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-695719ce/nczarr/core/internal/jsontext"
)

func TestCheckErrors(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"":                       "the document is empty",
		"  \n ":                  "line 2, column 2: the document is empty",
		"{":                      "expected a member name, found the end",
		`{"a"}`:                  "expected ':'",
		`{"a": }`:                "expected a value, found \"}\"",
		`{"a": 1,}`:              "expected a member name",
		`[1,]`:                   "expected a value",
		`[1 2]`:                  "expected ',' or ']'",
		`{"a": 1} x`:             "after the end",
		"{\n\"a\": \"\xff\"}":    "line 2, column 7: byte 0xff is not valid UTF-8",
		`"\x"`:                   "invalid escape",
		`"\u12"`:                 "invalid escape",
		`"abc`:                   "unterminated string",
		`"abc\`:                  "unterminated string",
		strings.Repeat("[", 100): "nested deeper than 64",
		strings.Repeat(`{"":`, 70) + "1" + strings.Repeat("}", 70): "nested deeper than 64",
	} {
		_, err := jsontext.Check(doc)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, got %v", doc, want, err)
		}
	}
}

func TestTolerance(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity], "c": 0x10}`: `{"a": "NaN", "b": ["Infinity","-Infinity"], "c": "0x10"}`,
		`[0.,.5,-.5,+1,01,1.e5]`:                            `[0.0,0.5,-0.5,1,1,1.0e5]`,
		"\ufeff[1]":                                         `[1]`,
		"[\"a\x01\tb\"]":                                    `["a\u0001\tb"]`,
		`["\ud83d\ude00 \u00e9 \/"]`:                        `["😀 é /"]`,
		`["\udcb0"]`:                                        `["\udcb0"]`,
		`["\ud800"]`:                                        `["` + "\ufffd" + `"]`,
		`{ "a" : { } , "b" : [ ] , "c":null }`:              `{"a": {}, "b": [], "c": null}`,
	} {
		v, err := jsontext.Check(doc)
		if err != nil {
			t.Errorf("%q: %v", doc, err)
			continue
		}
		w := jsontext.Writer{Style: jsontext.Spaced}
		w.Value(v)
		if got := string(w.Bytes()); got != want {
			t.Errorf("%q: want %s, got %s", doc, want, got)
		}
		if !json.Valid(w.Bytes()) {
			t.Errorf("%q: %s is not strict JSON", doc, w.Bytes())
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		kind    jsontext.Kind
		i       int64
		isInt   bool
		f       float64
		isFloat bool
	}{
		{"9223372036854775807", jsontext.Number, math.MaxInt64, true, 9223372036854775807, true},
		{"9223372036854775808", jsontext.Number, 0, false, 9223372036854775808, true},
		{"-9223372036854775808", jsontext.Number, math.MinInt64, true, -9223372036854775808, true},
		{"1e3", jsontext.Number, 0, false, 1000, true},
		{"1e999", jsontext.Number, 0, false, 0, false},
		{"-", jsontext.Word, 0, false, 0, false},
		{"1e", jsontext.Word, 0, false, 0, false},
		{".", jsontext.Word, 0, false, 0, false},
		{"Infinity", jsontext.Word, 0, false, math.Inf(1), true},
		{`"-Infinity"`, jsontext.String, 0, false, math.Inf(-1), true},
		{`"5"`, jsontext.String, 0, false, 0, false},
		{"true", jsontext.Bool, 0, false, 0, false},
		{"null", jsontext.Null, 0, false, 0, false},
	} {
		v := jsontext.Value(c.text)
		i, isInt := v.Int64()
		f, isFloat := v.Float(64)
		if v.Kind() != c.kind || isInt != c.isInt || isInt && i != c.i || isFloat != c.isFloat || isFloat && f != c.f {
			t.Errorf("%s: want %+v, got kind %d, int %d %v, float %v %v", c.text, c, v.Kind(), i, isInt, f, isFloat)
		}
	}
	if n, ok := jsontext.Value("18446744073709551615").Uint64(); !ok || n != math.MaxUint64 {
		t.Errorf("want the largest uint64, got %d, %v", n, ok)
	}
}

func TestGetLastWins(t *testing.T) {
	t.Parallel()
	v := jsontext.Value(`{"a": 1, "b": "}]\"", "\u0061": [2, {"a": 3}]}`)
	if got := string(v.Get("a")); got != `[2, {"a": 3}]` {
		t.Errorf("want the last value of a, got %s", got)
	}
	if got := v.Get("b").Text(); got != `}]"` {
		t.Errorf("want the text of b, got %s", got)
	}
	if v.Get("c") != "" || v.Get("a").Len() != 2 || string(v.Get("a").First()) != "2" {
		t.Error("Get, Len or First is wrong")
	}
}

// FuzzString checks that any bytes survive as a JSON string, and that the string is
// strict JSON.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "é", "\x00\x1f\x7f", "\xb0C", "\xed\xa0\x80", `"\`, "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := jsontext.AppendString(nil, s)
		if !json.Valid(b) || !utf8.Valid(b) {
			t.Fatalf("%q: %s is not strict JSON", s, b)
		}
		v, err := jsontext.Check(string(b))
		if err != nil || v.Text() != s {
			t.Fatalf("%q became %s and then %q, %v", s, b, v.Text(), err)
		}
	})
}

// tree returns v as encoding/json decodes it.
func tree(v jsontext.Value) any {
	switch v.Kind() {
	case jsontext.Null:
		return nil
	case jsontext.Bool:
		return string(v) == "true"
	case jsontext.Number:
		return json.Number(v)
	case jsontext.String:
		return v.Text()
	case jsontext.Array:
		list := []any{}
		_ = v.Elems(func(_ int, e jsontext.Value) error { list = append(list, tree(e)); return nil })
		return list
	case jsontext.Object:
		m := map[string]any{}
		_ = v.Each(func(k string, e jsontext.Value) error { m[k] = tree(e); return nil })
		return m
	}
	return "word " + string(v)
}

// FuzzJSON compares the package with encoding/json on valid JSON in valid UTF-8. For all
// other input it checks that nothing panics and that the output is strict JSON.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5e3, "x\n\u00e9", true, null], "a": {}}`, `[NaN]`, `{"a`, `[[[]]]`, "\ufeff{}", `[0.]`, "\"\\\"", `{"a":1 "b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		v, err := jsontext.Check(string(doc))
		_ = jsontext.Value(doc).Each(func(string, jsontext.Value) error { return nil })
		_ = jsontext.Value(doc).Elems(func(int, jsontext.Value) error { return nil })
		valid := json.Valid(doc) && utf8.Valid(doc)
		var d jsontext.Document
		if perr := d.Parse(doc); (perr == nil) != (err == nil) || err == nil && (d.Text != v || d.Strict != valid) {
			t.Fatalf("%q: Parse and Check differ: strict %v, error %v", doc, d.Strict, perr)
		}
		if err != nil {
			if valid && !strings.Contains(err.Error(), "nested deeper") {
				t.Fatalf("refused valid JSON: %v", err)
			}
			return
		}
		w := jsontext.Writer{Style: jsontext.Spaced}
		w.Value(v)
		if !json.Valid(w.Bytes()) {
			t.Fatalf("%q written as %q, which is not JSON", doc, w.Bytes())
		}
		if !valid || strings.Contains(strings.ToLower(string(doc)), `\ud`) {
			return // lone surrogates differ intentionally
		}
		dec := json.NewDecoder(strings.NewReader(string(doc)))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Skip(err)
		}
		if got := tree(v); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: want %#v, got %#v", doc, want, got)
		}
	})
}

// TestParse checks that Parse finds the same members as Each, in long documents too.
func TestParse(t *testing.T) {
	t.Parallel()
	var d jsontext.Document // reused for every document
	for _, n := range []int{0, 3, 23, 24, 25, 500, 3, 0} {
		var b strings.Builder
		b.WriteString(`{"a": 1`)
		for i := range n {
			fmt.Fprintf(&b, `, "k%d": {"a": [%d, "}"]}`, i%400, i)
		}
		b.WriteString(`, "\u0061": 2}`)
		err := d.Parse([]byte(b.String()))
		if err != nil || !d.Strict {
			t.Fatalf("%d members: want strict JSON, got error %v, strict %v", n, err, d.Strict)
		}
		if list := jsontext.Members(nil, d.Text); !slices.Equal(list, d.Members) || len(list) != min(n, 400)+1 {
			t.Errorf("%d members: want %v, got %v", n, list, d.Members)
		}
		if d.Members[0] != (jsontext.Member{Key: "a", Val: "2"}) || d.Get("k401") != "" || n == 500 && d.Get("k99") != `{"a": [499, "}"]}` {
			t.Errorf("%d members: want the last of two members with the same name", n)
		}
	}
}
