package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

const opRead = "read configuration"

// document is a decoded TOML file with its line numbers.
type document struct {
	name string
	meta toml.MetaData
	root map[string]toml.Primitive
}

// decode parses data. A syntax error contains its line.
func decode(name string, data []byte) (*document, error) {
	if len(data) > maxFile {
		return nil, ncerr.Errorf(ncerr.ErrLimit, opRead, name, "the file exceeds the limit of %d bytes", maxFile)
	}
	d := &document{name: name}
	number := 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if number++; len(line) > maxLine {
			return nil, ncerr.Errorf(ncerr.ErrLimit, opRead, d.at(number), "the line exceeds the limit of %d bytes", maxLine)
		}
	}
	meta, err := toml.Decode(string(data), &d.root)
	if err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			return nil, d.fail(syntax.Position.Line, errors.New(masked(syntax.Message)))
		}
		return nil, d.fail(0, errors.New(masked(strings.TrimPrefix(err.Error(), "toml: "))))
	}
	d.meta = meta
	return d, nil
}

// masked returns a message of the decoder as one line. It masks quoted text and numbers,
// which may be secret values from the file.
func masked(text string) string {
	if first, last := strings.IndexAny(text, quotes), strings.LastIndexAny(text, quotes); first < last {
		text = text[:first] + "***" + text[last+1:]
	}
	words := strings.Fields(text)
	for i, w := range words {
		if strings.ContainsAny(w[:1], "+-0123456789") {
			words[i] = "***"
		}
	}
	return strings.Join(words, " ")
}

const quotes = "\"'`"

// fail returns an error at a line. Line 0 means the whole file.
func (d *document) fail(line int, cause error) error {
	return ncerr.New(ncerr.ErrInvalid, opRead, d.at(line), cause)
}

// at returns file:line, or the name of the file if the line is unknown.
func (d *document) at(line int) string {
	if line <= 0 {
		return d.name
	}
	return d.name + ":" + strconv.Itoa(line)
}

// refuse is a destination for TOML values that always fails to decode. The method line
// uses it, because the decoder reports the position of a value only in its errors.
type refuse struct{}

var errRefuse = errors.New("refused")

// UnmarshalTOML always fails.
func (*refuse) UnmarshalTOML(any) error { return errRefuse }

// line returns the line of a value. For a table without a header it returns the line
// of the first member.
func (d *document) line(p toml.Primitive) int {
	var where toml.ParseError
	if err := d.meta.PrimitiveDecode(p, &refuse{}); errors.As(err, &where) && where.Position.Line > 0 {
		return where.Position.Line
	}
	first := 0
	for _, m := range d.members(p) {
		if first == 0 || m.line < first {
			first = m.line
		}
	}
	return first
}

// member is a key of a table.
type member struct {
	key   string
	value toml.Primitive
	line  int
}

// members returns the members of a table in file order, or nil if p is not a table.
func (d *document) members(p toml.Primitive) []member {
	var table map[string]toml.Primitive
	if err := d.meta.PrimitiveDecode(p, &table); err != nil {
		return nil
	}
	return d.ordered(table)
}

// ordered returns the members of a table, sorted by line and then by key.
func (d *document) ordered(table map[string]toml.Primitive) []member {
	out := make([]member, 0, len(table))
	for key, value := range table {
		out = append(out, member{key, value, d.line(value)})
	}
	slices.SortFunc(out, func(a, b member) int {
		if a.line != b.line {
			return a.line - b.line
		}
		return strings.Compare(a.key, b.key)
	})
	return out
}

// isTable reports whether p is a table.
func (d *document) isTable(p toml.Primitive) bool {
	_, ok := d.plain(p).(map[string]any)
	return ok
}

// plain returns p as untyped values.
func (d *document) plain(p toml.Primitive) any {
	var v any
	if err := d.meta.PrimitiveDecode(p, &v); err != nil {
		return nil
	}
	return v
}

// apply merges the settings of a file into c.
func (c *Config) apply(name string, data []byte) error {
	d, err := decode(name, data)
	if err != nil {
		return err
	}
	for _, table := range d.ordered(d.root) {
		if !slices.Contains(tables(), table.key) {
			return d.fail(table.line, fmt.Errorf("unknown table or key %q%s (tables are %s)",
				table.key, ncerr.DidYouMean(table.key, tables()), strings.Join(tables(), ", ")))
		}
		if !d.isTable(table.value) {
			return d.fail(table.line, fmt.Errorf("%q must be a table", table.key))
		}
		switch table.key {
		case tableDrivers:
			err = c.applyOptions(d, table, c.Drivers)
		case tableFilters:
			err = c.applyOptions(d, table, c.Filters)
		default:
			err = c.applyKeys(d, table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyKeys merges a table other than drivers and filters.
func (c *Config) applyKeys(d *document, table member) error {
	known := map[string]setter{}
	var names []string
	for _, s := range specs() {
		if key, ok := strings.CutPrefix(s.Name, table.key+"."); ok {
			known[key] = s.set
			names = append(names, key)
		}
	}
	for _, m := range d.members(table.value) {
		full := table.key + "." + m.key
		set, ok := known[m.key]
		if !ok {
			return d.fail(m.line, fmt.Errorf("unknown key %q%s (keys of [%s] are %s)",
				full, ncerr.DidYouMean(m.key, names), table.key, strings.Join(names, ", ")))
		}
		if err := set(c, d.plain(m.value), filepath.Dir(d.name)); err != nil {
			return d.fail(m.line, fmt.Errorf("%s: %w", full, err))
		}
		c.where[full] = d.at(m.line)
	}
	return nil
}

// applyOptions merges the tables [drivers.*] or [filters.*].
func (c *Config) applyOptions(d *document, table member, into map[string]Options) error {
	for _, named := range d.members(table.value) {
		if !validName(named.key) {
			return d.fail(named.line, fmt.Errorf("%q is not a valid name in [%s.NAME]: a name consists of lower-case letters, digits, hyphens and underscores",
				named.key, table.key))
		}
		if !d.isTable(named.value) {
			return d.fail(named.line, fmt.Errorf("%s.%s must be a table: [%s.NAME] holds the options of NAME",
				table.key, named.key, table.key))
		}
		if into[named.key] == nil {
			into[named.key] = Options{}
		}
		for _, option := range d.members(named.value) {
			full := table.key + "." + named.key + "." + option.key
			value := d.plain(option.value)
			if err := checkJSON(value); err != nil {
				return d.fail(option.line, fmt.Errorf("%s: %w", full, err))
			}
			into[named.key][option.key] = value
			c.where[full] = d.at(option.line)
		}
	}
	return nil
}

// validName reports whether s is a valid name of a driver or filter.
func validName(s string) bool {
	ok := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	return s != "" && len(s) <= 64 && ok(s[0]) && !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return !ok(c) && c != '-' && c != '_'
	})
}

// checkJSON rejects values that JSON cannot represent.
func checkJSON(v any) error {
	switch x := v.(type) {
	case time.Time:
		return errors.New("a date or time must be written as a string")
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return errors.New("a number must be finite")
		}
	case []any:
		for _, item := range x {
			if err := checkJSON(item); err != nil {
				return err
			}
		}
	case []map[string]any:
		for _, item := range x {
			if err := checkJSON(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range x {
			if err := checkJSON(item); err != nil {
				return err
			}
		}
	}
	return nil
}
