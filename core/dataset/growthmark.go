package dataset

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/place"
	"github.com/seed-695719ce/nczarr/core/zarr"
	"github.com/seed-695719ce/nczarr/core/zmap"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// maxMark is the maximum size of a mark in bytes.
const maxMark = 64 << 10

// maxHost is the maximum length of the name of a host or writer in a mark.
const maxHost = 255

// maxMarks is the maximum number of marks that are read.
const maxMarks = 1000

// GrowthMark describes a writer that is extending a dimension, or that died while extending
// one.
type GrowthMark struct {
	About string `json:"about"`
	// Writer is a random name for the writer.
	Writer string `json:"writer,omitempty"`
	// Host and PID identify the writer's process, for messages.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Created is the time when the writer began.
	Created time.Time `json:"made,omitzero"`
	// Idle reports that the writer has flushed all that it wrote and keeps the mark only to
	// recognize the dataset later.
	Idle bool `json:"idle,omitempty"`
	// State reports whether the writer is running.
	State WriterState `json:"-"`

	key    string
	others int // number of marks that were not read; 0 for the mark of one writer
}

// WriterState reports whether the writer of a mark is running.
type WriterState uint8

// The states of writers.
const (
	WriterUnknown WriterState = iota // the store has no locks
	WriterRunning                    // the writer holds a lock on its mark
	WriterDied                       // the lock was released
)

// String returns the state as a part of a message.
func (s WriterState) String() string {
	switch s {
	case WriterRunning:
		return "running"
	case WriterDied:
		return "died"
	}
	return "running or died"
}

// Owner describes the writer for messages.
func (m *GrowthMark) Owner() string {
	if m.others > 0 {
		return fmt.Sprintf("%d other writers", m.others)
	}
	if m.Host == "" && m.PID == 0 {
		return "an unknown writer"
	}
	return fmt.Sprintf("process %d on %q", m.PID, m.Host)
}

// age returns the age of the mark for messages.
func (m *GrowthMark) age() string {
	if m.Created.IsZero() {
		return "unknown"
	}
	return time.Since(m.Created).Round(time.Second).String()
}

// ownMark is the mark of this process.
type ownMark struct {
	key  string
	info driver.Info
}

// newGrowthMark returns a mark of this process.
func newGrowthMark(about string) *GrowthMark {
	host, _ := os.Hostname() // for messages
	return &GrowthMark{About: about, Writer: rand.Text(), Host: host, PID: os.Getpid(), Created: time.Now().UTC().Truncate(time.Second)}
}

// markPath returns the path of the file that contains a mark, or "" if the mark is not a file
// that can be locked.
func (d *Dataset) markPath(key string) string {
	if d.store.Driver().Locality != driver.LocalDirectory {
		return ""
	}
	return filepath.Join(filepath.FromSlash(d.store.Path()), filepath.FromSlash(key))
}

// holdMark locks a mark, so that other processes can find out that this one is running. Chunks
// beyond the shapes must not be written before. It returns nil if the store has no locks.
func (d *Dataset) holdMark(key string) (*place.Hold, error) {
	path := d.markPath(key)
	if path == "" {
		return nil, nil
	}
	hold, err := place.NewFileHold(path)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil { // other writers would assume that this one has died
		return nil, ncerr.Errorf(ncerr.ErrConflict, "lock", zmap.Path(key), "%w", err)
	}
	return hold, nil
}

// GrowthMarks returns the marks of writers that are extending dimensions or that died while
// extending one, including the mark of this process. They are sorted by name. It returns nil if
// the store cannot be listed.
func (d *Dataset) GrowthMarks(ctx context.Context) ([]GrowthMark, error) {
	if !d.m.Capabilities().List {
		return nil, nil
	}
	marks, _, err := d.listMarks(ctx, "")
	return marks, err
}

// foreignMarks returns the marks of writers that extend dimensions, or died doing so, except
// the one with the key own.
func (d *Dataset) foreignMarks(ctx context.Context, own string) ([]GrowthMark, error) {
	marks, _, err := d.listMarks(ctx, own)
	return withoutIdle(marks), err
}

// listMarks returns all marks except the one with the key own, and whether that one exists. If
// there are more than maxMarks, the last element of marks counts the others.
func (d *Dataset) listMarks(ctx context.Context, own string) (marks []GrowthMark, exists bool, err error) {
	var keys []string
	more := 0
	for e, err := range d.m.List(ctx, zarr.GrowthMark+"/", &driver.ListOptions{Recursive: true}) {
		switch {
		case err != nil:
			return nil, false, err
		case e.Key == own:
			exists = true
		case len(keys) < maxMarks:
			keys = append(keys, e.Key)
		default:
			more++
		}
	}
	if !exists || !d.m.Capabilities().PrefixExclusive { // otherwise the own mark shows that the old one does not exist
		keys = append(keys, zarr.GrowthMark)
	}
	for _, key := range keys {
		m, err := d.readMark(ctx, key)
		if err != nil {
			return nil, false, err
		}
		if m != nil {
			marks = append(marks, *m)
		}
	}
	slices.SortFunc(marks, func(a, b GrowthMark) int { return strings.Compare(a.key, b.key) })
	if more > 0 {
		marks = append(marks, GrowthMark{others: more})
	}
	return marks, exists, nil
}

// readMark reads one mark. It returns nil if the mark does not exist.
func (d *Dataset) readMark(ctx context.Context, key string) (*GrowthMark, error) {
	text, info, err := d.m.ReadAll(ctx, key, maxMark)
	switch ncerr.KindOf(err) {
	case ncerr.ErrNotFound:
		return nil, nil
	case ncerr.ErrLimit:
		text = nil // an invalid mark is still a mark
	case 0:
		if err != nil { // a context error
			return nil, err
		}
	default:
		return nil, err
	}
	var m GrowthMark
	if json.Unmarshal(text, &m) != nil || len(m.Host) > maxHost || len(m.Writer) > maxHost { // this program has not put it
		m = GrowthMark{}
	}
	m.About = "" // of no use to readers, and of any length
	if m.Created.IsZero() {
		m.Created = info.ModTime
	}
	m.key = key
	if path := d.markPath(key); path != "" && key != zarr.GrowthMark { // earlier versions did not lock their marks
		if held, known := place.FileHeld(path); held {
			m.State = WriterRunning
		} else if known {
			m.State = WriterDied
		}
	}
	return &m, nil
}

// refuseMarks fails if marks is not empty.
func (d *Dataset) refuseMarks(marks []GrowthMark) error {
	if len(marks) == 0 {
		return nil
	}
	m := &marks[0]
	return ncerr.Errorf(ncerr.ErrConflict, "grow", zarr.GrowthMark,
		"another writer is extending a dimension, and the store has no conditional writes: %s, whose mark is %s old; wait for it to finish or, if it has died, remove what it left with: nczctl repair --leftovers %s", m.Owner(), m.age(), shellQuote(displayLoc(d.loc)))
}

// shellQuote quotes a word for a shell command line.
func shellQuote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
