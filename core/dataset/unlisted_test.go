package dataset_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Nodes that are not in NCZarr's lists are reported by Unlisted if listings are cheap,
// and by a warning if consolidated metadata contains them.
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
	got, err = open(t, "mem:all", remoteOptions(o)).Unlisted(t.Context())
	if err != nil || len(got) > 0 || strings.Count(log.String(), `path=/extra nodes=2`) != 1 {
		t.Errorf("want one warning, got %q, %v, %s", got, err, &log)
	}
	store(t, o, "pure", map[string]string{".zgroup": zgroup, "x/.zarray": byteDoc})
	if got, err := open(t, "mem:pure", o).Unlisted(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("pure Zarr: want no paths, got %q, %v", got, err)
	}
	var made *dataset.Dataset
	if made, err = createURL(t.Context(), "mem:new", &dataset.CreateOptions{Options: *o}); err != nil {
		t.Fatal(err)
	}
	if got, err := made.Unlisted(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("a new dataset: want no paths, got %q, %v", got, err)
	}
}

// If other software has added a node that is not in NCZarr's lists to consolidated
// metadata, rewriting the metadata preserves the node as it is in the store, as long as
// it exists.
func TestUnlistedStaysConsolidated(t *testing.T) {
	t.Parallel()
	o := memory()
	base(t, "mem:kept", o)
	ds := update(t, "mem:kept", o)
	if err := ds.Consolidate(); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	ds = update(t, "mem:kept", o)
	own := stored(t, ds, ".zmetadata")
	const more = `"metadata":{"added/.zarray":{"old":1},"added/.zattrs":{"a":1},"gone/.zarray":{},`
	for key, body := range map[string]string{
		".zmetadata": strings.Replace(own, `"metadata":{`, more, 1), "added/.zarray": byteDoc, "added/.zattrs": `{"a":2}`,
	} {
		put(t, o, "kept", key, body)
	}
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	verify := *o
	verify.UseConsolidated = dataset.ConsolidatedVerify
	if got, want := open(t, "mem:kept", &verify).StaleDocuments(), []string{"added/.zarray", "added/.zattrs", "gone/.zarray"}; !slices.Equal(got, want) {
		t.Errorf("stale: want %q, got %q", want, got)
	}
	ds = update(t, "mem:kept", o)
	setText(t, ds.Root().SetAttr, "new", "x")
	closeDataset(t, ds)
	ds = open(t, "mem:kept", &verify)
	if got := ds.StaleDocuments(); len(got) > 0 {
		t.Errorf("want no stale documents, got %q", got)
	}
	got := stored(t, ds, ".zmetadata")
	for want, there := range map[string]bool{`"added/.zarray":{"zarr_format":2`: true, `"added/.zattrs":{"a":2}`: true, "gone": false, `"new":"x"`: true} {
		if strings.Contains(got, want) != there {
			t.Errorf("%s: want %t in %s", want, there, got)
		}
	}
}

// Rewriting consolidated metadata with more nodes than the limits allow fails before
// any of them is requested.
func TestUnlistedIsLimited(t *testing.T) {
	t.Parallel()
	o := memory()
	base(t, "mem:limited", o)
	ds := update(t, "mem:limited", o)
	if err := ds.Consolidate(); err != nil {
		t.Fatal(err)
	}
	closeDataset(t, ds)
	ds = update(t, "mem:limited", o)
	own := stored(t, ds, ".zmetadata")
	if err := ds.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, o, "limited", ".zmetadata", strings.Replace(own, `"metadata":{`, `"metadata":{"a/.zarray":{},"b/.zarray":{},"c/.zarray":{},"d/.zarray":{},`, 1))
	put(t, o, "limited", "a/.zarray", byteDoc)
	put(t, o, "limited", "b/.zarray", strings.Repeat(" ", 10_000)+byteDoc)
	for name, limit := range map[string]func(*dataset.Limits){
		"nodes":     func(l *dataset.Limits) { l.MaxNodes = 3 },
		"documents": func(l *dataset.Limits) { l.MaxDocuments = 10_000 },
	} {
		low := *o
		limit(&low.Limits)
		ds := update(t, "mem:limited", &low)
		setText(t, ds.Root().SetAttr, "new", "x")
		if err := ds.Close(t.Context()); ncerr.KindOf(err) != ncerr.ErrLimit || !strings.Contains(err.Error(), "are not in") {
			t.Errorf("%s: want ErrLimit, got %v", name, err)
		}
	}
}
