//go:build !linux

package killpoint

import (
	"fmt"
	"os"
)

// Main is the command, which this system cannot run.
func Main() {
	fmt.Fprintln(os.Stderr, "killpoint: only Linux can trace")
	os.Exit(125)
}
