package dataset

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/ncurl"
	"github.com/seed-695719ce/nczarr/core/store"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Stores that cannot be renamed are replaced object by object. The new dataset is
// created in a stage, a store next to the old one. The stage is complete and durable
// before the old dataset is touched. From then on, a claim at the location of the old
// dataset contains the path of the stage, so that another process can finish the
// replacement if this one dies.

const (
	// stageInfix separates the name of a store from the random suffix in the name of its
	// stage.
	stageInfix = ".nczstage-"
	// stageLetters is the number of random letters in the suffix.
	stageLetters = 10
)

// Claim describes a process that is replacing a dataset by the contents of a stage, or is
// creating a new dataset. The mark of a stage has the same form.
type Claim struct {
	About   string    `json:"about"`
	ID      string    `json:"id,omitempty"`    // random, so that no two claims are equal
	Stage   string    `json:"stage"`           // path of the stage in the form that the driver uses
	Creates bool      `json:"makes,omitempty"` // a new dataset is being created and nothing is replaced
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Created time.Time `json:"made,omitzero"`
	Force   bool      `json:"force,omitempty"` // everything at the location is replaced, not only the dataset
	// Nodes are the nodes of the dataset being created, or of the old dataset being
	// replaced, by path; nil if unknown. The value for a group is nil.
	Nodes map[string]*zarr.ChunkKeys `json:"nodes,omitempty"`
	// Format is the Zarr version of the dataset being created; 0 means 2.
	Format int `json:"zarr_format,omitempty"`

	place string // location as error messages show it
}

// Remedy returns the command that cleans up if the process has died.
func (c *Claim) Remedy() string {
	if c.Creates {
		return "nczctl clean --remove " + shellQuote(c.place)
	}
	return "nczctl copy --resume-replace " + shellQuote(c.place)
}

// Owner describes the process for messages.
func (c *Claim) Owner() string {
	if c.Host == "" && c.PID == 0 {
		return "an unknown process"
	}
	return fmt.Sprintf("process %d on %q since %s", c.PID, c.Host, c.Created.Format(time.RFC3339))
}

// sibling replaces a store with the contents of a stage next to it.
type sibling struct {
	loc   *ncurl.Location // location of the dataset that is replaced
	opts  Options
	stage string // path of the stage
	force bool
	keep  bool                       // do not replace a dataset, only other contents
	text  []byte                     // the mark of the stage while the new dataset is created
	docs  zarr.Docs                  // documents that identify the old dataset's objects; nil if not read
	nodes map[string]*zarr.ChunkKeys // nodes of the old dataset; nil if not known
}

// newSibling returns a sibling that replaces the store at a location, or nil if the
// driver does not support stores next to it.
func newSibling(loc *ncurl.Location, opts Options, force, keep bool) (*sibling, error) {
	opener, err := opts.Registry.Driver(loc.Driver)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(loc.Path, "/") || !opener.Describe().Siblings { // a bucket's siblings would be buckets
		return nil, nil
	}
	opts.Update = false
	opts.Remote.Cache = nil // read marks and claims without the cache
	return &sibling{loc: loc, opts: opts, force: force, keep: keep, stage: loc.Path + stageInfix + strings.ToLower(rand.Text()[:stageLetters])}, nil
}

// claimText completes a claim and returns its stored form.
func claimText(c Claim) ([]byte, error) {
	c.Host, _ = os.Hostname() // for messages
	c.ID, c.PID, c.Created = rand.Text(), os.Getpid(), time.Now().UTC().Truncate(time.Second)
	return json.Marshal(c)
}

// claim returns the stored form of a claim for the replacement.
func (s *sibling) claim(about string) ([]byte, error) {
	return claimText(Claim{About: about, Stage: s.stage, Force: s.force})
}

// mark puts the mark into a new stage.
func (s *sibling) mark(ctx context.Context, m *zmap.Map) error {
	text, err := s.claim("a dataset that will replace another one is being created here; nczctl clean removes it if its process died")
	if err == nil {
		_, err = m.Put(ctx, zarr.StageMark, driver.Bytes(text), nil)
	}
	s.text = text
	return err
}

// checkStage fails if another process has begun to remove the stage since it was
// marked. The stage may then lack chunks, which would read as the fill value.
func (s *sibling) checkStage(ctx context.Context) error {
	stage, err := s.open(ctx, s.stage, driver.Read)
	var text []byte
	if err == nil {
		text, _, err = stage.ReadAll(ctx, zarr.StageMark, maxMark)
		_ = stage.Close(ctx) // opened for reading only
	}
	if kind := ncerr.KindOf(err); err != nil && kind != ncerr.ErrNotFound && kind != ncerr.ErrNoDataset {
		return err
	}
	if err != nil || !bytes.Equal(text, s.text) {
		return ncerr.Errorf(ncerr.ErrConflict, "replace", s.loc.Path, "another process removed the new dataset or part of it while it was being created; the old one is unchanged")
	}
	return nil
}

// markForRemoval replaces the mark of a stage, and reports whether the stage may be
// removed. It must not be removed if its process has claimed the location in the
// meantime. A process that claims the location later finds the new mark.
func (s *sibling) markForRemoval(ctx context.Context) (bool, error) {
	stage, err := s.open(ctx, s.stage, driver.Update)
	if err != nil {
		return false, err
	}
	defer stage.Close(ctx) //nolint:errcheck // it was flushed or an error is returned
	text, err := s.claim("this dataset is being removed; nczctl clean completes the removal if it was interrupted")
	if err == nil {
		_, err = stage.Put(ctx, zarr.StageMark, driver.Bytes(text), nil)
	}
	if err == nil {
		err = stage.Flush(ctx)
	}
	if err != nil {
		return false, err
	}
	now, err := s.claimedStage(ctx)
	return now != s.stage, err
}

// claimedStage returns the path of the stage in the claim at the location, or "".
func (s *sibling) claimedStage(ctx context.Context) (string, error) {
	claim, err := findClaim(ctx, s.loc, s.opts)
	if err != nil || claim == nil {
		return "", err
	}
	return claim.Stage, nil
}

// open opens the store at a path, which is the path of the location or of a stage.
func (s *sibling) open(ctx context.Context, path string, mode driver.Mode) (*store.Store, error) {
	at := *s.loc
	at.Path = path
	return openStore(ctx, &at, s.opts, mode)
}

// discard removes the stage. It deletes the mark last, so that Stages finds the remains
// of an interrupted discard.
func (s *sibling) discard(ctx context.Context) error {
	stage, err := s.open(ctx, s.stage, driver.Update)
	if err != nil {
		return err
	}
	defer stage.Close(ctx) //nolint:errcheck // Remove returns the errors
	keys, err := listKeys(ctx, stage.Map, "")
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == zarr.StageMark })
	if err := each(ctx, keys, storeConcurrency, func(key string) error { return stage.Delete(ctx, key) }); err != nil {
		return err
	}
	err = stage.Remove(ctx)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		err = nil
	}
	return ncerr.Wrap("remove", s.stage, err)
}

// commit replaces the dataset. It changes nothing before it puts the claim. After that,
// [ResumeReplacement] can finish the replacement if this process dies.
func (s *sibling) commit(ctx context.Context) error {
	to, err := s.open(ctx, s.loc.Path, driver.Update)
	if err != nil {
		return joinCleanupError(err, s.discard(context.WithoutCancel(ctx)))
	}
	defer to.Close(ctx) //nolint:errcheck // it was flushed or an error is returned
	if err := s.begin(ctx, to.Map); err != nil {
		return joinCleanupError(err, s.discard(context.WithoutCancel(ctx)))
	}
	if err := s.move(ctx, to.Map); err != nil {
		return fmt.Errorf("%w; the dataset is being replaced, and the new one is complete in %q; to finish the replacement, run: nczctl copy --resume-replace %s", err, s.stage, shellQuote(displayLoc(s.loc)))
	}
	return nil
}

// begin examines the contents to be replaced again and claims the location.
func (s *sibling) begin(ctx context.Context, m *zmap.Map) error {
	c, err := storeContents(ctx, m, s.opts.Limits)
	if err != nil {
		return err
	}
	if err := c.refuse(s.loc.Path, s.force, s.keep); err != nil {
		return err
	}
	s.docs, s.nodes = c.docs, c.nodes
	about := Claim{About: "the dataset here is being replaced by the one in the named store; nczctl copy --resume-replace finishes the replacement if its process died", Stage: s.stage, Force: s.force, Nodes: s.nodes}
	text, err := claimText(about)
	if err == nil && len(text) > maxClaim {
		about.Nodes = nil
		text, err = claimText(about)
	}
	if err != nil {
		return err
	}
	ifAbsent := m.Capabilities().IfAbsent && !s.force
	if !ifAbsent && !s.force {
		if claim, err := readClaim(ctx, m, zarr.ReplacingMark); err != nil || claim != nil {
			return claimedError("replace", s.loc, claim, err)
		}
	}
	if ifAbsent {
		_, err = putClaim(ctx, m, "replace", s.loc, text)
	} else {
		_, err = m.Put(ctx, zarr.ReplacingMark, driver.Bytes(text), nil)
	}
	if err == nil {
		err = m.Flush(ctx)
	}
	if err != nil {
		return err
	}
	if err := s.checkStage(ctx); err != nil { // a process that removes the stage marks it first and then looks for the claim
		clean := context.WithoutCancel(ctx)
		derr := m.Delete(clean, zarr.ReplacingMark)
		if derr == nil {
			derr = m.Flush(clean)
		}
		return joinCleanupError(err, derr)
	}
	return nil
}

// claimedError returns the error for a location where another process is replacing or
// creating a dataset.
func claimedError(op string, loc *ncurl.Location, c *Claim, err error) error {
	switch {
	case err != nil:
		return err
	case c == nil:
		return ncerr.Errorf(ncerr.ErrConflict, op, loc.Path, "another process was replacing or creating a dataset at this location, and has since stopped: try again")
	}
	c.place = displayLoc(loc)
	if c.Creates {
		return ncerr.Errorf(ncerr.ErrConflict, op, loc.Path, "a dataset is being created at this location by %s; if that process has died, remove its leftovers with: %s", c.Owner(), c.Remedy())
	}
	return ncerr.Errorf(ncerr.ErrConflict, op, loc.Path, "the dataset is being replaced by %s; if that process has died, finish the replacement with: %s", c.Owner(), c.Remedy())
}

// readClaim reads a claim or the mark of a stage. It returns nil if none exists.
func readClaim(ctx context.Context, m *zmap.Map, key string) (*Claim, error) {
	text, _, err := m.ReadAll(ctx, key, maxClaim)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c Claim
	if json.Unmarshal(text, &c) != nil { // an invalid claim is still a claim
		c = Claim{}
	}
	return &c, nil
}

// isStageOf reports whether stage is the path of a stage of the store at path. A claim
// is untrusted data, and the stage that it specifies is deleted after the replacement.
func isStageOf(stage, path string) bool {
	end, ok := strings.CutPrefix(stage, path+stageInfix)
	return ok && len(end) == stageLetters && strings.Trim(end, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// move copies the objects of the stage to the location. It can be repeated from the
// start at any time, because the stage does not change before the last step.
func (s *sibling) move(ctx context.Context, to *zmap.Map) error {
	stage, err := s.open(ctx, s.stage, driver.Read)
	if err != nil {
		return err
	}
	defer stage.Close(ctx) //nolint:errcheck // opened for reading only
	fresh, err := s.listStage(ctx, stage.Map)
	if err != nil {
		return err
	}
	old, err := s.listOld(ctx, to, fresh)
	if err != nil {
		return err
	}
	isDoc := func(key string) bool { return zarr.IsZarrDoc(path.Base(key)) }
	inRoot := func(key string) bool { return isDoc(key) && !strings.Contains(key, "/") }
	isNode := func(key string) bool { return zarr.IsNodeDoc(path.Base(key)) }
	remove := func(key string) error { return to.Delete(ctx, key) }
	var mu sync.Mutex
	versions := make(map[string]string, len(fresh)) // versions of the objects that were put
	put := func(key string) error {
		body, _, err := stage.ReadAll(ctx, key, 0)
		var info zmap.Info
		if err == nil {
			info, err = to.Put(ctx, key, driver.Bytes(body), nil)
		}
		mu.Lock()
		defer mu.Unlock()
		versions[key] = info.Version
		return err
	}
	for _, name := range removalOrder(slices.DeleteFunc(slices.Concat(old, fresh), func(key string) bool { return !inRoot(key) })) {
		if err := remove(name); err != nil { // from the first removal on, a reader that opens the dataset finds the claim
			return err
		}
	}
	sorted := func(keys []string) (chunks, docs, roots []string) {
		for _, key := range keys {
			switch {
			case inRoot(key):
				roots = append(roots, key)
			case isDoc(key):
				docs = append(docs, key)
			default:
				chunks = append(chunks, key)
			}
		}
		return chunks, docs, roots
	}
	chunks, docs, roots := sorted(fresh)
	oldChunks, oldDocs, _ := sorted(old)
	slices.SortStableFunc(roots, func(a, b string) int { return cmp.Compare(announces(a), announces(b)) })
	for _, step := range []func() error{
		func() error { return each(ctx, chunks, storeConcurrency, put) },
		func() error { return each(ctx, oldChunks, storeConcurrency, remove) }, // before the documents, which identify the old dataset's objects
		func() error {
			return each(ctx, slices.DeleteFunc(slices.Clone(oldDocs), isNode), storeConcurrency, remove)
		},
		func() error { // the last deletion, because these documents identify the others
			return each(ctx, slices.DeleteFunc(oldDocs, func(key string) bool { return !isNode(key) }), storeConcurrency, remove)
		},
		func() error { return each(ctx, docs, storeConcurrency, put) },
		func() error { return to.Flush(ctx) },
		func() error { // undo writes of processes that had opened the old dataset
			lost, late, err := s.lateChanges(ctx, to, slices.Concat(chunks, docs), versions)
			if err == nil {
				err = each(ctx, late, storeConcurrency, remove)
			}
			if err == nil {
				err = each(ctx, lost, storeConcurrency, put)
			}
			return err
		},
		func() error { return to.Flush(ctx) },
		func() error { return each(ctx, roots, 1, put) },
		func() error { return to.Flush(ctx) },
		func() error { return remove(zarr.ReplacingMark) },
		func() error { return to.Flush(ctx) },
		func() error { return s.discard(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// removalOrder sorts the documents of a root in order of removal. Documents that make
// the dataset visible come first, so that no reader opens a dataset without its
// attributes.
func removalOrder(names []string) []string {
	rank := func(name string) int {
		switch {
		case name == zarr.ConsolidatedDoc:
			return 0
		case announces(name) == 1:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return names
}

// listStage returns the objects of the new dataset.
func (s *sibling) listStage(ctx context.Context, m *zmap.Map) ([]string, error) {
	keys, err := listKeys(ctx, m, "")
	if err != nil {
		return nil, err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == zarr.StageMark })
	if _, dataset := zarr.Foreign(keys, nil); !dataset {
		return nil, ncerr.Errorf(ncerr.ErrNoDataset, "replace", s.stage, "the new dataset is incomplete; use --overwrite and --force to replace the old one with another")
	}
	return keys, nil
}

// lateChanges returns the objects that were put and have changed or disappeared since,
// and the objects of the old dataset that were written in the meantime.
func (s *sibling) lateChanges(ctx context.Context, m *zmap.Map, put []string, versions map[string]string) (lost, late []string, err error) {
	if late, err = s.listOld(ctx, m, put); err != nil {
		return nil, nil, err
	}
	gone := make(map[string]bool, len(put))
	for _, key := range put {
		gone[key] = true
	}
	for e, err := range m.ListAll(ctx, "", &zmap.ListOptions{Recursive: true}) {
		if err != nil {
			return nil, nil, err
		}
		if was, now := versions[e.Key], e.Info.Version; was == now || was == "" || now == "" {
			delete(gone, e.Key)
		}
	}
	return slices.Sorted(maps.Keys(gone)), late, nil
}

// listOld returns the objects to remove from the location: those of the old dataset
// that the new one does not have and, with force, all others.
func (s *sibling) listOld(ctx context.Context, m *zmap.Map, fresh []string) ([]string, error) {
	stays := make(map[string]bool, len(fresh))
	for _, key := range fresh {
		stays[key] = true
	}
	stays[zarr.ReplacingMark] = true
	all, err := listKeys(ctx, m, "")
	if err != nil {
		return nil, err
	}
	var keys []string
	if !s.force { // force also removes objects that are newer than begin's listing
		if s.nodes != nil { // newer nodes do not belong to the old dataset
			maps.Copy(stays, unknownNodes(all, s.nodes))
		}
		if s.docs == nil {
			docs, err := memberDocs(ctx, all, storeConcurrency, s.opts.Limits, storeReader(ctx, m))
			if err != nil {
				return nil, err
			}
			s.docs = docs
		}
		foreign, _ := zarr.Foreign(slices.AppendSeq(zarr.WithGroups(all, s.nodes != nil), maps.Keys(s.docs)), s.docs) // the old documents identify their objects
		for _, key := range foreign {
			stays[key] = true
		}
	}
	for _, key := range all {
		if !stays[key] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// storeConcurrency is the maximum number of concurrent requests when many objects are
// read, copied or deleted.
const storeConcurrency = 8

// each calls f for all keys concurrently until a call fails.
func each(ctx context.Context, keys []string, workers int, f func(key string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, workers))
	for _, key := range keys {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(key)
		})
	}
	return g.Wait()
}

// ResumeReplacement finishes a replacement that another process began and did not
// finish. If the stage no longer exists and the dataset is complete, it only removes
// the claim, because it cannot know whether the dataset is the old or the new one. The
// caller must be sure that the process is dead. The result is "replaced" or "claim removed".
func ResumeReplacement(ctx context.Context, loc *ncurl.Location, o *Options) (done string, err error) {
	opts, err := o.complete(loc)
	if err != nil {
		return "", err
	}
	opts.Update = false
	opts.Remote.Cache = nil // bypass the cache
	s := &sibling{loc: loc, opts: opts}
	to, err := s.open(ctx, loc.Path, driver.Update)
	if err != nil {
		return "", err
	}
	defer to.Close(ctx) //nolint:errcheck // it was flushed or an error is returned
	claim, err := readClaim(ctx, to.Map, zarr.ReplacingMark)
	if err != nil {
		return "", err
	}
	if claim == nil {
		return "", ncerr.Errorf(ncerr.ErrNotFound, "resume", loc.Path, "no replacement is in progress at this location")
	}
	if claim.Creates {
		return "", claimedError("resume", loc, claim, nil)
	}
	if !isStageOf(claim.Stage, loc.Path) {
		return "", ncerr.Errorf(ncerr.ErrMetadata, "parse", zmap.Path(zarr.ReplacingMark), "the claim names the store %q, which is not a stage of this dataset; use --overwrite and --force to replace the dataset", claim.Stage)
	}
	s.stage, s.force, s.nodes = claim.Stage, claim.Force, claim.Nodes
	err = s.move(ctx, to.Map)
	if ncerr.KindOf(err) != ncerr.ErrNoDataset {
		return "replaced", err
	}
	// The replacement had not begun, or it was finished except for the claim.
	c, cerr := storeContents(ctx, to.Map, opts.Limits)
	if cerr != nil || !c.dataset {
		return "", cmp.Or(cerr, err)
	}
	if err := to.Delete(ctx, zarr.ReplacingMark); err != nil {
		return "", err
	}
	return "claim removed", to.Flush(ctx)
}

// Leftover is a stage next to a store; see [Stages].
type Leftover struct {
	Path    string // in the form that the driver uses
	Claim   Claim
	Claimed bool // the stage is replacing the dataset: see ResumeReplacement
}

// Stages returns the stages of the dataset at a location. Only stores without rename have
// stages. If remove is set, Stages deletes those without a claim. The caller must then
// be sure that no process still uses them.
func Stages(ctx context.Context, loc *ncurl.Location, o *Options, remove bool) ([]Leftover, error) {
	opts, err := o.complete(loc)
	if err != nil {
		return nil, err
	}
	s, err := newSibling(loc, opts, false, false)
	if err != nil || s == nil || opts.isLocal(ctx, loc) {
		return nil, err
	}
	current, err := s.claimedStage(ctx)
	if err != nil {
		return nil, err
	}
	up, err := s.open(ctx, path.Dir(loc.Path), driver.Read)
	if err != nil {
		return nil, err
	}
	defer up.Close(ctx) //nolint:errcheck // opened for reading only
	names, err := up.Search(ctx, "")
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, name := range names {
		if !strings.HasPrefix(name, path.Base(loc.Path)+stageInfix) {
			continue
		}
		claim, err := readClaim(ctx, up.Map, path.Join(name, zarr.StageMark))
		if err != nil {
			return out, err
		}
		l := Leftover{Path: path.Join(path.Dir(loc.Path), name)}
		if claim == nil || claim.Stage != l.Path || !isStageOf(l.Path, loc.Path) { // not a stage of this dataset
			continue
		}
		l.Claim = *claim
		l.Claim.place = displayLoc(loc)
		l.Claimed = l.Path == current
		if remove && !l.Claimed {
			gone := *s
			gone.stage = l.Path
			free, err := gone.markForRemoval(ctx)
			if err == nil && free {
				err = gone.discard(ctx)
			}
			if err != nil {
				return out, err
			}
			l.Claimed = !free
		}
		out = append(out, l)
	}
	return out, nil
}

// checkUnclaimed fails if a process has claimed the location of the dataset or the claim
// cannot be read. Before it fails, it closes the dataset.
func (d *Dataset) checkUnclaimed(ctx context.Context) error {
	claim, err := readClaim(ctx, d.m, zarr.ReplacingMark)
	if err == nil && claim == nil {
		return nil
	}
	return joinCleanupError(claimedOpenError(d.loc, claim, err), d.m.Close(ctx))
}

// claimedOpenError returns the error for opening a claimed location. It is of kind
// ncerr.ErrNotZarr if a dataset is being created there.
func claimedOpenError(loc *ncurl.Location, claim *Claim, err error) error {
	found := claimedError("open", loc, claim, err)
	var e *ncerr.Error
	if err == nil && claim.Creates && errors.As(found, &e) {
		e.Kind = ncerr.ErrNotZarr
	}
	return found
}

// replacedError returns a more specific error than err if a dataset is being replaced
// or created at the location, and err otherwise.
func replacedError(ctx context.Context, loc *ncurl.Location, opts Options, err error) error {
	kind := ncerr.KindOf(err)
	if kind != ncerr.ErrNotZarr && kind != ncerr.ErrConflict || opts.isLocal(ctx, loc) { // other kinds cannot result from a claim
		return err
	}
	if claim, cerr := findClaim(ctx, loc, opts); cerr == nil && claim != nil {
		return claimedOpenError(loc, claim, nil)
	}
	return err
}
