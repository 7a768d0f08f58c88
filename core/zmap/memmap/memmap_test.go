package memmap_test

import (
	"fmt"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/core/zmap/memmap"
)

// The suite in conformance/mapsuite also tests this package. The tests in this file
// cover only what the suite does not.

func TestHandlesShareAStore(t *testing.T) {
	t.Parallel()
	o := memmap.NewOpener()
	open := func(mode driver.Mode) driver.Map {
		m, err := o.Open(t.Context(), driver.OpenSpec{Path: "s", Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	get := func(m driver.Map) (string, error) {
		data, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
		return string(data), err
	}
	old := open(driver.Create)
	if _, err := old.Put(t.Context(), "k", driver.Bytes("x"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := get(open(driver.Read)); err != nil || got != "x" {
		t.Errorf("another handle: got %q, %v, want x", got, err)
	}
	if _, err := get(open(driver.Create)); ncerr.KindOf(err) != ncerr.ErrNotFound {
		t.Errorf("Get from a new store: want ErrNotFound, got %v", err)
	}
	if got, err := get(old); err != nil || got != "x" {
		t.Errorf("Get through the old handle: got %q, %v, want x", got, err)
	}
}

func TestContentIsCopied(t *testing.T) {
	t.Parallel()
	m := memmap.New()
	if _, err := m.Put(t.Context(), "k", driver.Bytes("abc"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		data, _, err := m.Get(t.Context(), "k", &driver.GetOptions{}, driver.Heap)
		if err != nil || string(data) != "abc" {
			t.Fatalf("Get: got %q, %v, want abc", data, err)
		}
		data[0] = 'X'
		err = m.GetMany(t.Context(), []driver.GetRequest{{Key: "k"}}, func(_ int, p []byte, _ driver.Info, _ error) { p[1] = 'Y' })
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestListingIsASnapshot(t *testing.T) {
	t.Parallel()
	m := memmap.New()
	for i := range 10 {
		if _, err := m.Put(t.Context(), fmt.Sprint(i), driver.Bytes("x"), &driver.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for e, err := range m.List(t.Context(), "", &driver.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		_, errPut := m.Put(t.Context(), e.Key+"new", driver.Bytes("x"), &driver.PutOptions{})
		errDelete := m.Delete(t.Context(), "9", &driver.DeleteOptions{})
		if errPut != nil || errDelete != nil {
			t.Fatal(errPut, errDelete)
		}
	}
	if n != 9 {
		t.Errorf("want the 9 objects that were not deleted, got %d", n)
	}
}
