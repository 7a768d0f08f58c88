package cdl_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/conformance/teststore"
	"github.com/seed-695719ce/nczarr/core/cdl"
)

// option is an option of ncdump and the equivalent for Write.
type option struct {
	args string
	opts cdl.WriteOptions
}

// dumpOptions are options of ncdump, alone and in combinations.
var dumpOptions = []option{
	{"", cdl.WriteOptions{}},
	{"-h", cdl.WriteOptions{HeaderOnly: true}},
	{"-c", cdl.WriteOptions{Coords: true}},
	{"-p 9,17", cdl.WriteOptions{FloatDigits: 9, DoubleDigits: 17}},
	{"-l 10", cdl.WriteOptions{LineLength: 10}},
	{"-b c", cdl.WriteOptions{Notes: cdl.NotesBrief}},
	{"-b fortran", cdl.WriteOptions{Notes: cdl.NotesBrief, Index: cdl.IndexFortran}},
	{"-f c", cdl.WriteOptions{Notes: cdl.NotesFull}},
	{"-f f", cdl.WriteOptions{Notes: cdl.NotesFull, Index: cdl.IndexFortran}},
	{"-i -l 50", cdl.WriteOptions{Times: cdl.TimesISO, LineLength: 50}},
	{"-g /", cdl.WriteOptions{Groups: []string{"/"}}},
	{"-t -b f -p 4,5", cdl.WriteOptions{Times: cdl.TimesBlank, Notes: cdl.NotesBrief, Index: cdl.IndexFortran, FloatDigits: 4, DoubleDigits: 5}},
}

// typesOnly lists CDL files with user-defined types, which NCZarr does not support.
var typesOnly = map[string]bool{
	"ref_solar": true, "ref_tst_comp": true, "ref_tst_comp2": true, "ref_tst_comp3": true, "ref_tst_econst": true,
	"ref_tst_econst2": true, "ref_tst_enum_data": true, "ref_tst_opaque_data": true, "ref_tst_solar_2": true,
	"ref_tst_special_atts": true, "ref_tst_vlen_data": true, "ref_tst_vlen_data2": true, "ref_typescope": true,
}

// otherValue lists CDL files for which ncgen 4.9.0 produces wrong values, and the reason.
var otherValue = map[string]string{
	"ref_const_test": "ncgen truncates integers with the suffix L to 32 bits, even in a 64-bit variable",
	"ref_tst_unlim2": "ncgen joins the strings of two lists along unlimited dimensions",
}

// needTools skips the test if ncgen or ncdump is not installed.
func needTools(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"ncgen", "ncdump"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

// TestDifferential compares Generate and Write with the installed ncgen and ncdump, for
// the whole corpus and all options.
func TestDifferential(t *testing.T) {
	t.Parallel()
	needTools(t)
	root := corpus(t, "cdl")
	inputs, err := filepath.Glob(filepath.Join(root, "input", "*.cdl"))
	if err != nil || len(inputs) == 0 {
		t.Fatalf("want CDL files in %s, got error %v", root, err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".cdl")
		if strings.HasPrefix(name, "big") || otherValue[name] != "" || typesOnly[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name, string(text), dumpOptions, 1)
		})
	}
}

// compare builds a dataset from CDL with ncgen and with Generate, and compares the output
// of ncdump and Write for every share-th option; which one comes first depends on the text.
// On a server, share is 4.
func compare(t *testing.T, name, text string, options []option, share int) {
	t.Helper()
	if teststore.OnServer() {
		share = 4
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, name+".cdl"), filepath.Join(dir, name+".nc")
	if err := os.WriteFile(in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if msg, err := exec.Command("ncgen", "-k", "nc4", "-o", out, in).CombinedOutput(); err != nil {
		t.Fatalf("ncgen: %v %s\n%s", err, msg, text)
	}
	ds := generate(t, text)
	for i, o := range options {
		if (i+len(text))%share != 0 {
			continue
		}
		want, err := exec.Command("ncdump", append(strings.Fields(o.args), out)...).Output()
		if err != nil {
			t.Fatalf("ncdump %s: %v", o.args, err)
		}
		opts := o.opts
		if opts.Name == "" {
			opts.Name = name
		}
		if d := diff(withoutFormatAttrs(dump(t, ds, &opts), opts), withoutFormatAttrs(corrected(string(want), opts), opts)); d != "" {
			t.Errorf("%s: %s", o.args, d)
		}
	}
}

// scalarNote matches a value of a scalar with its index in Fortran order, which ncdump reads
// from uninitialized memory.
var scalarNote = regexp.MustCompile(`(?m)^( +.+ = .*;  // .*)\(\d+\)$`)

// shortSecond matches a time whose second has one digit before the point: ncdump omits the
// leading zero that ISO 8601 requires.
var shortSecond = regexp.MustCompile(`([ T]\d\d:\d\d:)(\d\.\d{6}")`)

// corrected returns the output of ncdump without known errors of ncdump.
func corrected(text string, opts cdl.WriteOptions) string {
	if opts.Notes == cdl.NotesFull && opts.Index == cdl.IndexFortran {
		text = scalarNote.ReplaceAllStringFunc(text, func(line string) string {
			if at := strings.LastIndexByte(line, '('); strings.HasSuffix(line, "(33)") || strings.HasSuffix(line, "(34)") {
				return line[:at] + "(1)"
			}
			return line
		})
	}
	if opts.Times != cdl.TimesNumbers {
		text = shortSecond.ReplaceAllString(text, "${1}0${2}")
	}
	return text
}

// formatLine matches a special attribute that depends on the file format.
var formatLine = regexp.MustCompile(`(?m)^\s+.*:(_Codecs|_NCProperties|_SuperblockVersion|_IsNetcdf4) = .*\n`)

// withoutFormatAttrs removes the special attributes that differ between HDF5 files and
// NCZarr.
func withoutFormatAttrs(text string, opts cdl.WriteOptions) string {
	if !opts.Special {
		return text
	}
	return formatLine.ReplaceAllString(text, "")
}

// timesText has time variables of every calendar, with bounds, attributes and values
// that are not dates. Months and years start at midnight of the first day: otherwise
// ncdump drops the day and the time.
const timesText = `netcdf times {
dimensions: t = UNLIMITED ; b = 2 ; n = 12 ;
variables:
	int t(t) ; t:units = "days since 1804-1-1" ; t:calendar = "gregorian" ; t:bounds = "tb" ;
		t:one = 1 ; t:two = 5b, 6b ; t:floats = 7.125f, 8.75f ; t:three = 58.5, 59.5, 60.5 ; t:text = "x" ;
		t:many = 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120 ;
		t:_FillValue = -9 ; t:notanum = NaN ; t:eight = 7LL ; t:ueight = 7ULL ; t:uone = 3UB ; t:utwo = 4US ; t:stwo = 4s ; t:ufour = 9U ;
	double tb(t, b) ;
	double std(n) ; std:units = "hours since 1582-10-01 06:00" ;
	double pro(n) ; pro:units = "minutes since 1900-02-28T12:30:15" ; pro:calendar = "proleptic_gregorian" ;
	float jul(n) ; jul:units = "days since 1900-02-28" ; jul:calendar = "julian" ;
	short nol(n) ; nol:units = "days since 2000-02-28" ; nol:calendar = "noleap" ;
	uint all(n) ; all:units = "days since 2001-02-28" ; all:calendar = "366_day" ;
	int64 d360(n) ; d360:units = "weeks since 2001-02-28" ; d360:calendar = "360_day" ;
	ubyte months(n) ; months:units = "months since 2001-11-01" ;
	byte years(n) ; years:units = "years since 2001-01-01" ; years:calendar = "noleap" ;
	uint64 sec(n) ; sec:units = "sec since 1970-01-01 00:00:00" ;
	ushort none(n) ; none:units = "days" ; none:x = 5 ;
	double frac ; frac:units = "seconds since 2000-01-01" ; frac:a = 12.25, 71.5 ;
	char c(n) ; c:units = "days since 2000-01-01" ;
data:
	t = 10, _, 12 ; tb = 9.5, 10.5, 10.5, 11.5, 11.5, 12.5 ;
	std = -24, 0, 24, 72, 96, 120.5, 1000, 100000, NaN, _, 0.25, 1 ;
	pro = 0, 1, 1440, -1440, 525600, 0.5, 1e6, Infinity, 2, 3, 4, 5 ;
	jul = 0, 1, 2, 365, 366, -1, 0.5, 0.25, 1000, 2000, 3000, 36525 ;
	nol = 0, 1, 2, 365, 366, -1, 730, 1460, 1461, 1462, -365, 32767 ;
	all = 0, 1, 2, 365, 366, 367, 730, 1460, 1461, 1462, 0, 4000 ;
	d360 = 0, 1, 2, 3, 4, 5, 52, -1, -52, 100, 1000, 99 ;
	months = 0, 1, 2, 3, 12, 24, 25, 100, 200, 250, 13, 14 ;
	years = 0, 1, 2, 3, -1, -2, 100, 127, 50, 51, 52, 53 ;
	sec = 0, 1, 60, 3600, 86400, 951782400, 951868800, 1000000000, 59, 3599, 86399, 90061 ;
	none = 1, 2 ; frac = 5.5 ; c = "abc" ;
group: g { variables: double k(n) ; k:units = "days since 2000-06-15 12:00" ; data: k = 1, 2 ; group: h { variables: int y ; } }
}
`

// TestTimes compares printed dates with the dates that ncdump prints.
func TestTimes(t *testing.T) {
	t.Parallel()
	needTools(t)
	compare(t, "times", timesText, []option{
		{"-t", cdl.WriteOptions{Times: cdl.TimesBlank}},
		{"-i", cdl.WriteOptions{Times: cdl.TimesISO}},
		{"-i -f c -l 40", cdl.WriteOptions{Times: cdl.TimesISO, LineLength: 40, Notes: cdl.NotesFull}},
		{"-t -b f -l 120 -v std,k", cdl.WriteOptions{Times: cdl.TimesBlank, LineLength: 120, Notes: cdl.NotesBrief, Index: cdl.IndexFortran, Vars: []string{"std", "k"}}},
		{"-t -g g", cdl.WriteOptions{Times: cdl.TimesBlank, Groups: []string{"g"}}},
		{"-g /,/g/h", cdl.WriteOptions{Groups: []string{"/", "/g/h"}}},
		{"-v g/k,t -c", cdl.WriteOptions{Vars: []string{"g/k", "t"}, Coords: true}},
	}, 1)
}
