//go:build !linux

package layer_test

// limitFiles cannot simulate a full disk on this system, so limited is false and the
// test checks only the content.
const (
	limitVar = "NCZARR_TEST_LIMIT"
	limited  = false
)

func limitFiles() {}
