package host_test

import (
	"testing"

	"github.com/seed-695719ce/nczarr/core/plugin/host"
)

// TestStartFilters checks that StartFilters starts the process that later serves
// filters, and that it starts no process if filters run in process. Close must end a
// start in progress.
func TestStartFilters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		isolation host.Isolation
		want      int
	}{{"process", host.Process, 1}, {"in process", host.InProcess, 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, host.Options{Isolation: c.isolation})
			h.StartFilters()
			if err := h.Start(t.Context(), h.Filters()[0].ID); err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, p := range h.Plugins() {
				if p.Serves == "filters" && p.PID != 0 && p.Restarts == 0 {
					got++
				}
			}
			if got != c.want {
				t.Errorf("want %d processes for filters, got %d: %+v", c.want, got, h.Plugins())
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		h := newHost(t, host.Options{Isolation: host.Process})
		h.StartFilters()
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		h.StartFilters() // no effect after Close
	})
}
