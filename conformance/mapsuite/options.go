package mapsuite

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/conformance"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// optionGuesses are names of options that drivers may read without a description.
const optionGuesses = "path root dir base prefix url uri host port endpoint server address region bucket database db table schema file filename " +
	"user username password passwd token secret key api_key access_key auth credentials profile timeout connect_timeout retries max_retries " +
	"readonly read_only mode create exclusive cache cache_size page page_size chunk chunk_size block_size buffer buffer_size connections " +
	"max_connections pool pool_size workers threads concurrency parallel batch compress compression level deflate encryption sync fsync durability " +
	"journal wal lock locking debug verbose log log_level trace test experimental unsafe force version ttl max_size memory spill temp tmp " +
	"map_size mmap_size initial_size nosync no_sync nolock no_lock nocache no_cache immutable " +
	"proxy insecure verify tls ca_file cert follow_symlinks case ordered"

// options opens a store with each described option set to values that its description
// allows, and with options that are not described.
func options(t conformance.T, e *Env) {
	given, modes := e.options(t), []driver.Mode{driver.Read}
	s := e.create(t)
	if s.flush(); e.openWriter == nil {
		if s.m.Capabilities().Write {
			modes = append(modes, driver.Update)
		}
		s.close()
	}
	open := func(mode driver.Mode, name, value string) error {
		all := maps.Clone(given)
		all[name] = json.RawMessage(value)
		spec := e.spec
		spec.Mode = mode
		var err error
		if spec.Options, err = json.Marshal(all); err != nil {
			t.Fatalf("options: %v", err)
		}
		t.Step("open in mode", modeName(mode), "with the option", name)
		m, err := e.opener.Open(t.Context(), spec)
		if err == nil {
			_ = m.Close(t.Context()) // nothing was written
		}
		return err
	}
	described := e.opener.Describe().Options
	for _, o := range described {
		for _, value := range optionValues(t, o) {
			for _, mode := range modes {
				err := open(mode, o.Name, value)
				if _, is := given[o.Name]; err != nil && (!is && o.Default != "" || ncerr.KindOf(err) == ncerr.ErrInvalid || ncerr.KindOf(err) == ncerr.ErrUnsupported) {
					t.Errorf("open in mode %s with the value %s for option %s, of type %s and with the default %q: %v", modeName(mode), value, o.Name, o.Type, o.Default, err)
				}
			}
		}
	}
	names := strings.Fields(optionGuesses)
	for _, o := range described {
		names = append(names, strings.ReplaceAll(o.Name, "_", "-"), strings.ReplaceAll(o.Name, "-", "_"), strings.ReplaceAll(o.Name, "_", ""))
	}
	for _, name := range names {
		if slices.ContainsFunc(described, func(o driver.Option) bool { return strings.EqualFold(o.Name, name) }) {
			continue // encoding/json ignores case
		}
		for _, value := range []string{`"1"`, "1", "true"} {
			if err := open(driver.Read, name, value); err == nil {
				t.Errorf("open with the option %s, which the driver does not describe: want ErrInvalid, got no error", name)
				break
			}
		}
	}
}

// options returns the options of the environment.
func (e *Env) options(t conformance.T) map[string]any {
	var given map[string]any
	if len(e.spec.Options) > 0 {
		if err := json.Unmarshal(e.spec.Options, &given); err != nil {
			t.Fatalf("the options are not a JSON object: %v", err)
		}
	}
	if given == nil { // null, or no options
		given = map[string]any{}
	}
	return given
}

// optionValues returns values that the description of o allows, as JSON.
func optionValues(t conformance.T, o driver.Option) (values []string) {
	text := strconv.Quote(o.Default)
	var err error
	switch o.Type {
	case "string":
		return []string{text}
	case "bool":
		values = []string{"true", "false"}
		if o.Default != "" && o.Default != "true" && o.Default != "false" {
			err = strconv.ErrSyntax
		}
	case "int":
		values = []string{o.Default}
		_, err = strconv.ParseInt(o.Default, 10, 64)
	case "size":
		var n driver.Size
		err = json.Unmarshal([]byte(text), &n)
		values = []string{text, strconv.FormatInt(int64(n), 10)}
	case "duration":
		values = []string{text}
		_, err = time.ParseDuration(o.Default)
	default:
		t.Errorf("option %s has the unknown type %q", o.Name, o.Type)
	}
	switch {
	case o.Default == "" && o.Type != "bool":
		return nil
	case err != nil:
		t.Errorf("option %s: the default %q is not of type %s: %v", o.Name, o.Default, o.Type, err)
		return nil
	}
	return values
}
