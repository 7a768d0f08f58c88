package interop_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrateStructures migrates arrays of structures from Zarr v2 to v3 and back.
// zarr-python must read the same values and fill values, and chunks must not change. An
// array that Zarr v3 cannot describe is refused with the reason.
func TestMigrateStructures(t *testing.T) {
	t.Parallel()
	need(t, packages["xarray"]...)
	path := filepath.Join(t.TempDir(), "x.zarr")
	want := must(t, "structs.py", "write", path)
	out, err := exec.CommandContext(t.Context(), nczctl, "--isolation=inproc", "--json", "migrate", "--dry-run", "--to", "zarr3", path).Output()
	var plan struct {
		Refused []struct{ Path, Reason string }
	}
	if jerr := json.Unmarshal(out, &plan); jerr != nil || err == nil || len(plan.Refused) != 1 {
		t.Fatalf("migrate: want 1 refusal, got %v: %s", err, out)
	}
	values := make(map[string]json.RawMessage)
	if err := json.Unmarshal(want, &values); err != nil {
		t.Fatal(err)
	}
	if r := plan.Refused[0]; r.Path != "/mixed" || !strings.Contains(r.Reason, "different byte orders") {
		t.Errorf("%s: want that the byte orders of /mixed differ, got %q", r.Path, r.Reason)
	}
	delete(values, "mixed")
	if err := os.RemoveAll(filepath.Join(path, "mixed")); err != nil {
		t.Fatal(err)
	}
	if want, err = json.Marshal(values); err != nil || len(values) != 5 {
		t.Fatalf("want 5 arrays, got %d, %v", len(values), err)
	}
	chunks := files(t, path, false)
	for _, to := range []string{"zarr3", "zarr2"} {
		ctl(t, "migrate", "--to", to, path)
		var got bytes.Buffer
		if err := json.Compact(&got, must(t, "structs.py", "read", path)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.ReplaceAll(want, []byte(" "), nil), bytes.ReplaceAll(got.Bytes(), []byte(" "), nil)) {
			t.Errorf("to %s: want\n%s\ngot\n%s", to, want, got.Bytes())
		}
		if !maps.Equal(chunks, files(t, path, false)) {
			t.Errorf("to %s: chunks have changed", to)
		}
	}
}
