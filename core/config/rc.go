package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// RCEntry is one line of an rc file. It has the fields of ncurl.RCEntry.
type RCEntry struct {
	Host   string // the section host[:port][/path], as written; empty for all
	Key    string
	Value  string
	Source string // file:line
}

// RCFile is an rc file to read.
type RCFile struct {
	Path string
	// Local says that the file lies in the current directory, which may be
	// somebody else's: settings that decide where requests go, and as whom, are
	// ignored.
	Local bool
}

// RCFiles names the rc files in reading order, later ones overriding: .ncrc,
// .daprc and .dodsrc of the home directory, then of the current one. The
// variable NCRCENV_IGNORE, when not empty, stands for no file, NCRCENV_RC for
// one file instead of all, NCRCENV_HOME for another home directory.
// Source: netcdf-c libdispatch/drc.c.
func RCFiles(env Env) []RCFile {
	if env.Vars["NCRCENV_IGNORE"] != "" {
		return nil
	}
	if name := env.Vars["NCRCENV_RC"]; name != "" {
		return []RCFile{{Path: name}}
	}
	home := env.Home
	if other := env.Vars["NCRCENV_HOME"]; other != "" {
		home = other
	}
	dirs := []string{home, env.Cwd}
	if home == env.Cwd {
		dirs = dirs[:1]
	}
	var out []RCFile
	for i, dir := range dirs {
		for _, name := range []string{".ncrc", ".daprc", ".dodsrc"} {
			if dir != "" {
				out = append(out, RCFile{filepath.Join(dir, name), i > 0})
			}
		}
	}
	return out
}

// leads reports whether a key decides where requests and logins go, as whom
// they are made, or whose word is taken for a server's identity.
func leads(key string) bool {
	switch key = strings.ToUpper(key); key {
	case "AWS.ENDPOINT", "AWS.ENDPOINT_URL", "AWS.PROFILE", "HTTP.PROXY.SERVER", "HTTP.PROXY_SERVER", "HTTP.SSL.CAINFO", "HTTP.NETRC":
		return true
	}
	return strings.HasPrefix(key, "HTTP.CREDENTIALS.")
}

// LoadRC reads rc files in order. A missing file is nothing. What cannot be
// used is skipped and reported: these files are shared with other programs,
// whose lines must not stop this one. See [ParseRC] for the problems. What a
// local file must not set is one more, of kind ErrPermission.
func LoadRC(files []RCFile, read func(string) ([]byte, error)) (entries []RCEntry, problems []error) {
	for _, f := range files {
		data, err := readOptional(f.Path, read)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list, p := ParseRC(f.Path, data)
		problems = append(problems, p...)
		var ignored []string
		for _, e := range list {
			if f.Local && leads(e.Key) {
				ignored = append(ignored, e.Key)
				continue
			}
			entries = append(entries, e)
		}
		if ignored != nil {
			problems = append(problems, ncerr.Errorf(ncerr.ErrPermission, opRead, f.Path,
				"%s ignored: a file of the current directory does not decide where requests go, or as whom", strings.Join(ignored, ", ")))
		}
	}
	return entries, problems
}

// ReadFile reads a file for [LoadRC] and [LoadAWS]. It takes regular files only
// and reads no more of one than they accept: the current directory may be
// somebody else's, and a pipe or a device there would never end.
func ReadFile(name string) ([]byte, error) {
	info, err := os.Stat(name) // opening a pipe waits for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("this is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// readOptional reads a file; a missing one is empty.
func readOptional(name string, read func(string) ([]byte, error)) ([]byte, error) {
	data, err := read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(name, err)
	}
	return data, nil
}

// ParseRC reads the lines KEY=VALUE and [HOST]KEY=VALUE of an rc file. Space
// around section, key and value is dropped, lines that begin with "#" are
// comments. Each problem is an *ncerr.Error of kind ErrInvalid (ErrLimit for
// a file of more than 64 KiB) with file:line and without the value.
func ParseRC(name string, data []byte) (entries []RCEntry, problems []error) {
	eachLine(name, data, &problems, func(line, at string, _ bool) error {
		if line[0] == '#' {
			return nil
		}
		e := RCEntry{Source: at}
		if rest, ok := strings.CutPrefix(line, "["); ok {
			host, after, closed := strings.Cut(rest, "]")
			if !closed {
				return errors.New(`the section has no "]"`)
			}
			e.Host, line = strings.TrimSpace(host), after
		}
		key, value, ok := strings.Cut(line, "=")
		e.Key, e.Value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok && e.Key == "":
			return errors.New("a section stands on the line of its key: [HOST]KEY=VALUE")
		case !ok || e.Key == "":
			return errors.New("the line is not of the form KEY=VALUE")
		}
		entries = append(entries, e)
		return nil
	})
	return entries, problems
}

// eachLine calls f with every line that is not blank: its text without the
// space around it, its place as file:line, and whether it was indented. An
// error of f becomes a problem at that place.
func eachLine(name string, data []byte, problems *[]error, f func(line, at string, indented bool) error) {
	if len(data) > maxFile {
		*problems = append(*problems,
			ncerr.Errorf(ncerr.ErrLimit, opRead, name, "the file has more than %d bytes", maxFile))
		return
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at := name + ":" + strconv.Itoa(number)
		if err := f(line, at, indented); err != nil {
			*problems = append(*problems, ncerr.New(ncerr.ErrInvalid, opRead, at, err))
		}
	}
}
