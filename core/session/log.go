package session

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
)

// logFileVar is the environment variable overridden by Options.LogFile.
const logFileVar = "NCZARR_LOG_FILE"

// startLog starts the log if Options.Trace, Options.LogFile, the key "log" in the fragment
// of Options.URL or an environment variable turns it on. A URL cannot name the log file,
// because a URL may come from an untrusted party.
//
// Source: netcdf-c nclog.c, for NCLOGGING and NCTRACING.
func (s *Session) startLog(o *Options) error {
	if s.log = o.Logger; s.log == nil {
		s.log = slog.Default()
	}
	level, on := s.logLevel(o.Trace)
	name := cmp.Or(o.LogFile, s.env.Vars[logFileVar])
	asked, named := logInFragment(o.URL)
	if named {
		s.warn(o, errors.New("a URL cannot name a log file: set --log-file, or read the log on standard error"))
	}
	if !on && (asked || name != "") {
		level, on = slog.LevelInfo, true
	}
	if !on {
		return nil
	}
	var out io.Writer = os.Stderr
	if o.LogOutput != nil {
		out = o.LogOutput
	}
	if name != "" {
		f, err := openLog(name)
		if err != nil {
			return fileError("open log", name, err)
		}
		s.file, out = f, f
	}
	s.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	return nil
}

func (s *Session) closeLog() error {
	f := s.file
	if s.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// logInFragment reports whether the fragment of a URL turns on the log, and whether it
// names a log file.
func logInFragment(url string) (asked, named bool) {
	_, fragment, _ := strings.Cut(url, "#")
	for item := range strings.SplitSeq(fragment, "&") {
		if key, file, _ := strings.Cut(item, "="); strings.EqualFold(key, "log") {
			asked, named = true, named || file != ""
		}
	}
	return asked, named
}

// openLog opens a log file for appending. It creates a missing file with access for the
// owner only. It accepts only regular files, does not follow links and never blocks.
func openLog(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("the path is not a regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// logLevel returns the level set by Options.Trace and the environment, and reports
// whether they turn the log on.
func (s *Session) logLevel(trace bool) (slog.Level, bool) {
	if trace {
		return slog.LevelDebug, true
	}
	if text := s.env.Vars["NCTRACING"]; text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 {
			if n >= 3 {
				return slog.LevelDebug, true
			}
			return slog.LevelInfo, n > 0
		}
	}
	switch text := strings.ToLower(s.env.Vars["NCLOGGING"]); text {
	case "", "0", "off", "false", "no":
		return 0, false
	case "error", "err":
		return slog.LevelError, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "debug", "trace":
		return slog.LevelDebug, true
	default:
		return slog.LevelInfo, true
	}
}
