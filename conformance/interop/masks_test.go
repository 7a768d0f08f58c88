package interop_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoded returns what xarray shows of each array of masks.py, as JSON text.
func decoded(t *testing.T, path string) map[string]string {
	t.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal(must(t, "masks.py", "read", path), &out); err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for name, v := range out {
		texts[name] = string(v)
	}
	return texts
}

// TestMasks checks that xarray shows the same values and the same missing values, with its
// default decoding, after copies and migrations between all layouts and after the way back.
// docs/reference/compatibility.md names the exceptions: Zarr v2 cannot have a fill value that
// is not a mask, xarray refuses _FillValue of text in Zarr v3, and text in Zarr v2.
func TestMasks(t *testing.T) {
	t.Parallel()
	need(t, packages["xarray"]...)
	// The arrays that differ in copies to Zarr v2 and v3.
	masked := regexp.MustCompile(`^([iuf]\d|packed|scaled|time|unsigned|bool|bytes|text|string)_(5|True|abcd)$`)
	// The fill value of text of bytes is plain text in NCZarr, which zarr-python reads as base64, and null if it is empty in pure Zarr.
	text := regexp.MustCompile(`^(bytes|text|string)_(empty|abcd)$`)
	type step struct {
		migrates bool
		to       string
	}
	for version, layouts := range map[string][]string{"2": {"pure", "newest", "v3", "nczarr3"}, "3": {"v3", "nczarr3", "pure", "newest"}} {
		source := filepath.Join(t.TempDir(), "source"+version)
		must(t, "masks.py", "write", version, source)
		want := decoded(t, source)
		if len(want) < 50 {
			t.Fatalf("only %d arrays", len(want))
		}
		var steps []step
		for _, to := range layouts {
			steps = append(steps, step{false, to})
		}
		other := map[string]string{"2": "v3", "3": "pure"}[version]
		if version == "2" { // the chunk keys of the source have no form in Zarr v2
			steps = append(steps, step{true, other})
		}
		for _, s := range steps {
			t.Run(version+" to "+s.to+map[bool]string{true: " by migration"}[s.migrates], func(t *testing.T) {
				t.Parallel()
				there, back := filepath.Join(t.TempDir(), "there"), filepath.Join(t.TempDir(), "back")
				differs := func(to string) *regexp.Regexp {
					switch v3 := strings.HasSuffix(to, "3"); {
					case version == "2":
						return text
					case version == "3" && !v3:
						return masked
					}
					return nil
				}
				check := func(path string, known ...*regexp.Regexp) {
					got := decoded(t, path)
					for _, name := range slices.Sorted(maps.Keys(want)) {
						same := got[name] == want[name]
						allowed := slices.ContainsFunc(known, func(r *regexp.Regexp) bool { return r != nil && r.MatchString(name) })
						if !same && !allowed {
							t.Errorf("%s: want %s, got %s", name, want[name], got[name])
						}
					}
				}
				if s.migrates {
					ctl(t, "copy", source, there+"#mode=zarr")
					ctl(t, "migrate", "--to", s.to, there)
				} else {
					ctl(t, "copy", "--layout", s.to, source, there)
				}
				check(there, differs(s.to))
				from := map[string]string{"2": "pure", "3": "v3"}[version]
				ctl(t, "copy", "--layout", from, there, back)
				check(back, differs(s.to), differs(from))
				if !s.migrates && s.to != other { // through an archive with consolidated metadata
					return
				}
				ctl(t, "consolidate", there)
				ctl(t, "copy", "--layout", from, there, back+".zip")
				check(back+".zip", differs(s.to), differs(from))
			})
		}
	}
}
