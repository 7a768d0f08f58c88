//go:build race

package builtin_test

// raceOn reports whether the race detector is on. The detector makes sync.Pool drop items
// at random.
const raceOn = true
