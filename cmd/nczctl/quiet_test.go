package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// TestQuiet checks that --quiet and NCLOGGING suppress warnings, except the one
// about third-party plugins without a sandbox.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, logging := range []string{"", "error"} {
		var text strings.Builder
		a := &app{err: &text, env: &config.Env{Vars: map[string]string{"NCLOGGING": logging}}}
		a.flags.quiet = true
		s, err := a.start(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		log := s.HostOptions().Logger
		log.Warn("a warning")
		log.Log(t.Context(), host.LevelAlert, "an alert", slog.String("missing", "all"))
		if got := text.String(); strings.Contains(got, "a warning") || !strings.Contains(got, "an alert") || !strings.Contains(got, "all") {
			t.Errorf("NCLOGGING=%q: want the alert without the warning, got %q", logging, got)
		}
	}
}
