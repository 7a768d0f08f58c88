//go:build !linux

package layer_test

// limitFiles does nothing on other systems, which cannot simulate a full disk. The
// content is still checked.
const (
	limitVar = "NCZARR_TEST_LIMIT"
	limited  = false
)

func limitFiles() {}
