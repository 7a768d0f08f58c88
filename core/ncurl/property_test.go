package ncurl_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed/rapidseed"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"pgregory.net/rapid"
)

var bases = []string{"file:///d/x", "file:d/x.zip", "s3://b/k", "gs3://b/k", "https://h.example/b/k", "mem:m"}

// closure is a second, slower implementation of the mode rules. It computes the
// meaning of a set of modes independently of their order.
func closure(modes []string) map[string]bool {
	set := map[string]bool{}
	for _, m := range modes {
		set[m] = true
	}
	if set["xarray"] || set["noxarray"] || set["v3"] && !set["nczarr"] {
		set["zarr"] = true
	}
	if set["zarr"] {
		set["nczarr"] = true
	}
	if set["bytes"] {
		delete(set, "zarr")
		delete(set, "nczarr")
	}
	if set["noxarray"] {
		delete(set, "xarray")
	}
	return set
}

// TestModeOrder checks that the meaning of modes does not depend on their order,
// their case, their repetition, or their distribution over mode= keys and prefix
// parameters.
func TestModeOrder(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom(bases).Draw(t, "base")
		modes := rapid.SliceOfNDistinct(rapid.SampledFrom(ncurl.Modes()), 0, 5, rapid.ID[string]).Draw(t, "modes")
		first, err1 := ncurl.Parse(base+"#mode="+strings.Join(modes, ","), nil)
		second, err2 := ncurl.Parse(shuffled(t, base, modes), nil)
		if (err1 == nil) != (err2 == nil) || ncerr.KindOf(err1) != ncerr.KindOf(err2) {
			t.Fatalf("the error depends on the order: %v, %v", err1, err2)
		}
		if err1 != nil {
			return
		}
		sameMeaning(t, first, second)
		set := closure(modes)
		for m := range set {
			if !slices.Contains(first.Mode, m) {
				t.Fatalf("mode %s is missing from %v", m, first.Mode)
			}
		}
		for _, m := range first.Mode {
			storage := slices.Contains([]string{"file", "zip", "s3", "gs3"}, m)
			if !set[m] && !storage {
				t.Fatalf("mode %s in %v is not implied", m, first.Mode)
			}
		}
	})
}

// shuffled returns a location with modes in another order, case and distribution,
// some of them twice.
func shuffled(t *rapid.T, base string, modes []string) string {
	order := rapid.Permutation(modes).Draw(t, "order")
	var prefix, frag []string
	for _, m := range order {
		if rapid.Bool().Draw(t, "upper") {
			m = strings.ToUpper(m)
		}
		where := rapid.IntRange(0, 2).Draw(t, "where")
		if where == 0 {
			prefix = append(prefix, "[mode="+m+"]")
		} else {
			frag = append(frag, "mode="+m)
		}
		if where == 2 {
			frag = append(frag, "Mode="+m)
		}
	}
	return strings.Join(prefix, "") + base + "#" + strings.Join(append(frag, "mode="), "&")
}

func sameMeaning(t *rapid.T, a, b *ncurl.Location) {
	x, y := *a, *b
	for _, l := range []*ncurl.Location{&x, &y} {
		l.Mode = slices.Sorted(slices.Values(l.Mode))
		l.Fragment = slices.SortedFunc(slices.Values(l.Fragment), func(p, q ncurl.Param) int {
			return strings.Compare(p.Key, q.Key)
		})
		l.Display = ""
	}
	if !x.Equal(&y) {
		t.Fatalf("the locations differ:\n%+v\n%+v", x, y)
	}
}

// TestKeyOrder checks that the order of different fragment keys does not matter.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	items := []string{
		"mode=nczarr", "log=f", "show=fetch", "aws.region=eu-west-1", "aws.profile=p", "zarr", "unknown=1",
		"dimension_separator=/", "mode=consolidated", "noxarray", "aws.endpoint=http://e.example:1",
	}
	rapidseed.Check(t, func(t *rapid.T) {
		chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(items), 1, len(items), rapid.ID[string]).Draw(t, "items")
		other := rapid.Permutation(chosen).Draw(t, "other")
		a, err1 := ncurl.Parse("s3://b/k#"+strings.Join(chosen, "&"), nil)
		b, err2 := ncurl.Parse("s3://b/k#"+strings.Join(other, "&"), nil)
		if err1 != nil || err2 != nil {
			t.Fatalf("unexpected errors %v, %v", err1, err2)
		}
		sameMeaning(t, a, b)
	})
}

// TestAnyName checks that the canonical form of any plain path parses as an equal
// Location.
func TestAnyName(t *testing.T) {
	t.Parallel()
	rapidseed.Check(t, func(t *rapid.T) {
		name := "/d/" + strings.Trim(rapid.StringMatching(`[ -~é日\n]{1,20}`).Draw(t, "name"), "/") + "x"
		l, err := ncurl.Parse(name, nil)
		if err != nil {
			if strings.Contains(name, "#") { // the name may end in a fragment with an unknown mode
				return
			}
			t.Fatal(err)
		}
		again, err := ncurl.Parse(l.String(), nil)
		if err != nil || !l.Equal(again) {
			t.Fatalf("%q: %s parses as %+v, %v", name, l, again, err)
		}
	})
}
