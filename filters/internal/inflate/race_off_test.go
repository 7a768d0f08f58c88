//go:build !race

package inflate_test

const raceOn = false
