package nczarr_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/nczarr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// v3Array is the zarr.json of an array of six bytes in chunks of two.
func v3Array(members string) string {
	text := `{"zarr_format": 3, "node_type": "array", "shape": [6], "fill_value": 9, "chunk_key_encoding": {"name": "default"}`
	for _, m := range []string{`"data_type": "uint8"`, `"codecs": [{"name": "bytes"}]`, `"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}`} {
		if name, _, _ := strings.Cut(m, ":"); !strings.Contains(members, name+":") {
			text += ", " + m
		}
	}
	if members != "" {
		text += ", " + members
	}
	return text + "}"
}

const v3Group = `{"zarr_format": 3, "node_type": "group", "attributes": {"title": "t"}}`

// v3Shard is a shard of raw chunks of two bytes, "" if there is none.
func v3Shard(chunks ...string) string {
	var index []byte
	at := uint64(0)
	for _, c := range chunks {
		from, n := at, uint64(len(c))
		if c == "" {
			from, n = 1<<64-1, 1<<64-1
		}
		index = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(index, from), n)
		at += uint64(len(c))
	}
	index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(index, crc32.MakeTable(crc32.Castagnoli)))
	return strings.Join(chunks, "") + string(index)
}

func v3Objects() map[string]string {
	return map[string]string{
		"zarr.json":     v3Group,
		"a/zarr.json":   v3Array(`"dimension_names": ["x"], "attributes": {"units": "m"}`),
		"a/c/0":         "\x01\x02",
		"a/c/2":         "\x05\x06",
		"g/b/zarr.json": v3Array(`"dimension_names": [null], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]`),
		"g/b/c/0":       v3Shard("\x01\x02", "\x03\x04"),
		"g/b/c/1":       v3Shard("", "\x07\x08"),
	}
}

func readBytes(t *testing.T, v *nczarr.Var) string {
	t.Helper()
	got, err := nczarr.Get[uint8](t.Context(), v, v.All())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d", got)
}

func TestV3(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "s", v3Objects())
	for _, url := range []string{"mem:s", "mem:s#mode=zarr", "mem:s#mode=nczarr"} {
		ds := open(t, url, o)
		if got := ds.Layout().String(); got != "Zarr v3" || len(ds.Problems()) > 0 {
			t.Errorf("%s: %s, problems %v", url, got, ds.Problems())
		}
		a, b := variable(t, ds, "a"), variable(t, ds, "g/b")
		if got := readBytes(t, a) + readBytes(t, b); got != "[1 2 9 9 5 6][1 2 3 4 9 9]" {
			t.Errorf("%s: got %s", url, got)
		}
		if x := a.Dims()[0]; x.Name() != "x" || x.Anonymous() || attr(t, a.Attrs(), "units") != "m" || attr(t, ds.Root().Attrs(), "title") != "t" {
			t.Errorf("%s: got %q, %v, %v", url, x.Name(), a.Attrs(), ds.Root().Attrs())
		}
		if !b.Dims()[0].Anonymous() {
			t.Errorf("%s: got %q", url, b.Dims()[0].Name())
		}
		s, err := b.Stored(t.Context())
		if err != nil || s.Chunks != 2 || s.Bytes != 4 {
			t.Errorf("%s: stored %+v, %v", url, s, err)
		}
	}
}

// TestV3IsNotWritten: a dataset of Zarr v3 is refused where it would be changed, and
// nothing of it changes.
func TestV3IsNotWritten(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "s", v3Objects())
	u := *o
	u.Update = true
	if _, err := nczarr.Open(t.Context(), "mem:s", &u); !errors.Is(err, ncerr.ErrUnsupported) || !strings.Contains(err.Error(), "Zarr v3 is not written") {
		t.Errorf("got %v", err)
	}
	ds := open(t, "mem:s", o)
	if err := ds.Consolidate(); !errors.Is(err, ncerr.ErrReadOnly) {
		t.Errorf("consolidate: got %v", err)
	}
}

// TestV3Problems: what is not understood is a problem of its node only.
func TestV3Problems(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	maps.Copy(objects, map[string]string{
		"wide/zarr.json":   v3Array(`"data_type": "int128"`),
		"vast/zarr.json":   strings.Replace(v3Array(`"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [8388608]}}, "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": ["bytes"], "index_codecs": ["bytes", "crc32c"]}}]`), "[6]", "[8388608]", 1),
		"must/zarr.json":   v3Array(`"novelty": {"name": "x"}`),
		"old/.zarray":      byteDoc,
		"group/zarr.json":  `{"zarr_format": 3, "node_type": "group", "storage": {}}`,
		"broken/zarr.json": "{",
	})
	store(t, o, "s", objects)
	ds := open(t, "mem:s", o)
	var paths []string
	for _, p := range ds.Problems() {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	if want := []string{"/broken", "/group", "/must", "/old", "/vast", "/wide"}; !slices.Equal(paths, want) {
		t.Errorf("want %q, got %v", want, ds.Problems())
	}
	if got := readBytes(t, variable(t, ds, "a")); got != "[1 2 9 9 5 6]" {
		t.Errorf("got %s", got)
	}
}

func TestV3Consolidated(t *testing.T) {
	t.Parallel()
	o := memory()
	objects := v3Objects()
	a := objects["a/zarr.json"]
	inline := func(a string) string {
		return strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {"a": ` + a + `, "g": ` + strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}}, "g/b": ` + objects["g/b/zarr.json"] + `}}}`
	}
	objects["zarr.json"] = inline(a)
	objects["g/zarr.json"] = v3Group
	store(t, o, "same", objects)
	objects["zarr.json"] = inline(strings.Replace(a, `"m"`, `"km"`, 1))
	store(t, o, "stale", objects)
	delete(objects, "a/zarr.json")
	store(t, o, "only", objects)
	for _, c := range []struct {
		name  string
		use   nczarr.ConsolidatedUse
		units string
		stale string
	}{
		{"same", nczarr.ConsolidatedTrust, "m", "[]"},
		{"same", nczarr.ConsolidatedVerify, "m", "[]"},
		{"stale", nczarr.ConsolidatedTrust, "km", "[]"},
		{"stale", nczarr.ConsolidatedVerify, "m", "[a/zarr.json]"},
		{"stale", nczarr.ConsolidatedIgnore, "m", "[]"},
		{"only", nczarr.ConsolidatedTrust, "km", "[]"},
	} {
		with := *o
		with.UseConsolidated = c.use
		ds := open(t, "mem:"+c.name, &with)
		v := variable(t, ds, "a")
		if has, err := ds.HasConsolidated(t.Context()); attr(t, v.Attrs(), "units") != c.units || fmt.Sprint(ds.StaleDocuments()) != c.stale || !has || err != nil {
			t.Errorf("%s, %d: units %v, stale %v, %v", c.name, c.use, attr(t, v.Attrs(), "units"), ds.StaleDocuments(), err)
		}
		if got := readBytes(t, v); got != "[1 2 9 9 5 6]" {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
	objects["zarr.json"] = strings.TrimSuffix(v3Group, "}") + `, "consolidated_metadata": 1}`
	store(t, o, "damaged", objects)
	with := *o
	with.UseConsolidated = nczarr.ConsolidatedTrust
	if _, err := nczarr.Open(t.Context(), "mem:damaged", &with); !errors.Is(err, ncerr.ErrConsolidated) {
		t.Errorf("got %v", err)
	}
}

// TestV3ShardReplaced: a shard that is written anew while a dataset is open is read
// with its new index, never with the old one.
func TestV3ShardReplaced(t *testing.T) {
	t.Parallel()
	o := memory()
	store(t, o, "s", v3Objects())
	b := variable(t, open(t, "mem:s", o), "g/b")
	if got := readBytes(t, b); got != "[1 2 3 4 9 9]" {
		t.Errorf("got %s", got)
	}
	opener, err := o.Registry.Driver("mem")
	if err != nil {
		t.Fatal(err)
	}
	m, err := opener.Open(t.Context(), driver.OpenSpec{Path: "s", Mode: driver.Update})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	if _, err := m.Put(t.Context(), "g/b/c/0", driver.Bytes(v3Shard("", "\x0b\x0c")), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := readBytes(t, b); got != "[9 9 11 12 9 9]" {
		t.Errorf("got %s", got)
	}
	if err := m.Delete(t.Context(), "g/b/c/0", nil); err != nil {
		t.Fatal(err)
	}
	if got := readBytes(t, b); got != "[9 9 9 9 9 9]" {
		t.Errorf("a deleted shard: got %s", got)
	}
	if _, err := m.Put(t.Context(), "g/b/c/0", driver.Bytes("short"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := nczarr.Get[uint8](t.Context(), b, b.All()); !errors.Is(err, ncerr.ErrCorrupt) || !strings.Contains(err.Error(), "/g/b/c/0") {
		t.Errorf("got %v", err)
	}
}
