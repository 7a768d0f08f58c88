//go:build race

package codec_test

// raceOn reports whether the race detector is enabled. The detector makes sync.Pool drop
// items at random.
const raceOn = true
