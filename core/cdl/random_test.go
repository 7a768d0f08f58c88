package cdl_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/testseed"
	"github.com/seed-695719ce/nczarr/core/cdl"
)

// randomDatasets is the number of random datasets in TestRandomDifferential, overridden
// by NCZARR_CDL_RANDOM. The first one uses the seed of the tests, and each later one
// uses the next seed.
const randomDatasets = 30

// fromEnv returns the number in an environment variable.
func fromEnv(t *testing.T, name string, fallback uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRandomDifferential generates random CDL of several groups with all types, notations
// and special attributes. It compares the output of Generate and Write with the output of
// ncgen and ncdump, byte for byte, for all options, each with a third of the datasets unless
// NCZARR_FULL is set.
func TestRandomDifferential(t *testing.T) {
	t.Parallel()
	needTools(t)
	first, share := testseed.New(t), 3
	if os.Getenv("NCZARR_FULL") == "1" {
		share = 1
	}
	for i := range fromEnv(t, "NCZARR_CDL_RANDOM", randomDatasets) {
		t.Run(fmt.Sprint("seed=", first+i), func(t *testing.T) {
			t.Parallel()
			d := newGenerator(first + i)
			text := d.dataset()
			compare(t, "random", text, d.options(), share)
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// options returns the options of TestDifferential, -s and -F, and options with the names
// of variables, groups and the dataset in this CDL.
func (d *generator) options() []option {
	list := append([]option{
		{"-s", cdl.WriteOptions{Special: true}},
		{"-h -s -F", cdl.WriteOptions{Special: true, Filters: true, HeaderOnly: true}},
		{"-i", cdl.WriteOptions{Times: cdl.TimesISO}},
		{"-n other -w -L 0", cdl.WriteOptions{Name: "other"}},
		{"-l 33 -b c -p 3", cdl.WriteOptions{LineLength: 33, Notes: cdl.NotesBrief, FloatDigits: 3}},
	}, dumpOptions...)
	if len(d.varNames) > 0 {
		a, b := pick(d, d.varNames...), pick(d, d.varNames...)
		list = append(list, option{"-v " + a + "," + b, cdl.WriteOptions{Vars: []string{a, b}}})
	}
	if len(d.groupNames) > 0 {
		a := pick(d, d.groupNames...)
		list = append(list, option{"-f c -g " + a, cdl.WriteOptions{Groups: []string{a}, Notes: cdl.NotesFull}})
	}
	return list
}
