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

// confine applies the sandbox policy from the environment and returns it. It returns
// nil if the host did not request a sandbox. If the policy cannot be applied, confine
// exits the process.
func confine() *sandbox.Policy {
	text := os.Getenv(handshake.EnvSandbox)
	if text == "" {
		return nil
	}
	if os.Getenv(handshake.EnvExec) != "" {
		runtime.LockOSThread() // execute must run on the thread that applied the sandbox
	}
	p, err := sandbox.Apply(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot apply the sandbox:", err)
		os.Exit(handshake.ExitSandbox)
	}
	return p
}

// seal removes the rights that the process needs only during its start.
func seal(p *sandbox.Policy) {
	if err := p.Seal(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot seal the sandbox:", err)
		os.Exit(handshake.ExitSandbox)
	}
}

// execute replaces this process, the launcher, with the program at path. It does not
// return.
func execute(path string) {
	env := slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return name == handshake.EnvSandbox || name == handshake.EnvExec
	})
	err := syscall.Exec(path, os.Args, env)
	fmt.Fprintln(os.Stderr, "cannot execute the plugin:", err)
	os.Exit(handshake.ExitSandbox)
}
