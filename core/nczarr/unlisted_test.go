package nczarr_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/nczarr"
)

// Nodes that NCZarr's lists do not name are told: by Unlisted where listings are
// cheap, and as a warning where consolidated metadata has them.
func TestUnlisted(t *testing.T) {
	t.Parallel()
	const zgroup = `{"zarr_format": 2}`
	list := func(arrays, more string) string {
		return `{"_nczarr_group": {"dimensions": {}, "arrays": [` + arrays + `], "groups": ["g"]}` + more + `}`
	}
	objects := map[string]string{
		".zgroup": zgroup, ".zattrs": list(`"x"`, `, "_nczarr_superblock": {"version": "2.0.0"}`),
		"x/.zarray": byteDoc,
		"g/.zgroup": zgroup, "g/.zattrs": strings.Replace(list("", ""), `["g"]`, "[]", 1),
		"extra/.zarray": byteDoc, "g/.more/.zgroup": zgroup,
		"notes/a": "no node", ".git/HEAD": "no node", ".nczgrowing/a1": "no node",
	}
	want := []string{"/extra", "/g/.more"}
	o := inMemory()
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	store(t, o, "single", objects)
	got, err := open(t, "mem:single", o).Unlisted(t.Context())
	if err != nil || !slices.Equal(got, want) || strings.Contains(log.String(), "/extra") {
		t.Errorf("want %q and no warning, got %q, %v, %s", want, got, err, &log)
	}
	store(t, o, "all", consolidatedAll(objects))
	got, err = open(t, "mem:all", far(o)).Unlisted(t.Context())
	if err != nil || len(got) > 0 || strings.Count(log.String(), `path=/extra nodes=2`) != 1 {
		t.Errorf("want one warning, got %q, %v, %s", got, err, &log)
	}
	store(t, o, "pure", map[string]string{".zgroup": zgroup, "x/.zarray": byteDoc})
	if got, err := open(t, "mem:pure", o).Unlisted(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("pure Zarr: got %q, %v", got, err)
	}
	var made *nczarr.Dataset
	if made, err = nczarr.Create(t.Context(), "mem:new", &nczarr.CreateOptions{Options: *o}); err != nil {
		t.Fatal(err)
	}
	if got, err := made.Unlisted(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("a new dataset: got %q, %v", got, err)
	}
}
