//go:build race

package builtin_test

// raceOn: the race detector makes sync.Pool forget things at random.
const raceOn = true
