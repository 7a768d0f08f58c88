package dataset

import (
	"bytes"
	"slices"
	"sync"

	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
)

// documents records the version and time of documents. It always records the documents
// that show whether the dataset or an array has been replaced: those of the root and of
// arrays. If the dataset is open for writing, it records all documents.
type documents struct {
	mu     sync.Mutex
	all    bool // record all documents
	opened map[string]zmap.Info
	absent map[string]bool      // requested and found to be absent; recorded only if all is set
	tried  map[string][]attempt // contents that may or may not have been put
	// updated holds the versions of documents that other writers have put into this dataset.
	// They differ from those in opened, which this process has read or put.
	updated map[string]zmap.Info
	sparse  map[*Var]bool // arrays that had absent chunks
	anchor  string        // see Dataset.checkNotReplaced
	events  int           // counts starts and ends of this process's own writes of the anchor; odd during a write
	check   sharedCheck
}

// attempt is a put of a document whose outcome may be unknown.
type attempt struct {
	text []byte // the content
	ours []byte // the content without changes of other writers
}

// note records the version and time of a document when the dataset is opened.
func (d *documents) note(key string, info zmap.Info) {
	dir, name := splitKey(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.all && !zarr.DescribesArray(name) && dir != "" {
		return
	}
	if d.opened == nil {
		d.opened = make(map[string]zmap.Info)
	}
	d.opened[key] = info
	delete(d.absent, key)
	delete(d.tried, key)
	delete(d.updated, key)
}

// noteUpdate records that another writer has put a document.
func (d *documents) noteUpdate(key string, info zmap.Info) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.updated == nil {
		d.updated = make(map[string]zmap.Info)
	}
	d.updated[key] = info
}

// isUpdate reports whether info is the version that noteUpdate has recorded.
func (d *documents) isUpdate(key string, info zmap.Info) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.updated[key]
	return ok && sameVersion(was, info)
}

// sameVersion reports whether a document that had version was still has it. A put does not return
// a time.
func sameVersion(was, now zmap.Info) bool {
	return now.Version == was.Version && (was.ModTime.IsZero() || now.ModTime.Equal(was.ModTime))
}

// forget drops the record of a document that was removed.
func (d *documents) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.opened, key)
}

// noteAbsent records that a document was requested and does not exist.
func (d *documents) noteAbsent(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.all {
		return
	}
	if d.absent == nil {
		d.absent = make(map[string]bool)
	}
	d.absent[key] = true
}

// attempt records the content of a document before it is written, because the outcome of
// a Put may be unknown. ours is the content without changes of other writers. It returns
// the content of the previous attempt.
func (d *documents) attempt(key string, text, ours []byte) (before []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tried == nil {
		d.tried = make(map[string][]attempt)
	}
	list := d.tried[key]
	if n := len(list); n > 0 {
		before = list[n-1].text
	}
	d.tried[key] = append(list[max(0, len(list)-maxAttempts+1):], attempt{text, ours})
	return before
}

// attempted returns the contents that may or may not have been put, without changes of other
// writers.
func (d *documents) attempted(key string) (ours [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.tried[key] {
		ours = append(ours, a.ours)
	}
	return ours
}

// hasTried reports whether this process has tried to put text.
func (d *documents) hasTried(key string, text []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.tried[key], func(a attempt) bool { return bytes.Equal(a.text, text) })
}

// isAbsent reports whether a document was absent when it was requested.
func (d *documents) isAbsent(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.absent[key]
}

// known returns the recorded version and time of a document.
func (d *documents) known(key string) (zmap.Info, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, ok := d.opened[key]
	return info, ok
}

// anchored returns the key of the anchor, and how often this process has started or ended a
// write of it.
func (d *documents) anchored() (key string, events int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.anchor, d.events
}

// countEvent counts the start or the end of a write of the anchor.
func (d *documents) countEvent() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events++
}

func (d *documents) setAnchor(key string, info zmap.Info) {
	d.note(key, info)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.anchor = key
}
