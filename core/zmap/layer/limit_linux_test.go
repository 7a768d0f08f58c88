package layer_test

import (
	"os"
	"os/signal"
	"syscall"
)

// limitVar is the environment variable that enables limitFiles. limited is true if
// limitFiles has an effect on this system.
const (
	limitVar = "NCZARR_TEST_LIMIT"
	limited  = true
)

// limitFiles makes every write to a file fail, as on a full disk.
func limitFiles() {
	if os.Getenv(limitVar) == "" {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
		panic(err)
	}
}
