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
	Host   string // the section host[:port][/path] as written; empty for all hosts
	Key    string
	Value  string
	Source string // file:line
}

// RCFile is an rc file to read.
type RCFile struct {
	Path string
	// Local is set for a file in the current directory, which may belong to another user.
	// LoadRC ignores the settings of servers and credentials in such a file.
	Local bool
}

// RCFiles returns the rc files in reading order: .ncrc, .daprc and .dodsrc of the home
// directory, then the same files of the current directory. Later files override earlier
// ones. If $NCRCENV_IGNORE is not empty, RCFiles returns nil. $NCRCENV_RC names a single
// file that replaces all others, and $NCRCENV_HOME replaces the home directory.
//
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

// sensitive reports whether a key sets a server, a proxy, a certificate authority or
// credentials.
func sensitive(key string) bool {
	switch key = strings.ToUpper(key); key {
	case "AWS.ENDPOINT", "AWS.ENDPOINT_URL", "AWS.PROFILE", "HTTP.PROXY.SERVER", "HTTP.PROXY_SERVER", "HTTP.SSL.CAINFO", "HTTP.NETRC":
		return true
	}
	return strings.HasPrefix(key, "HTTP.CREDENTIALS.")
}

// LoadRC reads rc files in order. Missing files are ignored. Other programs use these
// files too, so LoadRC skips lines that it cannot use and reports them in problems, as
// described at [ParseRC]. If a local file sets keys that it must not set, LoadRC ignores
// them and reports a problem of kind ErrPermission.
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
			if f.Local && sensitive(e.Key) {
				ignored = append(ignored, e.Key)
				continue
			}
			entries = append(entries, e)
		}
		if ignored != nil {
			problems = append(problems, ncerr.Errorf(ncerr.ErrPermission, opRead, f.Path,
				"%s ignored: a file in the current directory must not set servers or credentials", strings.Join(ignored, ", ")))
		}
	}
	return entries, problems
}

// ReadFile reads a file for [LoadRC] and [LoadAWS]. It accepts only regular files and
// reads only slightly more than the 64 KiB that they accept, because another user
// may have put a pipe, a device or a huge file into the current directory.
func ReadFile(name string) ([]byte, error) {
	info, err := os.Stat(name) // opening a pipe blocks until a writer opens it
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("the path is not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the file is only read, so the error of Close does not matter
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// readOptional reads a file. It returns nil if the file does not exist.
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

// ParseRC parses the lines KEY=VALUE and [HOST]KEY=VALUE of an rc file. It removes
// space around the section, the key and the value. Lines that begin with "#" are
// comments. Each problem is an *ncerr.Error with file:line and without the value, of
// kind ErrInvalid, or ErrLimit for a file of more than 64 KiB.
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
			return errors.New("a section must be on the same line as its key: [HOST]KEY=VALUE")
		case !ok || e.Key == "":
			return errors.New("the line is not of the form KEY=VALUE")
		}
		entries = append(entries, e)
		return nil
	})
	return entries, problems
}

// eachLine calls f for every line that is not blank, with the trimmed line, its position
// as file:line, and whether it is indented. An error from f becomes a problem at that
// position.
func eachLine(name string, data []byte, problems *[]error, f func(line, at string, indented bool) error) {
	if len(data) > maxFile {
		*problems = append(*problems,
			ncerr.Errorf(ncerr.ErrLimit, opRead, name, "the file exceeds the limit of %d bytes", maxFile))
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
