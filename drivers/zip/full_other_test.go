//go:build !unix

package zip_test

// fullEnv and writeTooMuch have a use only where a process can be limited.
const fullEnv = "NCZARR_TEST_ZIP_FULL"

func writeTooMuch(string) {}
