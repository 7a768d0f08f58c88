//go:build race

package dataset_test

// raceDetector reports whether the race detector, which allocates memory, is on.
const raceDetector = true
