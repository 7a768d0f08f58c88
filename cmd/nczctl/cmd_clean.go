package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-695719ce/nczarr/core/dataset"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/open"
	places "github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
)

// leftover describes an object or directory that an interrupted command left behind.
type leftover struct {
	Path  string     `json:"path"`
	What  string     `json:"what"`
	Owner string     `json:"owner,omitempty"`
	Made  *time.Time `json:"made,omitempty"`
	State string     `json:"state"`          // whether the object is in use, or what clean did with it
	Next  string     `json:"next,omitempty"` // the command to run if the process has died
}

func (a *app) newClean() *cobra.Command {
	var remove, resume bool
	c := &cobra.Command{
		Use:   "clean [--remove | --resume-replace] PLACE",
		Short: "List or remove what interrupted commands left behind",
		Long: `List what interrupted commands left behind in a directory or dataset:

- hidden directories, in PLACE or beside it, that hold a new dataset until it
  replaces the old one. A running command locks its directory. On file systems
  without locks, such as some network file systems, nczctl treats all of them as
  in use;
- on object stores, new datasets beside PLACE that were written to replace it
  (PLACE.nczstage-LETTERS). nczctl cannot know whether a process still uses
  them. A dataset that is partly moved into place is kept: use --resume-replace;
- on object stores, the objects of an unfinished dataset at PLACE itself, and the
  claim that prevents other commands from creating a dataset there;
- the marks of writers that create a group or variable in Zarr v3, or died doing
  so (PATH/.ncznewnode);
- temporary objects that copy writes to find out whether its source and its
  destination are the same dataset (.nczprobe-LETTERS).

--remove removes all of these except directories in use and datasets that are
partly moved into place. If a directory holds the only copy of an old dataset,
--remove moves that dataset back into place instead. Together with the mark of a
writer, it removes the objects of the new group or variable unless other objects
exist there. nczctl cannot know whether the writer is dead: a running writer fails
and loses the data that it wrote since its last flush. The same applies to a
command that creates a dataset.

"nczctl repair --leftovers" removes what writers that extended a dimension left.

--resume-replace finishes an interrupted replacement on an object store, or
removes the claim if the dataset is complete and no new one exists beside it, as
copy --resume-replace does. The interrupted command must not be running.`,
		Example: "  nczctl clean /data\n  nczctl clean --remove /data/ocean.zarr",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if remove && resume {
				return &usageError{fmt.Errorf("--remove and --resume-replace cannot be combined")}
			}
			return a.runClean(c.Context(), list[0], remove, resume)
		},
	}
	c.Flags().BoolVar(&remove, "remove", false, "remove everything listed that is not in use")
	c.Flags().BoolVar(&resume, "resume-replace", false, "finish a replacement whose command died (it must not be running)")
	return c
}

func (a *app) runClean(ctx context.Context, url string, remove, resume bool) error {
	if _, err := a.start(ctx, url); err != nil {
		return err
	}
	loc, err := a.locate(url, false)
	if err != nil {
		return err
	}
	var list []leftover
	var failed error
	add := func(more []leftover, err error) {
		list = append(list, more...)
		if failed == nil {
			failed = err
		}
	}
	claimed := false
	if a.isLocal(ctx, loc) {
		if resume {
			return ncerr.Errorf(ncerr.ErrUnsupported, "resume", loc.Path, "a file or directory is replaced in one step, so nothing can be resumed; nczctl clean lists what was left behind")
		}
		add(cleanStages(loc.Path, remove))
	} else {
		claim, err := a.cleanClaim(ctx, loc, remove, resume)
		claimed = len(claim) > 0 && claim[0].Next != "" // another process owns the claim
		add(claim, err)
		add(a.cleanSiblings(ctx, loc, remove))
	}
	if !claimed && failed == nil {
		add(a.cleanMarks(ctx, url, remove))
	}
	if a.flags.json {
		if err := a.printJSON(append([]leftover{}, list...)); err != nil { // an empty list, not null
			return err
		}
		return failed
	}
	for _, l := range list {
		fmt.Fprintf(a.out, "%s: %s: %s", l.Path, l.What, l.State)
		if l.Owner != "" {
			fmt.Fprintf(a.out, ", by %s", l.Owner)
		}
		if l.Made != nil {
			fmt.Fprintf(a.out, ", %s", l.Made.Format(time.RFC3339))
		}
		if l.Next != "" {
			fmt.Fprintf(a.out, "; if that process has died: %s", l.Next)
		}
		fmt.Fprintln(a.out)
	}
	return failed
}

// cleanStages lists the stages in the directory path and the stages next to path that
// were made to replace it. If remove is set it removes the stages that are not in use.
func cleanStages(path string, remove bool) (list []leftover, failed error) {
	path, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	listStages := func(dir string, ours func(*places.Found) bool) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return
		}
		found, err := places.Find(dir, places.StagePrefix)
		if err != nil && failed == nil {
			failed = &inputError{"read", dir, err}
		}
		states := make(map[string]string)
		for i := range found {
			states[found[i].Dir] = stageState(&found[i])
		}
		if remove {
			places.Sweep(dir, places.StagePrefix, func(f places.Found) {
				if !ours(&f) {
					return
				}
				restored, err := places.Clean(f)
				switch {
				case err != nil && failed == nil:
					failed = &inputError{"remove", f.Dir, err}
				case err != nil:
				case restored:
					states[f.Dir] = "old dataset moved back into place"
				default:
					states[f.Dir] = "removed"
				}
			})
		}
		for i := range found {
			f := &found[i]
			if ours(f) {
				list = append(list, leftover{
					Path: f.Dir, What: fmt.Sprintf("stage for %q", f.Target()), State: states[f.Dir],
					Owner: fmt.Sprintf("process %d on %q", f.Mark.PID, f.Mark.Host), Made: &f.Mark.Made,
				})
			}
		}
	}
	listStages(path, func(*places.Found) bool { return true })
	listStages(filepath.Dir(path), func(f *places.Found) bool { return f.Target() == path })
	return list, failed
}

func stageState(f *places.Found) string {
	switch {
	case f.InUse:
		return "in use"
	case f.OnlyCopy():
		return "left over, holds the only copy of the old dataset"
	}
	return "left over"
}

// cleanClaim lists the claim on a location, which is in a store that does not support rename.
// If resume is set it finishes the replacement. If remove is set it removes an
// unfinished new dataset.
func (a *app) cleanClaim(ctx context.Context, loc *ncurl.Location, remove, resume bool) ([]leftover, error) {
	claim, err := dataset.FindClaim(ctx, loc, a.options())
	if err != nil || claim == nil && !resume {
		return nil, err
	}
	if claim == nil {
		claim = &dataset.Claim{} // ResumeReplacement reports the missing claim
	}
	l := leftover{Path: loc.Path, What: "claim of a process that replaces the dataset", State: "present", Owner: claim.Owner(), Next: claim.Remedy()}
	if claim.Creates {
		l.What = "claim of a process that creates a dataset"
	}
	if !claim.Created.IsZero() {
		l.Made = &claim.Created
	}
	switch {
	case resume:
		done, err := dataset.ResumeReplacement(ctx, loc, a.options())
		if err != nil {
			return nil, err
		}
		l.State, l.Next = done, ""
	case remove && claim.Creates:
		others, err := dataset.RemoveUnfinished(ctx, loc, a.options())
		if err != nil {
			return []leftover{l}, err
		}
		l.State, l.Next = "removed", ""
		if len(others) > 0 {
			l.State = fmt.Sprintf("removed, except %s that might not belong to the dataset, such as %q", countOf(len(others), "object"), others[0])
		}
	}
	return []leftover{l}, nil
}

// cleanSiblings lists the stages next to a store that does not support rename. If remove
// is set it removes the stages that are not claimed.
func (a *app) cleanSiblings(ctx context.Context, loc *ncurl.Location, remove bool) ([]leftover, error) {
	found, err := dataset.Stages(ctx, loc, a.options(), remove)
	list := make([]leftover, 0, len(found))
	for i := range found {
		f := &found[i]
		l := leftover{Path: f.Path, What: "unfinished new dataset", Owner: f.Claim.Owner(), State: "present"}
		switch {
		case f.Claimed:
			l.State, l.Next = "being moved into place", f.Claim.Remedy()
		case remove && err == nil:
			l.State = "removed"
		}
		list = append(list, l)
	}
	return list, err
}

// cleanMarks lists the marks of writers that create nodes, and the probe objects of copies,
// in the dataset at url. It returns nil if no dataset exists there. If remove is set, it
// also removes them.
func (a *app) cleanMarks(ctx context.Context, url string, remove bool) (list []leftover, err error) {
	opts := a.options()
	opts.Update = remove
	ds, err := open.Open(ctx, url, opts)
	switch ncerr.KindOf(err) {
	case ncerr.ErrNoDataset, ncerr.ErrNotZarr:
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer ds.Abort(ctx) //nolint:errcheck // the methods that change the dataset return their errors
	nodes, err := ds.NewNodes(ctx)
	if err != nil {
		return list, err
	}
	for i := range nodes {
		n := &nodes[i]
		l := leftover{Path: ds.Location().Path, What: fmt.Sprintf("mark of a writer that creates %q", n.Path), Owner: n.Claim.Owner(), State: "present"}
		if remove {
			others, err := ds.ClearNewNode(ctx, n)
			if err != nil {
				return append(list, l), err
			}
			l.State = "removed"
			if len(others) > 0 {
				l.State = fmt.Sprintf("kept, because other objects exist there, such as %q", others[0])
			}
		}
		list = append(list, l)
	}
	names, err := ds.Map().Search(ctx, "")
	if ncerr.KindOf(err) == ncerr.ErrUnsupported { // copies leave no probe objects in such a store
		return list, nil
	}
	for _, name := range names {
		if !zarr.IsProbe(name) {
			continue
		}
		l := leftover{Path: ds.Location().Path, What: fmt.Sprintf("temporary object %q of a copy", name), State: "present"}
		if remove {
			if err = ds.Map().Delete(ctx, name); err != nil {
				return append(list, l), err
			}
			l.State = "removed"
		}
		list = append(list, l)
	}
	return list, err
}
