package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	places "github.com/seed-695719ce/nczarr/core/place"
)

// leftover is what a command left that did not end well, as clean reports it.
type leftover struct {
	Path   string    `json:"path"`
	Target string    `json:"target,omitempty"` // what it was made for
	Made   time.Time `json:"made"`
	Owner  string    `json:"owner,omitempty"`
	InUse  bool      `json:"in_use"`
	Done   string    `json:"state,omitempty"` // what was done with it, or what is to be known
}

func (a *app) newClean() *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:   "clean [--remove] DIR",
		Short: "List, and on request remove, what interrupted commands left in a directory",
		Long: `List the hidden directories in DIR in which datasets were being made that were
to replace others, and that no process is at work on. A process that is at work
holds a lock; without locks, as on some network file systems, everything counts
as in use. With --remove they are removed; one that has the only copy of the
dataset that was being replaced is put back instead.`,
		Example: "  nczctl clean /data\n  nczctl clean --remove /data",
		Args:    args(cobra.ExactArgs(1)),
		RunE:    func(c *cobra.Command, list []string) error { return a.runClean(c.Context(), list[0], remove) },
	}
	c.Flags().BoolVar(&remove, "remove", false, "remove what is listed and not in use")
	return c
}

func (a *app) runClean(_ context.Context, dir string, remove bool) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	found, err := places.Find(abs, places.StagePrefix)
	if err != nil {
		return &inputError{"read", dir, err}
	}
	only := make([]bool, len(found))
	for i := range found {
		only[i] = found[i].OnlyCopy()
	}
	done := make(map[string]string)
	var failed error
	if remove {
		places.Sweep(abs, places.StagePrefix, func(f places.Found) {
			restored, err := places.Clean(f)
			switch {
			case err != nil && failed == nil:
				failed = &inputError{"remove", f.Dir, err}
			case err != nil:
			case restored:
				done[f.Dir] = "put back " + f.Mark.Target
			default:
				done[f.Dir] = "removed"
			}
		})
	}
	list := make([]leftover, 0, len(found))
	for i, f := range found {
		l := leftover{Path: f.Dir, Target: f.Mark.Target, Made: f.Mark.Made, InUse: f.InUse, Done: done[f.Dir]}
		if f.Mark.Host != "" {
			l.Owner = fmt.Sprintf("process %d on %s", f.Mark.PID, f.Mark.Host)
		}
		if l.Done == "" && only[i] {
			l.Done = "has the only copy"
		}
		list = append(list, l)
	}
	if a.flags.json {
		if err := a.printJSON(list); err != nil {
			return err
		}
		return failed
	}
	for _, l := range list {
		state := l.Done
		switch {
		case l.InUse:
			state = "in use"
		case state == "":
			state = "left over"
		}
		fmt.Fprintf(a.out, "%q: %s, for %q, by %s, %s\n", l.Path, state, l.Target, l.Owner, l.Made.Format(time.RFC3339))
	}
	return failed
}
