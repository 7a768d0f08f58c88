package host

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// Lock is the content of a lock file, which lists the plugins that may run. The file is
// TOML with an array of tables named plugin.
type Lock struct {
	Plugins []Pin `toml:"plugin"`
}

// Pin is an entry of a lock file. It allows one executable to run.
type Pin struct {
	// File is the base name of the executable.
	File string `toml:"file"`
	// Name and Version must match what the plugin reports.
	Name    string `toml:"name"`
	Version string `toml:"version"`
	// SHA256 is the checksum of the executable in hexadecimal. A plugin for several
	// platforms has one Pin per platform.
	SHA256 string `toml:"sha256"`
	// Drivers and Filters are the names that the plugin serves. The host uses them to
	// find the plugin without starting it.
	Drivers []string `toml:"drivers,omitempty"`
	Filters []string `toml:"filters,omitempty"`
}

// ParseLock parses a lock file. The name is used only in errors. ParseLock fails with
// ncerr.ErrInvalid for malformed TOML, an unknown key, an invalid file name or an
// invalid checksum.
func ParseLock(name string, data []byte) (*Lock, error) {
	var l Lock
	meta, err := toml.NewDecoder(bytes.NewReader(data)).Decode(&l)
	if err != nil {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "read lock file", name, "%w", err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, ncerr.Errorf(ncerr.ErrInvalid, "read lock file", name, "unknown key %q", unknown[0].String())
	}
	for i, p := range l.Plugins {
		if err := p.check(); err != nil {
			return nil, ncerr.Errorf(ncerr.ErrInvalid, "read lock file", name, "plugin %d: %w", i+1, err)
		}
	}
	return &l, nil
}

func (p Pin) check() error {
	if _, _, ok := parseFileName(p.File); !ok {
		return fmt.Errorf("file %q is not named nczarr-driver-NAME or nczarr-filter-NAME", p.File)
	}
	if sum, err := hex.DecodeString(p.SHA256); err != nil || len(sum) != 32 {
		return fmt.Errorf("sha256 %q is not 64 hexadecimal digits", p.SHA256)
	}
	return nil
}

// Encode returns the lock file, sorted by file and checksum.
func (l *Lock) Encode() ([]byte, error) {
	c := Lock{Plugins: append([]Pin(nil), l.Plugins...)}
	sort.Slice(c.Plugins, func(i, j int) bool {
		a, b := c.Plugins[i], c.Plugins[j]
		return a.File < b.File || a.File == b.File && a.SHA256 < b.SHA256
	})
	var buf bytes.Buffer
	enc := toml.NewEncoder(&buf)
	enc.Indent = ""
	err := enc.Encode(c)
	return buf.Bytes(), err
}

// pins returns the pins of the executable with the base name file.
func (l *Lock) pins(file string) []Pin {
	var out []Pin
	if l != nil {
		for _, p := range l.Plugins {
			if p.File == file {
				out = append(out, p)
			}
		}
	}
	return out
}

// matching returns the pin with the given checksum.
func matching(pins []Pin, sum string) (Pin, bool) {
	for _, p := range pins {
		if strings.EqualFold(p.SHA256, sum) {
			return p, true
		}
	}
	return Pin{}, false
}
