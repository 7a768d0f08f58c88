package ncurl_test

import (
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
)

// TestDriverKey checks that the fragment key "driver" selects the driver, and that Parse
// rejects a driver that conflicts with the scheme or the mode.
func TestDriverKey(t *testing.T) {
	t.Parallel()
	env := &ncurl.Env{Cwd: "/w", Probe: func(string) ncurl.PathKind { return ncurl.OtherFile }}
	for text, want := range map[string]string{
		"a/b.one#driver=onefile":                   "onefile",
		"file:///d/x#mode=zarr&driver=tape-2":      "tape-2",
		"x.zip#driver=zip":                         "zip",
		"file:///d/x#mode=nczarr,file&driver=file": "file",
	} {
		loc, err := ncurl.Parse(text, env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if loc.Driver != want {
			t.Errorf("%s: want driver %s, got %s", text, want, loc.Driver)
		}
		again, err := ncurl.Parse(loc.String(), env)
		if err != nil || !again.Equal(loc) {
			t.Errorf("%s: %s parses as another location: %v", text, loc, err)
		}
	}
	for _, text := range []string{"x#driver=../evil", "s3://b/k#mode=zarr&driver=tape", "mem:a#driver=tape", "x#mode=zip&driver=tape", "x#driver=s3", "x#mode=bytes&driver=tape"} {
		if _, err := ncurl.Parse(text, env); !errors.Is(err, ncerr.ErrBadURL) {
			t.Errorf("%s: want ErrBadURL, got %v", text, err)
		}
	}
}
