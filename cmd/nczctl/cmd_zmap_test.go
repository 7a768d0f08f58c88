package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/dtype"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// largest is a writer that records its input and the length of the longest write.
type largest struct {
	bytes.Buffer
	most int
}

func (l *largest) Write(p []byte) (int, error) {
	l.most = max(l.most, len(p))
	return l.Buffer.Write(p)
}

// zmapped returns the output of zmap for a store with the given objects.
func zmapped(t *testing.T, objects map[string][]byte, z *zmapper) (*largest, error) {
	t.Helper()
	m := zmap.New(memmap.New(), nil)
	for key, body := range objects {
		if _, err := m.Put(t.Context(), key, zmap.Bytes(body), nil); err != nil {
			t.Fatal(err)
		}
	}
	out := &largest{}
	z.ctx, z.m, z.w, z.nc = t.Context(), m, bufio.NewWriter(out), dtype.NCUByte
	if z.room == 0 {
		z.room = 1 << 20
	}
	err := z.run()
	return out, err
}

// TestZmapInPieces checks that zmap formats a chunk in pieces, because the output is many
// times larger than the chunk.
func TestZmapInPieces(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte{0, 7, 255}, 100_000)
	out, err := zmapped(t, map[string][]byte{"v/0": body}, &zmapper{})
	if err != nil {
		t.Fatal(err)
	}
	want := "[1] /v/0 : (300000) (ubyte) |" + strings.TrimSuffix(strings.Repeat("0, 7, 255, ", 100_000), ", ") + "|\n"
	if out.String() != want {
		t.Errorf("want %d bytes, %.60q, got %d, %.60q", len(want), want, out.Len(), out.String())
	}
	if out.most > 64<<10 {
		t.Errorf("want writes of at most 64 KiB, got one of %d bytes", out.most)
	}
}

// TestZmapJSONInPieces checks that zmap --json prints objects one by one and that
// the output is one JSON value.
func TestZmapJSONInPieces(t *testing.T) {
	t.Parallel()
	objects := map[string][]byte{".zgroup": []byte(`{"<&>": 1}`)}
	for i := range 50 {
		objects[fmt.Sprintf("v/%02d", i)] = bytes.Repeat([]byte{byte(i)}, 9000)
	}
	out, err := zmapped(t, objects, &zmapper{json: true})
	if err != nil {
		t.Fatal(err)
	}
	var rows []zmapRow
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 51 || rows[0].Text != `{"<&>": 1}` || rows[50].Key != "/v/49" {
		t.Errorf("want 51 rows with the stored text and keys, got %d rows, %v", len(rows), err)
	}
	var again bytes.Buffer
	e := json.NewEncoder(&again)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(rows); err != nil || again.String() != out.String() {
		t.Errorf("output differs from json.Encoder: %.300s", out.String())
	}
	if most := 2 * base64.StdEncoding.EncodedLen(9000); out.most > most {
		t.Errorf("want writes of at most two objects, got one of %d bytes", out.most)
	}
	if out, err := zmapped(t, nil, &zmapper{json: true}); err != nil || out.String() != "[]\n" {
		t.Errorf("empty store: want an empty list, got %q, %v", out.String(), err)
	}
}

// TestZmapCeilings checks the limits of the size of an object and of the names that zmap
// keeps in memory.
func TestZmapCeilings(t *testing.T) {
	t.Parallel()
	objects := map[string][]byte{"aaaa/bbbb/cccc": make([]byte, 100)}
	for _, z := range []*zmapper{{maxSize: 99}, {room: 11}} {
		if _, err := zmapped(t, objects, z); ncerr.KindOf(err) != ncerr.ErrLimit {
			t.Errorf("maxSize %d: want ErrLimit, got %v", z.maxSize, err)
		}
	}
	if _, err := zmapped(t, objects, &zmapper{maxSize: 100, room: 12}); err != nil {
		t.Error(err)
	}
}

// TestDeepKeys checks that zmap and search fail for a key of very many segments. An
// archive of 100 KB can contain such a key, whose prefixes would take gigabytes.
func TestDeepKeys(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("a/", zmap.MaxDepth+2) + "x"
	if _, err := zmapped(t, map[string][]byte{deep: nil}, &zmapper{maxSize: 1}); ncerr.KindOf(err) != ncerr.ErrLimit || len(err.Error()) > 300 {
		t.Errorf("zmap: want ErrLimit with a short message, got %.400v", err)
	}
	m := zmap.New(memmap.New(), nil)
	if _, err := m.Put(t.Context(), deep, zmap.Bytes(nil), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := globSearch(t.Context(), m, "**/y", config.Default().Limits); ncerr.KindOf(err) != ncerr.ErrLimit || len(err.Error()) > 300 {
		t.Errorf("search: want ErrLimit with a short message, got %.400v", err)
	}
}
