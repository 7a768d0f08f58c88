// Package filtertest provides helpers for tests of the filters. It finds the corpora
// written by other implementations, reads NumPy files and opens codecs.
package filtertest

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/codec/driver"
	"github.com/seed-695719ce/nczarr/core/dtype"
)

// Corpora returns the folder of the corpora, or skips the test. The environment
// variable NCZARR_CORPORA sets the folder; the default is ../shared/corpora from the
// root of the module.
func Corpora(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("NCZARR_CORPORA")
	if dir == "" {
		root, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
				break
			}
			up := filepath.Dir(root)
			if up == root {
				t.Skip("the root of the module was not found")
			}
			root = up
		}
		dir = filepath.Join(root, "..", "shared", "corpora")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the corpora are missing; set NCZARR_CORPORA")
	}
	return dir
}

// Array is a NumPy array. Data is in the order in which a codec receives it.
type Array struct {
	Type  dtype.Type
	Shape []int
	Order driver.Order
	Data  []byte
}

// Spec returns the spec of the array as one chunk.
func (a Array) Spec() driver.Spec {
	return driver.Spec{DType: a.Type, Shape: a.Shape, Order: a.Order, MaxBytes: int64(len(a.Data))}
}

var npyHeader = regexp.MustCompile(`'descr': '([^']*)', 'fortran_order': (\w+), 'shape': \(([^)]*)\)`)

// ReadNPY reads a file in version 1 of NumPy's format.
func ReadNPY(t testing.TB, path string) Array {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	m := npyHeader.FindStringSubmatch(string(b[10:n]))
	if m == nil {
		t.Fatalf("%s: unknown header %q", path, b[10:n])
	}
	a := Array{Data: b[n:]}
	if a.Type, err = dtype.Parse(m[1]); err != nil {
		t.Fatal(err)
	}
	if m[2] == "True" {
		a.Order = driver.F
	}
	for _, s := range strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' || r == ' ' }) {
		k, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		a.Shape = append(a.Shape, k)
	}
	return a
}

// Open opens a codec.
func Open(t testing.TB, p driver.Provider, id, params string, in driver.Spec) (driver.Codec, driver.Spec) {
	t.Helper()
	c, out, err := p.Open(id, json.RawMessage(params), in)
	if err != nil {
		t.Fatalf("open %s %s: %v", id, params, err)
	}
	return c, out
}
