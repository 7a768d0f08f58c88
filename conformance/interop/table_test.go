package interop_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// outcome is the result of reading one variable; a larger value is worse.
type outcome int

const (
	equal outcome = iota + 1
	refused
	wrong
)

// result is the outcome for one variable and its reason.
type result struct {
	variable string
	outcome  outcome
	why      string
}

type entry struct{ section, row, peer string }

// matrix collects outcomes by section, row and peer. It is safe for concurrent use.
type matrix struct {
	mu       sync.Mutex
	outcomes map[entry]outcome
	mixed    map[entry]bool
	why      map[entry]string
}

func newMatrix() *matrix {
	return &matrix{outcomes: map[entry]outcome{}, mixed: map[entry]bool{}, why: map[entry]string{}}
}

// add adds results to one entry, which keeps the worst outcome.
func (m *matrix) add(section, row, peer string, results ...result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := entry{section, row, peer}
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.variable, b.variable) })
	for _, r := range results {
		old := m.outcomes[at]
		m.mixed[at] = m.mixed[at] || old != 0 && old != r.outcome
		if r.outcome > old {
			m.outcomes[at], m.why[at] = r.outcome, r.why
		}
	}
}

// addStore adds the results of one store that nczctl wrote.
func (m *matrix) addStore(t *testing.T, what, layout, peer, path string, results []result) {
	t.Helper()
	if strings.Contains(what, "layout") {
		m.add("layouts", layout, peer, results...)
	}
	for _, r := range results {
		section, row := rowOf(t, path, r.variable, !strings.Contains(what, "chunks"))
		if !strings.Contains(what, strings.TrimSuffix(section, "V3")) || row == "raw bytes" && strings.Contains(r.why, "not shown") {
			continue
		}
		switch {
		case strings.HasPrefix(layout, "NCZarr") && section == "types":
			section = "typesNCZarr"
		case strings.HasPrefix(layout, "NCZarr") && section == "typesV3":
			section = "typesNCZarr3"
		}
		m.add(section, row, peer, r)
	}
}

// rowOf returns the section and the row of a variable according to its .zarray or
// zarr.json. The row is its codecs if it has any, and otherwise its type or the
// properties of its chunks.
func rowOf(t *testing.T, path, name string, types bool) (section, row string) {
	t.Helper()
	if data, err := os.ReadFile(filepath.Join(path, name, "zarr.json")); err == nil {
		return rowOfV3(t, data, name, types)
	}
	data, err := os.ReadFile(filepath.Join(path, name, ".zarray"))
	if err != nil { // a copy has an array for each field, and no array for types that netCDF cannot represent
		return "types", map[bool]string{true: "raw bytes", false: "complex, structured: an array for each field"}[name == "/type_V"]
	}
	var doc struct {
		DType              any
		Order              string
		Separator          string `json:"dimension_separator"`
		Shape              []int
		Fill               any `json:"fill_value"`
		Compressor         map[string]any
		Filters            []map[string]any
		DimensionSeparator string
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Compressor != nil || len(doc.Filters) > 0 && doc.Filters[0]["id"] != "vlen-utf8" {
		return "codecs", codecLabel(doc.Filters, doc.Compressor)
	}
	if types && strings.Contains(name, "/scalar_") { // netCDF-C handles scalars differently
		return "types", "scalars of any type"
	}
	if types {
		return "types", typeLabel(doc.DType)
	}
	return "chunks", strings.Join(slices.DeleteFunc([]string{
		"order " + doc.Order,
		map[bool]string{true: "separator /", false: "separator ."}[doc.Separator == "/"],
		map[bool]string{true: "chunks missing"}[strings.Contains(name, "missing") || strings.Contains(name, "unwritten")],
		map[bool]string{true: "length 0"}[slices.Contains(doc.Shape, 0)],
		map[bool]string{true: "fill 2^64-1"}[strings.Contains(name, "_max")],
	}, func(s string) bool { return s == "" }), ", ")
}

// rowOfV3 is like rowOf for an array of Zarr v3. data is its zarr.json.
func rowOfV3(t *testing.T, data []byte, name string, types bool) (section, row string) {
	t.Helper()
	var doc struct {
		DataType any `json:"data_type"`
		Shape    []int
		Codecs   []struct {
			Name          string
			Configuration map[string]any
		}
		Attributes struct {
			Array struct {
				Alias string `json:"type_alias"`
			} `json:"_nczarr_array"`
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var codecs []string
	order := "order C"
	for _, c := range doc.Codecs {
		switch label := c.Name; label {
		case "bytes", "vlen-utf8":
		case "transpose":
			order = "order F"
		default:
			if cname := c.Configuration["cname"]; cname != nil {
				label += fmt.Sprintf(" %v", cname)
			}
			codecs = append(codecs, label)
		}
	}
	switch {
	case len(codecs) > 0:
		return "codecsV3", strings.Join(codecs, " + ")
	case types && strings.Contains(name, "/scalar_"):
		return "typesV3", "scalars of any type"
	case types && doc.Attributes.Array.Alias != "":
		return "typesV3", doc.Attributes.Array.Alias + ": " + typeLabelV3(doc.DataType)
	case types:
		return "typesV3", typeLabelV3(doc.DataType)
	}
	return "chunksV3", strings.Join(slices.DeleteFunc([]string{
		order,
		map[bool]string{true: "chunks missing"}[strings.Contains(name, "missing") || strings.Contains(name, "unwritten")],
		map[bool]string{true: "length 0"}[slices.Contains(doc.Shape, 0)],
		map[bool]string{true: "fill 2^64-1"}[strings.Contains(name, "_max")],
	}, func(s string) bool { return s == "" }), ", ")
}

// typeLabelV3 returns a label for a data type of Zarr v3, with its unit and without its
// length.
func typeLabelV3(dataType any) string {
	named, ok := dataType.(map[string]any)
	if !ok {
		return fmt.Sprint(dataType)
	}
	config, _ := named["configuration"].(map[string]any)
	if unit := config["unit"]; unit != nil {
		return fmt.Sprintf("%v[%v]", named["name"], unit)
	}
	if named["name"] == "null_terminated_bytes" && config["length_bytes"] == 1.0 {
		return "char: null_terminated_bytes of length 1"
	}
	return fmt.Sprint(named["name"])
}

func codecLabel(filters []map[string]any, compressor map[string]any) string {
	var names []string
	for _, f := range filters {
		name := fmt.Sprint(f["id"])
		if f["astype"] != nil && f["astype"] != f["dtype"] {
			name += " with astype"
		}
		names = append(names, name)
	}
	if compressor != nil {
		name := fmt.Sprint(compressor["id"])
		if name == "blosc" {
			name += fmt.Sprintf(" %v", compressor["cname"])
		}
		names = append(names, name)
	}
	return strings.Join(names, " + ")
}

var number = regexp.MustCompile(`\d+$`)

// typeLabel returns a label for a dtype, without its byte order and, for strings,
// without the length.
func typeLabel(dtype any) string {
	name, ok := dtype.(string)
	if !ok {
		return "structured"
	}
	name, unit, _ := strings.Cut(strings.TrimLeft(name, "<>|"), "[")
	bits := func(s string) string { return s + fmt.Sprint(8*int(name[1]-'0')) }
	switch name[0] {
	case 'b':
		return "bool"
	case 'i':
		return bits("int")
	case 'u':
		return bits("uint")
	case 'f':
		return bits("float")
	case 'c':
		return "complex" + map[string]string{"8": "64", "16": "128"}[name[1:]]
	case 'M', 'm':
		return map[byte]string{'M': "datetime64[", 'm': "timedelta64["}[name[0]] + unit
	case 'S':
		if name == "S1" {
			return "char"
		}
		return "string, fixed length"
	case 'U':
		return "string, fixed length, UTF-32"
	case 'O':
		return "string, variable length"
	}
	return "raw bytes"
}

// tables returns the tables for the page, each followed by its notes.
func (m *matrix) tables() string {
	var out strings.Builder
	for _, s := range []struct{ name, title string }{
		{"layouts", "layout"},
		{"typesNCZarr", "type, in NCZarr"},
		{"types", "type, in pure Zarr"},
		{"chunks", "chunks"},
		{"codecs", "codecs, in order of encoding"},
		{"typesV3", "type, in Zarr v3"},
		{"chunksV3", "chunks, in Zarr v3"},
		{"codecsV3", "codecs, in Zarr v3"},
		{"typesNCZarr3", "type, in NCZarr 3"},
	} {
		rows := map[string]bool{}
		for c := range m.outcomes {
			if c.section == s.name {
				rows[c.row] = true
			}
		}
		if len(rows) == 0 {
			continue
		}
		out.WriteString("| " + s.title + " |")
		for _, c := range columns {
			out.WriteString(" " + c.title + " |")
		}
		out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
		var notes []string
		for _, row := range slices.SortedFunc(maps.Keys(rows), byLabel) {
			out.WriteString("| " + row + " |")
			for _, c := range columns {
				out.WriteString(" " + m.show(entry{s.name, row, c.name}, &notes) + " |")
			}
			out.WriteString("\n")
		}
		for i, n := range notes {
			out.WriteString("\n" + strings.TrimSuffix(numbered(i+1, n), "\n"))
		}
		out.WriteString(map[bool]string{true: "\n\n", false: "\n"}[len(notes) > 0])
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// numbered returns a line with a note.
func numbered(n int, note string) string { return fmt.Sprintf("%d. %s\n", n, note) }

// sortedVariables returns the names of the variables in a description.
func sortedVariables(t *testing.T, text []byte) []string {
	t.Helper()
	var doc document
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(doc.Variables))
}

// byLabel compares labels alphabetically, but compares a number at the end by value:
// int8 is before int16.
func byLabel(a, b string) int {
	return cmp.Or(cmp.Compare(number.ReplaceAllString(a, ""), number.ReplaceAllString(b, "")), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// show formats an entry with the number of its note, and adds the note to notes if it
// is new.
func (m *matrix) show(at entry, notes *[]string) string {
	word := map[outcome]string{0: "", equal: "equal", refused: "refused", wrong: "**wrong**"}[m.outcomes[at]]
	if m.outcomes[at] <= equal {
		return word
	}
	if m.mixed[at] {
		word = "some " + word
	}
	note := reason(m.why[at])
	i := slices.Index(*notes, note)
	if i < 0 {
		*notes = append(*notes, note)
		i = len(*notes) - 1
	}
	return fmt.Sprintf("%s (%d)", word, i+1)
}

var (
	paths = regexp.MustCompile(`(file://)?/[^ '",)]*x\.zarr[^ '",)]*`)
	space = regexp.MustCompile(`\s+`)
)

// reason returns a message without the parts that differ between runs, formatted for a
// page.
func reason(why string) string {
	why = space.ReplaceAllString(paths.ReplaceAllString(why, "PATH"), " ")
	why = strings.TrimPrefix(why, unread)
	if len(why) > 160 {
		why = why[:160] + "..."
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(why, "`", "'"), "|", "\\|") + "`"
}
