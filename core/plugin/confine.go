package plugin

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
)

// confine puts the sandbox that the host asked for in force, and gives its
// policy, nil when none was asked for. Without it the process does not go on.
func confine() *sandbox.Policy {
	text := os.Getenv(handshake.EnvSandbox)
	if text == "" {
		return nil
	}
	if os.Getenv(handshake.EnvExec) != "" {
		runtime.LockOSThread() // until the execution
	}
	p, err := sandbox.Apply(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no sandbox:", err)
		os.Exit(handshake.ExitSandbox)
	}
	return p
}

// seal gives up what only the start needed.
func seal(p *sandbox.Policy) {
	if err := p.Seal(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot seal the sandbox:", err)
		os.Exit(handshake.ExitSandbox)
	}
}

// execute puts the program at path in the place of this one, which was its
// launcher. It does not return.
func execute(path string) {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return name == handshake.EnvSandbox || name == handshake.EnvExec
	})
	err := syscall.Exec(path, os.Args, env)
	fmt.Fprintln(os.Stderr, "cannot be executed:", err)
	os.Exit(handshake.ExitSandbox)
}
