//go:build !unix

package zip_test

// fullEnv and writeTooMuch are only used on systems that can limit the size of files.
const fullEnv = "NCZARR_TEST_ZIP_FULL"

func writeTooMuch(string) {}
