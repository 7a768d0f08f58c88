package teststore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/conformance/teststore"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

type tests func() int

func (f tests) Run() int { return f() }

// checkStores puts an object into a store of one opener and checks that another opener does
// not have it.
func checkStores(t *testing.T, latency driver.Latency) int {
	t.Helper()
	mine, other := teststore.New(), teststore.New()
	if name := mine.Describe().Name; name != "mem" {
		t.Errorf("the driver is named %q", name)
	}
	for _, path := range []string{"a", "a/b", "TestX/a b#1"} {
		m, err := mine.Open(t.Context(), driver.OpenSpec{Path: path, Mode: driver.Create})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Capabilities().Latency; got != latency {
			t.Errorf("latency: want %v, got %v", latency, got)
		}
		if _, err := m.Put(t.Context(), "k", driver.Bytes(path), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for e, err := range m.List(t.Context(), "", &driver.ListOptions{Recursive: true}) {
			keys = append(keys, e.Key)
			if err != nil {
				t.Error(err)
			}
		}
		if len(keys) != 1 {
			t.Errorf("%s has %q", path, keys)
		}
		o, err := other.Open(t.Context(), driver.OpenSpec{Path: path, Mode: driver.Read})
		if err == nil {
			_, err = o.Stat(t.Context(), "k")
		}
		if !errors.Is(err, ncerr.ErrNotFound) && !errors.Is(err, ncerr.ErrNoDataset) {
			t.Errorf("two openers share a store: %v", err)
		}
		if err := mine.Remove(t.Context(), driver.OpenSpec{Path: path}); err != nil {
			t.Error(err)
		}
	}
	return 7
}

func TestRun(t *testing.T) {
	for _, pair := range append(s3server.Start(t).Env(), "NCZARR_TEST_STORE_BUCKET=") { // Setenv restores them after the test
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	for store, want := range map[string]int{"": 7, "mem": 7, "disk": 2} {
		t.Setenv("NCZARR_TEST_STORE", store)
		if got := teststore.Run(tests(func() int { return checkStores(t, driver.Local) })); got != want {
			t.Errorf("%q: want exit code %d, got %d", store, want, got)
		}
	}
	t.Setenv("NCZARR_TEST_STORE", "s3")
	if got := teststore.Run(tests(func() int { return checkStores(t, driver.Remote) })); got != 7 {
		t.Errorf("s3: exit code %d", got)
	}
}
