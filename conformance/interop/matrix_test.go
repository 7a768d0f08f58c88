package interop_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the matrix into docs/reference/compatibility.md")

const compatibility = "../../docs/reference/compatibility.md"

// columns lists the peers in the order of the tables.
var columns = []struct{ name, title string }{
	{"zarr", "zarr-python"},
	{"zarrs", "zarrs in zarr-python"},
	{"xarray", "xarray"},
	{"netcdf4", "netcdf-c"},
	{"gdal", "GDAL"},
	{"zarrita", "zarrita.js"},
	{"tensorstore", "tensorstore"},
}

// theirs lists the stores that peers write and nczarr reads.
var theirs = []struct{ peer, args, url string }{
	{"zarr", "--case types", ""},
	{"zarr", "--case types --consolidated", ""},
	{"zarr", "--case types --storage zip", ""},
	{"zarr", "--case layout", ""},
	{"zarr", "--case codecs", ""},
	{"zarr", "--case foreign", ""},
	{"zarr", "--case types --v3", ""},
	{"zarrs", "--case types --v3", ""},
	{"xarray", "--consolidated", ""},
	{"xarray", "--storage zip", ""},
	{"netcdf4", "--format nczarr", ""},
	{"netcdf4", "--format zarr", ""},
	{"netcdf4", "--format noxarray", "#mode=noxarray"},
	{"xarray", "--v3", ""},
	{"gdal", "", ""},
	{"gdal", "--v3", ""},
}

// copies lists the stores that nczctl writes as copies of samples, and their readers.
// what lists the sections of the tables to which the variables of a store belong.
var copies = []struct{ sample, layout, options, what, readers string }{
	{"types", "newest", "", "layout types", "zarr xarray netcdf4 gdal zarrita tensorstore"},
	{"types", "4.9.1", "", "layout", "netcdf4 zarr gdal zarrita tensorstore"},
	{"types", "4.8.1", "", "layout", "netcdf4 zarr gdal zarrita tensorstore"},
	{"types", "4.8.0", "", "layout", "netcdf4 zarr gdal zarrita tensorstore"},
	{"types", "pure", "", "layout types", "zarr xarray netcdf4 gdal zarrita tensorstore"},
	{"types", "pure", "--consolidated", "layout", "zarr xarray netcdf4 gdal zarrita tensorstore"},
	{"types", "noxarray", "", "layout", "zarr netcdf4 gdal zarrita tensorstore"},
	{"layout", "newest", "", "chunks", "netcdf4"},
	{"layout", "pure", "", "chunks", "zarr gdal zarrita tensorstore"},
	{"codecs", "newest", "", "codecs", "netcdf4"},
	{"codecs", "pure", "", "codecs", "zarr xarray gdal zarrita tensorstore"},
	{"foreign", "pure", "--skip-unreadable", "types codecs", "zarr xarray gdal zarrita tensorstore"},
	{"types", "v3", "", "layout types", "zarr zarrs xarray gdal zarrita tensorstore"},
	{"types", "v3", "--consolidated", "layout", "zarr zarrs xarray gdal zarrita tensorstore"},
	{"layout", "v3", "", "chunks", "zarr zarrs gdal zarrita tensorstore"},
	{"codecs", "v3", "", "codecs", "zarr zarrs xarray gdal zarrita tensorstore"},
	{"foreign", "v3", "--skip-unreadable", "types codecs", "zarr zarrs xarray gdal zarrita tensorstore"},
	{"types", "nczarr3", "", "layout types", "zarr zarrs xarray gdal zarrita tensorstore"},
	{"types", "nczarr3", "--consolidated", "layout", "zarr zarrs xarray gdal zarrita tensorstore"},
}

// TestMatrix reads stores that peers write and lets peers read stores that nczctl
// writes. It checks the values of every variable and compares the results with the
// tables of the compatibility page. zarr-python and xarray must read every variable of
// the copies to Zarr v3, and tensorstore may refuse some.
func TestMatrix(t *testing.T) { //nolint:paralleltest // the peer programs use all cores
	for _, c := range columns {
		need(t, packages[c.name]...)
	}
	here, there := newMatrix(), newMatrix()
	t.Run("read here", func(t *testing.T) { readHere(t, here) })    //nolint:paralleltest // the peer programs use all cores
	t.Run("read there", func(t *testing.T) { readThere(t, there) }) //nolint:paralleltest // the peer programs use all cores
	if t.Failed() {
		return
	}
	for entry, result := range here.outcomes {
		if result == wrong {
			t.Errorf("%s: %s: nczarr reads other values than %s wrote", entry.row, entry.section, entry.peer)
		}
	}
	page, err := os.ReadFile(compatibility)
	if err != nil {
		t.Fatal(err)
	}
	want := replaceSection(t, string(page), "matrix", "TestMatrix", "\n### Written by peers, read by nczarr\n\n"+here.tables()+"\n### Written by nczarr, read by peers\n\n"+there.tables())
	if *update {
		if err := os.WriteFile(compatibility, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("the tables of %s differ from the results; run the test with -update and check the difference\n%s", compatibility, firstDifference(string(page), want))
	}
}

func readHere(t *testing.T, m *matrix) {
	for _, w := range theirs {
		t.Run(w.peer+" "+w.args, func(t *testing.T) {
			t.Parallel()
			path, want := sample(t, append([]string{"write.py", "--with", w.peer}, strings.Fields(w.args)...)...)
			url := path
			if w.url != "" {
				url = "file://" + path + w.url
			}
			got := describe(t, url, strings.Contains(w.args, "nczarr"))
			results := classify(t, want, encode(t, got))
			m.add("layouts", storeLabel(w.args), w.peer, results...)
			if strings.Contains(w.args, "zip") || strings.Contains(w.args, "consolidated") && w.peer == "zarr" {
				return
			}
			for _, r := range results {
				section, row := rowOf(t, path, r.variable, !strings.Contains(w.args, "layout"))
				m.add(section, row, w.peer, r)
			}
		})
	}
}

// storeLabel returns a label for the layout of a peer's store.
func storeLabel(args string) string {
	label := "pure Zarr"
	switch {
	case strings.Contains(args, "nczarr"):
		label = "NCZarr newest"
	case strings.Contains(args, "noxarray"):
		label = "pure Zarr, noxarray"
	case strings.Contains(args, "--v3"):
		label = "Zarr v3"
	}
	if strings.Contains(args, "--consolidated") {
		label += ", consolidated"
	}
	if strings.Contains(args, "--storage zip") {
		label += ", zip"
	}
	return label
}

func readThere(t *testing.T, m *matrix) {
	for _, c := range copies {
		t.Run(strings.TrimSpace(c.sample+" "+c.layout+" "+c.options), func(t *testing.T) {
			source, want := sample(t, "write.py", "--with", "zarr", "--case", c.sample)
			dst := filepath.Join(t.TempDir(), "x.zarr")
			args := append(append([]string{"--isolation=inproc", "-q", "copy", "--layout", c.layout}, strings.Fields(c.options)...), source, dst)
			out, err := exec.CommandContext(t.Context(), nczctl, args...).CombinedOutput()
			if err != nil && !(c.sample == "foreign" && strings.Contains(string(out), `skipped "/type_V"`)) {
				t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
			}
			format := map[string]string{"pure": "zarr", "v3": "zarr", "noxarray": "noxarray"}[c.layout]
			if format == "" {
				format = "nczarr"
			}
			for reader := range strings.FieldsSeq(c.readers) {
				t.Run(reader, func(t *testing.T) {
					t.Parallel()
					results := readResults(t, want, reader, format, c.options+" "+c.layout, dst)
					for _, r := range results {
						if c.layout == "v3" && c.sample != "foreign" && (reader == "zarr" || reader == "xarray" || reader == "tensorstore") &&
							(r.outcome == wrong || r.outcome != equal && (reader != "tensorstore" || strings.HasPrefix(r.why, wholeDataset))) {
							t.Errorf("%s: %v %s", r.variable, r.outcome, r.why)
						}
					}
					m.addStore(t, c.what, copyLabel(c.layout, c.options), reader, dst, results)
				})
			}
		})
	}
}

func copyLabel(layout, options string) string {
	label := map[string]string{"pure": "pure Zarr", "noxarray": "pure Zarr, noxarray", "v3": "Zarr v3", "nczarr3": "NCZarr 3"}[layout]
	if label == "" {
		label = "NCZarr " + layout
	}
	if strings.Contains(options, "--consolidated") {
		label += ", consolidated"
	}
	return label
}

// readResults lets a peer read a store and returns the result for every variable. If
// the peer rejects the whole store, every variable is recorded as refused.
func readResults(t *testing.T, want []byte, reader, format, options, path string) []result {
	t.Helper()
	args := []string{"--with", reader, "--format", format}
	if strings.Contains(options, "--consolidated") {
		args = append(args, "--consolidated")
	}
	if strings.HasSuffix(options, "v3") || strings.HasSuffix(options, "nczarr3") {
		args = append(args, "--v3")
	}
	got, err := tool(t, "read.py", append(args, path)...)
	if err == nil {
		return classify(t, want, got)
	}
	var doc document
	if err := json.Unmarshal(want, &doc); err != nil {
		t.Fatal(err)
	}
	why := regexp.MustCompile(`(?s)^.*?read\.py --with \w+: `).ReplaceAllString(err.Error(), "")
	if strings.Contains(err.Error(), "signal") {
		why = "dies: " + signal.FindString(err.Error())
	}
	var out []result
	for name := range doc.Variables {
		out = append(out, result{name, refused, wholeDataset + strings.TrimSpace(why)})
	}
	return out
}

// wholeDataset is the beginning of the reason if a peer refuses a whole dataset.
const wholeDataset = "the whole dataset: "

var signal = regexp.MustCompile(`signal: [a-z ]+`)

// classify compares two descriptions variable by variable, considering only values and
// shapes. An error of the reader is a refusal, and any other difference is wrong.
func classify(t *testing.T, want, got []byte) []result {
	t.Helper()
	var doc, seen document
	for _, d := range []struct {
		data []byte
		to   *document
	}{{want, &doc}, {got, &seen}} {
		if err := json.Unmarshal(d.data, d.to); err != nil {
			t.Fatal(err)
		}
	}
	bad := map[string]string{}
	for _, line := range compare(t, want, got, "dims,chunks,fill,attrs,type") {
		name, why, _ := strings.Cut(line, ": ")
		bad[name] = why
	}
	var out []result
	for name := range doc.Variables {
		why, isBad := bad[name]
		v := seen.Variables[name]
		if v == nil {
			v = joined(&seen, name, doc.Variables[name])
		}
		switch {
		case !isBad || v != nil && sameOtherwise(doc.Variables[name], v):
			out = append(out, result{name, equal, ""})
		case v == nil:
			out = append(out, result{name, refused, "not shown, without an error"})
		case v.Error != "":
			out = append(out, result{name, refused, v.Error})
		default:
			out = append(out, result{name, wrong, map[bool]string{true: "other values", false: "another shape"}[strings.HasPrefix(why, "sha256")]})
		}
	}
	return out
}

// joined combines the variables into which a complex or structured variable is split.
// It returns nil if a part is missing, or the part itself if the reader cannot read it.
func joined(seen *document, name string, want *variable) *variable {
	out := &variable{Shape: want.Shape, SHA256: want.SHA256}
	for part, sum := range want.Parts {
		v := seen.Variables[name+"."+part]
		if v == nil || v.Error != "" {
			return v
		}
		if v.SHA256 != sum || !slices.Equal(v.Shape, want.Shape) {
			out.SHA256 = part + " differs"
		}
	}
	if len(want.Parts) == 0 {
		return nil
	}
	return out
}

// sameOtherwise reports whether the values are equal although the reader represents
// them differently: one element instead of a scalar, or a string of one character
// instead of a char.
func sameOtherwise(want, got *variable) bool {
	shape := slices.Equal(want.Shape, got.Shape) || len(want.Shape) == 0 && slices.Equal(got.Shape, []int64{1})
	return shape && (want.SHA256 == got.SHA256 || want.Also != "" && want.Also == got.SHA256)
}

// replaceSection replaces the section of the page that a test writes.
func replaceSection(t *testing.T, page, name, test, text string) string {
	t.Helper()
	begin, end := "<!-- "+name+": begin, written by go test ./conformance/interop -run "+test+" -update -->\n", "<!-- "+name+": end -->\n"
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s does not contain the markers of the section: %q", compatibility, begin)
	}
	return before + begin + text + end + after
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return "page:  " + x[i] + "\nfound: " + y[i]
		}
	}
	return "one page ends earlier"
}
