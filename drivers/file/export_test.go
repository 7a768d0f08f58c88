package file

import (
	"context"

	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// Slow is an Opener that behaves as on a system without openFast and statFast.
type Slow struct{ Opener }

// Open implements driver.Opener.
func (s Slow) Open(ctx context.Context, spec driver.OpenSpec) (driver.Map, error) {
	m, err := s.Opener.Open(ctx, spec)
	if m, ok := m.(*Map); ok {
		m.slow.Store(true)
	}
	return m, err
}

// Lockless is an Opener that behaves as on a file system without locks.
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

// OtherSpelling exports otherSpelling.
var OtherSpelling = otherSpelling

// Folds reports whether the driver detected that the file system of a Map folds or
// rewrites names.
func Folds(m driver.Map) (folds, rewrites bool) {
	f, ok := m.(*Map)
	return ok && f.folds, ok && f.rewrites
}

// TemporaryFor exports temporaryFor.
var TemporaryFor = temporaryFor
