package interop_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	drivers "github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// document is the canonical description of a dataset, which peers/canon.py defines. The
// other types are its parts.
type (
	document struct {
		Canonical int                  `json:"canonical"`
		Groups    map[string]*group    `json:"groups"`
		Variables map[string]*variable `json:"variables"`
	}
	group struct {
		Dims  map[string]dim  `json:"dims"`
		Attrs map[string]attr `json:"attrs"`
	}
	dim struct {
		Size      int64 `json:"size"`
		Unlimited bool  `json:"unlimited"`
	}
	attr struct {
		Type  string `json:"type"`
		Value any    `json:"value"`
	}
	variable struct {
		Type   any               `json:"type"`
		Shape  []int64           `json:"shape"`
		Dims   []string          `json:"dims"`
		Chunks []int64           `json:"chunks"`
		Fill   any               `json:"fill"`
		Attrs  map[string]attr   `json:"attrs"`
		SHA256 string            `json:"sha256,omitempty"`
		Also   string            `json:"also,omitempty"`
		Parts  map[string]string `json:"parts,omitempty"`
		Error  string            `json:"error,omitempty"`
	}
)

// unread is the prefix of the error of a variable that nczarr cannot read.
const unread = "nczarr refuses: "

// describe reads a dataset with the library and returns its canonical description. If
// typed is false, the store is pure Zarr: the description omits dimensions and states
// only the class of an attribute's type.
func describe(t *testing.T, url string, typed bool) *document {
	t.Helper()
	ds, err := open.Open(t.Context(), url, &dataset.Options{Registry: registry.New(drivers.New(), filters.Provider())})
	if err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	defer ds.Close(t.Context())
	doc := &document{1, map[string]*group{}, map[string]*variable{}}
	doc.add(t, ds.Root(), typed)
	for _, p := range ds.Problems() {
		doc.Variables[p.Path] = &variable{Error: unread + p.Err.Error()}
	}
	return doc
}

func (doc *document) add(t *testing.T, g *dataset.Group, typed bool) {
	t.Helper()
	out := &group{Attrs: attributes(g.Attrs(), typed)}
	if typed {
		out.Dims = map[string]dim{}
		for _, d := range g.Dims() {
			out.Dims[d.Name()] = dim{d.Len(), d.Unlimited()}
		}
	}
	doc.Groups[g.Path()] = out
	for _, v := range g.Vars() {
		doc.Variables[v.Path()] = describeVar(t, v, typed)
	}
	for _, sub := range g.Groups() {
		doc.add(t, sub, typed)
	}
}

func describeVar(t *testing.T, v *dataset.Var, typed bool) *variable {
	t.Helper()
	out := &variable{Type: v.Type().String(), Shape: v.Shape(), Dims: []string{}, Chunks: v.Chunks(), Attrs: attributes(v.Attrs(), typed)}
	for _, d := range v.Dims() {
		out.Dims = append(out.Dims, d.Name())
	}
	if fill, ok := v.Fill(); ok {
		if s, is := fill.(string); is {
			out.Fill = strings.TrimRight(s, "\x00")
		} else {
			out.Fill = scalars(fill)[0]
		}
	}
	n := int64(1)
	for _, size := range out.Shape {
		n *= size
	}
	values := v.NewSlice(n)
	if err := v.Read(t.Context(), v.All(), values); err != nil {
		out.Error = unread + err.Error()
		return out
	}
	out.SHA256 = digest(t, values)
	return out
}

func digest(t *testing.T, values any) string {
	t.Helper()
	h := sha256.New()
	if list, ok := values.([]string); ok {
		for _, s := range list {
			fmt.Fprintf(h, "%s\x00", strings.TrimRight(s, "\x00"))
		}
	} else if err := binary.Write(h, binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func attributes(list []dataset.Attr, typed bool) map[string]attr {
	out := map[string]attr{}
	for _, a := range list {
		if a.Name == "_ARRAY_DIMENSIONS" || a.Name == "_NCProperties" || strings.HasPrefix(strings.ToLower(a.Name), "_nczarr_") {
			continue
		}
		switch value := a.Value.(type) {
		case string:
			out[a.Name] = attr{"text", strings.TrimRight(value, "\x00")}
		case []string:
			out[a.Name] = attr{"strings", value}
			if len(value) == 1 {
				out[a.Name] = attr{"text", value[0]}
			}
		default:
			out[a.Name] = attr{typeName(a.Type, typed), scalars(value)}
		}
	}
	return out
}

func typeName(nc dtype.NC, typed bool) string {
	switch {
	case typed:
		return nc.String()
	case nc == dtype.NCFloat || nc == dtype.NCDouble:
		return "real"
	}
	return "integer"
}

// scalars returns numbers in canonical form.
func scalars(slice any) []any {
	if s, ok := slice.(string); ok {
		return []any{s}
	}
	out := []any{}
	rv := reflect.ValueOf(slice)
	for i := range rv.Len() {
		item := rv.Index(i)
		if !item.CanFloat() {
			out = append(out, item.Interface())
			continue
		}
		switch f := item.Float(); {
		case math.IsNaN(f):
			out = append(out, "NaN")
		case math.IsInf(f, 0):
			out = append(out, map[bool]string{true: "Infinity", false: "-Infinity"}[f > 0])
		default:
			out = append(out, f)
		}
	}
	return out
}
