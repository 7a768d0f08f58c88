//go:build race

package inflate_test

// raceOn reports whether the race detector is on. The detector makes sync.Pool drop items
// at random.
const raceOn = true
