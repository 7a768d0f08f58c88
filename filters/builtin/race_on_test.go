//go:build race

package builtin_test

// raceOn reports whether the race detector is on, with which sync.Pool drops items at
// random.
const raceOn = true
