package nczarr

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
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Stores that cannot be renamed are replaced object by object. The new dataset
// is made in a store beside the old one, its stage, which is complete and
// durable before anything of the old one is touched. From then on a claim at
// the place of the old one names the stage, so that whoever finds it can go on
// where another process died.

const (
	// stageMid comes between the name of a store and the random end of the name
	// of its stage.
	stageMid = ".nczstage-"
	// stageLetters is the number of random letters at the end.
	stageLetters = 10
	// movers is the number of objects that are copied, or deleted, at once.
	movers = 8
)

// Claim records which process replaces a dataset, and from which stage, or makes
// a new one. The mark of a stage has the same form.
type Claim struct {
	About string    `json:"about"`
	ID    string    `json:"id,omitempty"`    // random, so that no two are equal
	Stage string    `json:"stage"`           // the path of the stage, as the driver has it
	Makes bool      `json:"makes,omitempty"` // nothing is replaced: a dataset is being made
	Host  string    `json:"host,omitempty"`
	PID   int       `json:"pid,omitempty"`
	Made  time.Time `json:"made,omitzero"`
	Force bool      `json:"force,omitempty"` // everything at the place is replaced, not only the dataset
	// Nodes are those of the dataset that is being made, or of the old one that is
	// being replaced, by their paths; nil if that is not known. Groups have nil.
	Nodes map[string]*zarr.ChunkKeys `json:"nodes,omitempty"`
	// Format is the version of Zarr of the dataset that is being made; 0 is 2.
	Format int `json:"zarr_format,omitempty"`

	place string // as errors show it
}

// Remedy returns the command for when the process has died.
func (c *Claim) Remedy() string {
	if c.Makes {
		return "nczctl clean --remove " + shell(c.place)
	}
	return "nczctl copy --resume-replace " + shell(c.place)
}

// Owner names the process for people.
func (c *Claim) Owner() string {
	if c.Host == "" && c.PID == 0 {
		return "an unknown process"
	}
	return fmt.Sprintf("process %d on %q since %s", c.PID, c.Host, c.Made.Format(time.RFC3339))
}

// sibling is the replacement of a store by one beside it.
type sibling struct {
	loc   *ncurl.Location // of the dataset that is replaced
	opts  Options
	stage string // path of the stage
	force bool
	keep  bool                       // a dataset; only what is none is replaced
	text  []byte                     // the mark of the stage, while it is in the making
	docs  zarr.Docs                  // of the old dataset, that show what belongs to it; nil if they were not read
	nodes map[string]*zarr.ChunkKeys // of the old dataset; nil if they are not known
}

// newSibling returns the replacement of the store at a location; nil if the
// driver has no stores beside it.
func newSibling(loc *ncurl.Location, opts Options, force, keep bool) (*sibling, error) {
	opener, err := opts.Registry.Driver(loc.Driver)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(loc.Path, "/") || !opener.Describe().Siblings { // beside a bucket are buckets
		return nil, nil
	}
	opts.Update = false
	opts.Remote.Cache = nil // of marks and claims only what is in the store counts
	return &sibling{loc: loc, opts: opts, force: force, keep: keep, stage: loc.Path + stageMid + strings.ToLower(rand.Text()[:stageLetters])}, nil
}

// claimText completes a claim, and returns what is stored of it.
func claimText(c Claim) ([]byte, error) {
	c.Host, _ = os.Hostname() // for people
	c.ID, c.PID, c.Made = rand.Text(), os.Getpid(), time.Now().UTC().Truncate(time.Second)
	return json.Marshal(c)
}

// claim returns what is written down about the replacement.
func (s *sibling) claim(about string) ([]byte, error) {
	return claimText(Claim{About: about, Stage: s.stage, Force: s.force})
}

// mark puts the mark into a new stage.
func (s *sibling) mark(ctx context.Context, m *zmap.Map) error {
	text, err := s.claim("a dataset is being made here that is to replace another one; nczctl clean removes it if its process died")
	if err == nil {
		_, err = m.Put(ctx, zarr.StageMark, driver.Bytes(text), nil)
	}
	s.text = text
	return err
}

// whole fails if somebody has begun to remove the stage since it was marked.
// Then it may lack chunks, which would read as fill.
func (s *sibling) whole(ctx context.Context) error {
	ds, err := s.open(ctx, s.stage, driver.Read)
	var text []byte
	if err == nil {
		text, _, err = ds.m.ReadAll(ctx, zarr.StageMark, maxMark)
		_ = ds.m.Close(ctx) // only read
	}
	if kind := ncerr.KindOf(err); err != nil && kind != ncerr.ErrNotFound && kind != ncerr.ErrNoDataset {
		return err
	}
	if err != nil || !bytes.Equal(text, s.text) {
		return ncerr.Errorf(ncerr.ErrConflict, "replace", s.loc.Path, "somebody has removed the new dataset, or part of it, while it was being made; the old one is as it was")
	}
	return nil
}

// condemn puts another mark into a stage that is to be removed, and reports
// whether it may be: not if its process has claimed the place meanwhile. A
// process that claims it later finds the mark.
func (s *sibling) condemn(ctx context.Context) (bool, error) {
	stage, err := s.open(ctx, s.stage, driver.Update)
	if err != nil {
		return false, err
	}
	defer stage.m.Close(ctx) //nolint:errcheck // it has been flushed, or an error told
	text, err := s.claim("this is being removed; nczctl clean goes on if that has died")
	if err == nil {
		_, err = stage.m.Put(ctx, zarr.StageMark, driver.Bytes(text), nil)
	}
	if err == nil {
		err = stage.m.Flush(ctx)
	}
	if err != nil {
		return false, err
	}
	now, err := s.claimedStage(ctx)
	return now != s.stage, err
}

// claimedStage returns the stage that the claim at the place names, if any.
func (s *sibling) claimedStage(ctx context.Context) (string, error) {
	claim, err := findClaim(ctx, s.loc, s.opts)
	if err != nil || claim == nil {
		return "", err
	}
	return claim.Stage, nil
}

// open opens the store at a path beside or at the place.
func (s *sibling) open(ctx context.Context, path string, mode driver.Mode) (*Dataset, error) {
	at := *s.loc
	at.Path = path
	return newDataset(ctx, &at, s.opts, mode)
}

// discard removes the stage. It deletes the mark last, so that Stages finds what
// an interrupted discard leaves.
func (s *sibling) discard(ctx context.Context) error {
	ds, err := s.open(ctx, s.stage, driver.Update)
	if err != nil {
		return err
	}
	defer ds.m.Close(ctx) //nolint:errcheck // Remove tells
	keys, err := listKeys(ctx, ds.m, "")
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == zarr.StageMark })
	if err := each(ctx, keys, movers, func(key string) error { return ds.m.Delete(ctx, key) }); err != nil {
		return err
	}
	err = ds.opener.Remove(ctx, ds.spec)
	if ncerr.KindOf(err) == ncerr.ErrNoDataset {
		err = nil
	}
	return ncerr.Wrap("remove", s.stage, err)
}

// commit replaces the dataset. Up to the claim nothing has changed; after it the
// replacement can be finished by [ResumeReplace] whenever this process ends.
func (s *sibling) commit(ctx context.Context) error {
	to, err := s.open(ctx, s.loc.Path, driver.Update)
	if err != nil {
		return alsoFailed(err, s.discard(context.WithoutCancel(ctx)))
	}
	defer to.m.Close(ctx) //nolint:errcheck // it has been flushed, or an error told
	if err := s.begin(ctx, to.m); err != nil {
		return alsoFailed(err, s.discard(context.WithoutCancel(ctx)))
	}
	if err := s.move(ctx, to.m); err != nil {
		return fmt.Errorf("%w; the dataset is being replaced, and the new one is complete in %q: nczctl copy --resume-replace %s finishes it", err, s.stage, shell(shown(s.loc)))
	}
	return nil
}

// begin looks at what is replaced once more, and claims the place.
func (s *sibling) begin(ctx context.Context, m *zmap.Map) error {
	c, err := storeContents(ctx, m, s.opts.Limits)
	if err != nil {
		return err
	}
	if err := c.refuse(s.loc.Path, s.force, s.keep); err != nil {
		return err
	}
	s.docs, s.nodes = c.docs, c.nodes
	about := Claim{About: "the dataset here is being replaced by the one in the store that is named; nczctl copy --resume-replace finishes that if its process died", Stage: s.stage, Force: s.force, Nodes: s.nodes}
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
			return claimed("replace", s.loc, claim, err)
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
	if err := s.whole(ctx); err != nil { // whoever removes it looks for the claim
		clean := context.WithoutCancel(ctx)
		derr := m.Delete(clean, zarr.ReplacingMark)
		if derr == nil {
			derr = m.Flush(clean)
		}
		return alsoFailed(err, derr)
	}
	return nil
}

// claimed returns the error for a place that another process is replacing, or
// making a dataset at.
func claimed(op string, loc *ncurl.Location, c *Claim, err error) error {
	switch {
	case err != nil:
		return err
	case c == nil:
		return ncerr.Errorf(ncerr.ErrConflict, op, loc.Path, "another process was replacing or making a dataset there and has just stopped: try again")
	}
	c.place = shown(loc)
	if c.Makes {
		return ncerr.Errorf(ncerr.ErrConflict, op, loc.Path, "a dataset is being made there by %s; if that process has died, remove what it left with: %s", c.Owner(), c.Remedy())
	}
	return ncerr.Errorf(ncerr.ErrConflict, op, loc.Path, "the dataset is being replaced by %s; if that process has died, finish with: %s", c.Owner(), c.Remedy())
}

// readClaim reads a claim, or the mark of a stage; nil if there is none.
func readClaim(ctx context.Context, m *zmap.Map, key string) (*Claim, error) {
	text, _, err := m.ReadAll(ctx, key, maxClaim)
	if ncerr.KindOf(err) == ncerr.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c Claim
	if json.Unmarshal(text, &c) != nil { // whoever wrote it, the place is claimed
		c = Claim{}
	}
	return &c, nil
}

// namesStage reports whether a path is that of a stage beside the store at
// another path. A claim comes from the store, and what it names is deleted in
// the end.
func namesStage(stage, path string) bool {
	end, ok := strings.CutPrefix(stage, path+stageMid)
	return ok && len(end) == stageLetters && strings.Trim(end, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// move puts the objects of the stage into the place. It may be done again from
// the beginning at any time: the stage stays as it is until all is done.
func (s *sibling) move(ctx context.Context, to *zmap.Map) error {
	stage, err := s.open(ctx, s.stage, driver.Read)
	if err != nil {
		return err
	}
	defer stage.m.Close(ctx) //nolint:errcheck // only read
	fresh, err := s.listStage(ctx, stage.m)
	if err != nil {
		return err
	}
	old, err := s.listOld(ctx, to, fresh)
	if err != nil {
		return err
	}
	isDoc := func(key string) bool { return zarr.IsZarrDoc(path.Base(key)) }
	inRoot := func(key string) bool { return isDoc(key) && !strings.Contains(key, "/") }
	isNode := func(key string) bool { return zarr.Announces(path.Base(key)) }
	remove := func(key string) error { return to.Delete(ctx, key) }
	var mu sync.Mutex
	versions := make(map[string]string, len(fresh)) // of what was put
	put := func(key string) error {
		body, _, err := stage.m.ReadAll(ctx, key, 0)
		var info zmap.Info
		if err == nil {
			info, err = to.Put(ctx, key, driver.Bytes(body), nil)
		}
		mu.Lock()
		defer mu.Unlock()
		versions[key] = info.Version
		return err
	}
	for _, name := range hiding(slices.DeleteFunc(slices.Concat(old, fresh), func(key string) bool { return !inRoot(key) })) {
		if err := remove(name); err != nil { // whoever opens it now finds the claim
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
		func() error { return each(ctx, chunks, movers, put) },
		func() error { return each(ctx, oldChunks, movers, remove) }, // the documents show what belongs to the old one
		func() error { return each(ctx, slices.DeleteFunc(slices.Clone(oldDocs), isNode), movers, remove) },
		func() error { // without which the others would be nobody's
			return each(ctx, slices.DeleteFunc(oldDocs, func(key string) bool { return !isNode(key) }), movers, remove)
		},
		func() error { return each(ctx, docs, movers, put) },
		func() error { return to.Flush(ctx) },
		func() error { // what a process wrote that had opened the old one
			lost, late, err := s.strayed(ctx, to, slices.Concat(chunks, docs), versions)
			if err == nil {
				err = each(ctx, late, movers, remove)
			}
			if err == nil {
				err = each(ctx, lost, movers, put)
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

// hiding puts the documents of a root into the order in which they are to be
// removed: first those by which it is opened, so that nobody opens a dataset
// that lacks its attributes.
func hiding(names []string) []string {
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
		return nil, ncerr.Errorf(ncerr.ErrNoDataset, "replace", s.stage, "the new dataset there is incomplete; --overwrite with --force replaces the old one with another")
	}
	return keys, nil
}

// strayed returns which of the objects that were put are no longer what was put,
// and which have come since and belong to the old dataset.
func (s *sibling) strayed(ctx context.Context, m *zmap.Map, put []string, versions map[string]string) (lost, late []string, err error) {
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

// listOld returns what is to be removed from the place: the objects of the old
// dataset that the new one has not, and others only by force.
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
	if !s.force { // which includes what came since begin has looked
		if s.nodes != nil { // a node that came since is not the old one's
			maps.Copy(stays, strangers(all, s.nodes))
		}
		if s.docs == nil {
			docs, err := memberDocs(ctx, all, movers, s.opts.Limits, inStore(ctx, m))
			if err != nil {
				return nil, err
			}
			s.docs = docs
		}
		foreign, _ := zarr.Foreign(slices.AppendSeq(zarr.WithGroups(all, s.nodes != nil), maps.Keys(s.docs)), s.docs) // those that were there say what belongs to them
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

// each calls f for all keys, several at once, until one call fails.
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

// ResumeReplace finishes a replacement that another process began and did not
// finish. If the old dataset is untouched and the new one is gone, the
// replacement is undone. The caller must know that the process is dead. The
// result says what was done.
func ResumeReplace(ctx context.Context, url string, o *Options) (done string, err error) {
	opts, loc, err := resolve(url, o, true)
	if err != nil {
		return "", err
	}
	opts.Update = false
	opts.Remote.Cache = nil // what is in the store counts
	s := &sibling{loc: loc, opts: opts}
	to, err := s.open(ctx, loc.Path, driver.Update)
	if err != nil {
		return "", err
	}
	defer to.m.Close(ctx) //nolint:errcheck // it has been flushed, or an error told
	claim, err := readClaim(ctx, to.m, zarr.ReplacingMark)
	if err != nil {
		return "", err
	}
	if claim == nil {
		return "", ncerr.Errorf(ncerr.ErrNotFound, "resume", loc.Path, "no replacement is in progress here")
	}
	if claim.Makes {
		return "", claimed("resume", loc, claim, nil)
	}
	if !namesStage(claim.Stage, loc.Path) {
		return "", ncerr.Errorf(ncerr.ErrMetadata, "parse", zmap.Path(zarr.ReplacingMark), "it names the store %q, which is not a stage of this dataset; --overwrite with --force replaces what is there", claim.Stage)
	}
	s.stage, s.force, s.nodes = claim.Stage, claim.Force, claim.Nodes
	err = s.move(ctx, to.m)
	if ncerr.KindOf(err) != ncerr.ErrNoDataset {
		return "replaced", err
	}
	// Either it was finished, but for the claim, or it was not begun.
	c, cerr := storeContents(ctx, to.m, opts.Limits)
	if cerr != nil || !c.dataset {
		return "", cmp.Or(cerr, err)
	}
	if err := to.m.Delete(ctx, zarr.ReplacingMark); err != nil {
		return "", err
	}
	return "undone", to.m.Flush(ctx)
}

// Leftover is a stage beside a store, as [Stages] finds it.
type Leftover struct {
	Path    string // as the driver has it
	Claim   Claim
	Claimed bool // the dataset is being replaced by it: see ResumeReplace
}

// Stages returns the stages beside the place that url names, on stores without
// rename. With remove, it deletes those that no claim names: the caller must
// know that no process still uses them.
func Stages(ctx context.Context, url string, o *Options, remove bool) ([]Leftover, error) {
	opts, loc, err := resolve(url, o, false)
	if err != nil {
		return nil, err
	}
	s, err := newSibling(loc, opts, false, false)
	if err != nil || s == nil || local(loc) {
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
	defer up.m.Close(ctx) //nolint:errcheck // only read
	names, err := up.m.Search(ctx, "")
	if err != nil {
		return nil, err
	}
	var out []Leftover
	for _, name := range names {
		if !strings.HasPrefix(name, path.Base(loc.Path)+stageMid) {
			continue
		}
		claim, err := readClaim(ctx, up.m, path.Join(name, zarr.StageMark))
		if err != nil {
			return out, err
		}
		l := Leftover{Path: path.Join(path.Dir(loc.Path), name)}
		if claim == nil || claim.Stage != l.Path || !namesStage(l.Path, loc.Path) { // not ours
			continue
		}
		l.Claim = *claim
		l.Claim.place = shown(loc)
		l.Claimed = l.Path == current
		if remove && !l.Claimed {
			gone := *s
			gone.stage = l.Path
			free, err := gone.condemn(ctx)
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

// unclaimed closes the dataset and fails if a process has claimed its place.
func (d *Dataset) unclaimed(ctx context.Context) error {
	claim, err := readClaim(ctx, d.m, zarr.ReplacingMark)
	if err == nil && claim == nil {
		return nil
	}
	return alsoFailed(notYet(d.loc, claim, err), d.m.Close(ctx))
}

// notYet returns why a place with a claim cannot be opened. One where a dataset
// is being made is no dataset yet.
func notYet(loc *ncurl.Location, claim *Claim, err error) error {
	found := claimed("open", loc, claim, err)
	var e *ncerr.Error
	if err == nil && claim.Makes && errors.As(found, &e) {
		e.Kind = ncerr.ErrNotZarr
	}
	return found
}

// beingReplaced returns why there is no dataset at a location, which is err
// unless one is being replaced, or made, there.
func beingReplaced(ctx context.Context, loc *ncurl.Location, opts Options, err error) error {
	kind := ncerr.KindOf(err)
	if local(loc) || kind != ncerr.ErrNotZarr && kind != ncerr.ErrConflict { // with a claim the store is not empty
		return err
	}
	if claim, cerr := findClaim(ctx, loc, opts); cerr == nil && claim != nil {
		return notYet(loc, claim, nil)
	}
	return err
}
