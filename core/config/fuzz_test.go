package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// FuzzParse checks that Parse does not panic, that each error has a single line and a
// known kind, and that accepted options marshal as JSON.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		everything, "", "[limits]\nmax_chunk = \"1.5GiB\"", "[drivers.x]\na = [{b=1}, {c=nan}]", "[[drivers.x.y]]\nz = 1979-05-27",
		"limits = {workers = 1}", "[a.b]\nc = \"\"\"\n\"\"\"", "[plugins]\ndirs = [\"~\"]", "drivers.\"s3\".a.b = inf",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("c.toml", data)
		if err != nil {
			if k := ncerr.KindOf(err); k != ncerr.ErrInvalid && k != ncerr.ErrLimit || strings.Contains(err.Error(), "\n") {
				t.Fatalf("unexpected error of kind %s: %v", k.Name(), err)
			}
			return
		}
		for name, o := range c.Drivers {
			if doc := o.JSON(); doc != nil && !json.Valid(doc) {
				t.Fatalf("drivers.%s is not JSON: %s", name, doc)
			}
		}
	})
}

// FuzzRC checks that ParseRC and ParseAWS do not panic, that every entry has a key and a
// source, and that each problem has a single line and a known kind.
func FuzzRC(f *testing.F) {
	f.Add([]byte("# c\r\n[h:1/p] K = V\nK=\n[x\n=\n"))
	f.Add([]byte("[profile a]\nregion = x ; y\n  nested = 1\n[s t]\nq"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, problems := config.ParseRC("rc", data)
		for _, e := range entries {
			if e.Key == "" || !strings.HasPrefix(e.Source, "rc:") || strings.ContainsAny(e.Key+e.Value, "\n") {
				t.Fatalf("invalid entry %+v", e)
			}
		}
		profiles := map[string]config.AWSProfile{}
		problems = append(problems, config.ParseAWS("aws", data, profiles)...)
		for _, p := range problems {
			if k := ncerr.KindOf(p); k != ncerr.ErrInvalid && k != ncerr.ErrLimit || strings.Contains(p.Error(), "\n") {
				t.Fatalf("unexpected problem of kind %s: %v", k.Name(), p)
			}
		}
	})
}
