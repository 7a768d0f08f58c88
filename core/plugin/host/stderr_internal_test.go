package host

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

// TestForgedLog checks that a plugin cannot log control characters, and cannot replace
// the attributes that identify the plugin.
func TestForgedLog(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil)).With(logPlugin, "evil", logServes, "filters")
	sink := newLogSink(log)
	_, _ = sink.Write([]byte(`{"@level":"error","@message":"a\nnczctl: b\u001b[1m","k\nnczctl: c":1,"plugin":"nczarr","serves":"all"}` + "\n"))
	var got map[string]any
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	for name, value := range got {
		if text, _ := value.(string); strings.ContainsAny(name+text, "\n\x1b") {
			t.Errorf("the attribute %q has the value %q with control characters", name, value)
		}
	}
	if got[logPlugin] != "evil" || got[logServes] != "filters" || !strings.HasPrefix(got["msg"].(string), "a") {
		t.Errorf("got %q", got)
	}
}

// TestLastOutput checks that lastOutput returns the first line of a panic even if long
// stack traces follow it.
func TestLastOutput(t *testing.T) {
	t.Parallel()
	sink := newLogSink(slog.New(slog.DiscardHandler))
	_, _ = sink.Write([]byte("hello\nfatal error: runtime: out of memory\n" + strings.Repeat("created by main.main\n", 20_000)))
	if got := sink.lastOutput(); got != "; it reported: fatal error: runtime: out of memory" {
		t.Errorf("got %q", got)
	}
}
