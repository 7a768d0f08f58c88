package corpora_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/open"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
	filters "github.com/seed-695719ce/nczarr/filters/builtin"
)

// TestKerchunk opens reference files that kerchunk wrote, and compares the keys, documents and
// inline chunks of the store with those in the JSON of the file. The files that the references
// refer to are elsewhere.
func TestKerchunk(t *testing.T) {
	t.Parallel()
	root := filepath.Join(corpora(t), "kerchunk")
	files, err := filepath.Glob(filepath.Join(root, "xarray-data", "*.json"))
	if err != nil || len(files) == 0 {
		t.Skipf("corpus %s is missing: set NCZARR_CORPORA", root)
	}
	for _, name := range append(files, filepath.Join(root, "mur_sst.json")) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Refs map[string]any `json:"refs"`
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			m, err := open.Store(t.Context(), name, &dataset.Options{Registry: registry.New(builtin.New(), filters.Provider())})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(t.Context())
			keys := map[string]bool{}
			for e, err := range m.List(t.Context(), "", &zmap.ListOptions{Recursive: true}) {
				if err != nil {
					t.Fatal(err)
				}
				keys[e.Key] = true
				if part, ok := want.Refs[e.Key].([]any); ok && float64(e.Info.Size) != part[2] {
					t.Errorf("%s: want %v, got %d bytes", e.Key, part, e.Info.Size)
				}
			}
			for key, value := range want.Refs {
				if !keys[key] {
					t.Errorf("%s is not listed", key)
				}
				delete(keys, key)
				body, _, err := m.ReadAll(t.Context(), key, 0)
				inline, ok := value.(string)
				if encoded, binary := strings.CutPrefix(inline, "base64:"); binary {
					data, err := base64.StdEncoding.DecodeString(encoded)
					if err != nil {
						t.Fatal(err)
					}
					inline = string(data)
				}
				switch {
				case ok && (err != nil || string(body) != inline):
					t.Errorf("%s: want %q, got %q, %v", key, inline, body, err)
				case !ok && !slices.Contains([]ncerr.Kind{ncerr.ErrPermission, ncerr.ErrNoObject}, ncerr.KindOf(err)):
					t.Errorf("%s: want an error about another file, got %v", key, err)
				}
			}
			if len(keys) > 0 {
				t.Errorf("these keys are not in the file: %v", keys)
			}
		})
	}
}
