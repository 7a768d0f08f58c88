package builtin_test

import (
	"errors"
	"sort"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/drivers/builtin"
)

func TestNew(t *testing.T) {
	t.Parallel()
	var names []string
	for _, o := range builtin.New() {
		d := o.Describe()
		names = append(names, d.Name)
		if d.Summary == "" {
			t.Errorf("driver %q has no summary", d.Name)
		}
		got, err := builtin.Driver(d.Name)
		if err != nil || got.Describe().Name != d.Name {
			t.Errorf("want driver %q, got %v, %v", d.Name, got, err)
		}
	}
	if len(names) < 2 || !sort.StringsAreSorted(names) {
		t.Errorf("want at least two names in order, got %q", names)
	}
	if _, err := builtin.Driver("floppy"); !errors.Is(err, ncerr.ErrUnsupported) {
		t.Errorf("want ErrUnsupported, got %v", err)
	}
}
