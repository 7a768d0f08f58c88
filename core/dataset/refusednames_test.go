package dataset_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// netcdf-c refuses an NCZarr dataset because of some names that other programs allow. Each of
// them causes one warning when it is defined, copied or migrated.
func TestNamesThatNetCDFRefuses(t *testing.T) {
	t.Parallel()
	const decomposed = "a\u0308"
	for name, want := range map[string]int{"-a": 3, "(a": 3, "~": 3, "+": 3, "[b]": 3, decomposed: 2, "a-(b)": 0, "_a": 0, "1": 0, "ä": 0} {
		var log bytes.Buffer
		o := memory()
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		warnings := func() int {
			defer log.Reset()
			return strings.Count(log.String(), "netcdf-c cannot open")
		}
		array := document("<i4", "null", "C", "null")
		store(t, o, "src", map[string]string{
			".zgroup": `{"zarr_format": 2}`, name + "/.zarray": array, "g/.zgroup": `{"zarr_format": 2}`, "g/" + name + "/.zgroup": `{"zarr_format": 2}`,
			"g/v/.zarray": array, "g/v/.zattrs": `{"_ARRAY_DIMENSIONS": ["` + name + `"]}`,
		})
		src := open(t, "mem:src#mode=zarr", o)
		for mode, want := range map[string]int{"nczarr": want, "zarr": 0, "nczarr,v3": 0} {
			copyOf(t, src, "mem:"+mode+"#mode="+mode, o, nil)
			if got := warnings(); got != want {
				t.Errorf("%q: want %d warnings about a copy with mode=%s, got %d", name, want, mode, got)
			}
		}
		if _, err := dataset.Migrate(t.Context(), locate("mem:src"), &dataset.MigrateOptions{Options: *o, Layout: zarr.LayoutNewest}); err != nil {
			t.Fatal(err)
		}
		if got := warnings(); got != want {
			t.Errorf("%q: want %d warnings about a migration, got %d", name, want, got)
		}
	}
}
