package file

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Slow is the driver on a system without the fast way to open files.
type Slow struct{ Opener }

// Open implements driver.Opener.
func (s Slow) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := s.Opener.Open(ctx, spec)
	if m, ok := m.(*Map); ok {
		m.slow.Store(true)
	}
	return m, err
}

// Lockless is the driver on a file system without locks.
type Lockless struct{ Opener }

// Open implements driver.Opener.
func (l Lockless) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := l.Opener.Open(ctx, spec)
	if m, ok := m.(*Map); ok {
		m.locks = false
		m.lockless.Store(true)
	}
	return m, err
}

// OtherSpelling is otherSpelling.
var OtherSpelling = otherSpelling // for tests

// Folds reports what a Map found out about its file system.
func Folds(m driver.Map) (folds, rewrites bool) {
	f, ok := m.(*Map)
	return ok && f.folds, ok && f.rewrites
}

// TemporaryFor is temporaryFor.
var TemporaryFor = temporaryFor // for tests
