package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/registry"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/http"
)

// optionRecorder is a driver that records the options with which it was opened.
type optionRecorder struct{ options []byte }

func (*optionRecorder) Describe() driver.Description { return http.New().Describe() }

func (a *optionRecorder) Open(_ context.Context, spec driver.OpenSpec) (driver.Map, error) {
	a.options = spec.Options
	return nil, errors.New("the options were recorded")
}

func (*optionRecorder) Remove(context.Context, driver.OpenSpec) error { return nil }

// TestLoginIsWhole checks that parts of a login in the configuration and of one in the
// rc files are never mixed. Otherwise a password could be sent to the wrong server.
func TestLoginIsWhole(t *testing.T) {
	t.Parallel()
	rc := []ncurl.RCEntry{{Host: "https://data.example", Key: "HTTP.CREDENTIALS.USERNAME", Value: "rc"}}
	for _, c := range []struct{ url, configured, user, password, origin string }{
		{"https://data.example/x", ``, "rc", "", "https://data.example"},
		{"https://data.example/x", `{"user":"c","password":"p","origin":"https://other.example"}`, "rc", "", "https://data.example"},
		{"https://data.example/x", `{"password":"p"}`, "rc", "", "https://data.example"},
		{"https://data.example/x", `{"user":"c","password":"p","origin":"https://data.example"}`, "c", "p", "https://data.example"},
		{"https://third.example/x", `{"user":"c","password":"p","origin":"https://other.example"}`, "c", "p", "https://other.example"},
	} {
		a := &optionRecorder{}
		o := &dataset.Options{Registry: registry.New([]driver.Opener{a}), URLEnv: &ncurl.Env{RC: rc}}
		o.DriverOptions = map[string][]byte{"http": []byte(c.configured)}
		if _, err := openURL(t.Context(), c.url, o); err == nil {
			t.Fatal("Open succeeded with a driver that fails")
		}
		var got struct{ User, Password, Origin string }
		if err := json.Unmarshal(a.options, &got); err != nil || got.User != c.user || got.Password != c.password || got.Origin != c.origin {
			t.Errorf("%s with %s: unexpected login %s, %v", c.url, c.configured, a.options, err)
		}
	}
}
