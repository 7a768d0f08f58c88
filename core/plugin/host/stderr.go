package host

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/wire"
)

const (
	ringSize  = 64 << 10 // size of the output kept for diagnosis; sufficient for most panics
	lineMax   = 8 << 10  // longer lines are truncated
	tailLines = 6        // lines shown in an error
	tailBytes = 2 << 10
	logBurst  = 1000 // maximum number of lines logged in a burst
	logRate   = 200  // maximum number of lines logged per second after a burst
)

// Names of the log attributes that identify the source of a record.
const (
	logPlugin = "plugin"
	logServes = "serves"
)

// logSink receives the standard error of a process. It writes the lines to the host's
// log and keeps the last lines for errors.
type logSink struct {
	log       *slog.Logger
	mu        sync.Mutex
	line      []byte
	ring      []byte
	panicLine string // first line of the last Go panic or fatal error

	tokens  float64
	last    time.Time
	dropped int
}

func newLogSink(log *slog.Logger) *logSink {
	return &logSink{log: log, tokens: logBurst, last: time.Now()}
}

// Write implements io.Writer. It never fails.
func (s *logSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		part := rest
		if i >= 0 {
			part = rest[:i]
		}
		s.line = append(s.line, part[:min(len(part), lineMax-len(s.line))]...)
		if i < 0 {
			break
		}
		s.emit()
		rest = rest[i+1:]
	}
	return len(p), nil
}

// emit logs the completed line unless the plugin logs too much. The caller holds mu.
func (s *logSink) emit() {
	line := strings.ToValidUTF8(string(s.line), "\uFFFD")
	s.line = s.line[:0]
	if line == "" {
		return
	}
	if s.ring = append(s.ring, line+"\n"...); len(s.ring) > 2*ringSize {
		s.ring = append([]byte(nil), s.ring[len(s.ring)-ringSize:]...)
	}
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		s.panicLine = line
	}
	now := time.Now()
	s.tokens = min(logBurst, s.tokens+now.Sub(s.last).Seconds()*logRate)
	s.last = now
	if s.tokens < 1 {
		s.dropped++
		return
	}
	s.tokens--
	if s.dropped > 0 {
		s.log.Warn("dropped lines of the plugin's log", "count", s.dropped)
		s.dropped = 0
	}
	s.record(line)
}

// record logs a line. For an hclog record in JSON it uses the level and the attributes
// of the record. It removes control characters from the message and from attribute
// names, and renames attributes that would replace those of the host.
func (s *logSink) record(line string) {
	var fields map[string]any
	if line[0] != '{' || json.Unmarshal([]byte(line), &fields) != nil {
		level := slog.LevelDebug
		if line == s.panicLine {
			level = slog.LevelError
		}
		s.log.Log(context.Background(), level, line)
		return
	}
	message, _ := fields["@message"].(string)
	level, _ := fields["@level"].(string)
	attrs := make([]any, 0, 2*len(fields))
	for k, v := range fields {
		if k = wire.Text(k); k == logPlugin || k == logServes {
			k = "its_" + k
		}
		if !strings.HasPrefix(k, "@") {
			attrs = append(attrs, slog.Any(k, v))
		}
	}
	s.log.Log(context.Background(), slogLevel(level), wire.Text(message), attrs...)
}

func slogLevel(name string) slog.Level {
	switch hclog.LevelFromString(name) {
	case hclog.Error:
		return slog.LevelError
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// tail returns the last lines of output, joined into one line.
func (s *logSink) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.ring) + strings.ToValidUTF8(string(s.line), "\uFFFD")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	out := strings.Join(lines, " | ")
	if len(out) > tailBytes {
		out = "..." + strings.ToValidUTF8(out[len(out)-tailBytes:], "")
	}
	return out
}

// lastOutput returns the end of an error message. It quotes standard error: the
// first line of a Go panic or fatal error if there was one, and the last lines
// otherwise. It returns "" if there was no output.
func (s *logSink) lastOutput() string {
	s.mu.Lock()
	panicLine := s.panicLine
	s.mu.Unlock()
	if panicLine != "" {
		return "; it reported: " + panicLine
	}
	if tail := s.tail(); tail != "" {
		return "; its last output: " + tail
	}
	return ""
}
