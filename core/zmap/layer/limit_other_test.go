//go:build !linux

package layer_test

// Other systems do not simulate a full disk, but the content is still checked.
const (
	limitVar = "NCZARR_TEST_LIMIT"
	limited  = false
)

func limitFiles() {}
