package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seed-695719ce/nczarr/core/config"
	"github.com/seed-695719ce/nczarr/core/plugin"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/zip"
)

// pieces records the argument of each Write.
type pieces []string

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, string(b))
	return len(b), nil
}

// TestLinesOfChecks checks that a conformance run writes the line of a check before the
// next check ends, because a complete run takes minutes.
func TestLinesOfChecks(t *testing.T) {
	t.Parallel()
	var out pieces
	var stderr bytes.Buffer
	a := &app{
		in: strings.NewReader(""), out: &out, err: &stderr,
		self: plugin.Main(plugin.Builtin{Openers: []driver.Opener{zip.New()}}),
		env:  &config.Env{Home: t.TempDir(), Vars: map[string]string{"NCZARR_ISOLATION": "inproc"}},
	}
	if code := a.main(t.Context(), []string{"conformance", "run", "--driver", "zip", "--effort", "brief", "--run", "map.get.range.*"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	lines := 0
	for _, piece := range out {
		n := strings.Count(piece, "map.get.range.")
		if n > 1 {
			t.Errorf("want at most one check in each write, got %d: %q", n, piece)
		}
		lines += n
	}
	if lines < 2 {
		t.Errorf("want several checks, got %d: %q", lines, out)
	}
}
