//go:build !race

package nczarr_test

// raceDetector says that the race detector is on, which allocates.
const raceDetector = false
