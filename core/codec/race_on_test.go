//go:build race

package codec_test

// raceOn is set because the race detector makes sync.Pool drop items at random.
const raceOn = true
