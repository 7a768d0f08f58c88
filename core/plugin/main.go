package plugin

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
)

// Self permits a host to execute the running program as a plugin. Only [Main] returns a
// valid Self; the zero Self is invalid.
type Self struct {
	builtin Builtin
	buildID string
}

// Main lets a program serve its built-in drivers and filters from separate processes.
// It must be the first call of main or TestMain.
//
// A host starts such a process by executing the running program with environment
// variables that select what to serve; command-line arguments are not used. In that
// process Main serves the selected part of b and exits. A host also starts the running
// program as a launcher for third-party plugins: Main then applies the sandbox and
// replaces the process with the plugin. In any other process Main immediately returns
// the value that core/plugin/host needs to start processes. Code that runs before Main
// runs in all of these processes.
func Main(b Builtin) Self {
	if !startedByHost() {
		return Self{builtin: b, buildID: handshake.BuildID()}
	}
	policy := confine()
	if path := os.Getenv(handshake.EnvExec); path != "" {
		execute(path)
	}
	if role := os.Getenv(handshake.EnvRole); role != "" {
		cfg, err := roleConfig(b, role)
		if err != nil {
			fmt.Fprintln(os.Stderr, "cannot serve:", err)
			os.Exit(handshake.ExitBadRole)
		}
		if policy != nil {
			cfg.OnDescribe = func() { seal(policy) }
		}
		serve(cfg)
	}
	return Self{builtin: b, buildID: handshake.BuildID()}
}

// roleConfig returns the server configuration for a role.
func roleConfig(b Builtin, role string) (server.Config, error) {
	name, isDriver := strings.CutPrefix(role, "driver:")
	switch {
	case isDriver:
		o, err := b.Registry().Driver(name)
		if err != nil {
			return server.Config{}, err
		}
		return config([]Option{Name(name), Driver(o)}), nil
	case role == "filters":
		opts := []Option{Name("filters")}
		if os.Getenv("GOGC") == "" {
			adaptProcessGC()
		}
		for _, p := range b.Providers {
			opts = append(opts, Filter(p))
		}
		return config(opts), nil
	}
	return server.Config{}, fmt.Errorf("unknown role %q", role)
}

// Valid reports whether [Main] returned s and this process may execute itself. A
// process that a host started must not execute itself.
func (s Self) Valid() bool { return s.buildID != "" && os.Getenv(handshake.EnvDepth) == "" }

// Builtin returns the argument of [Main].
func (s Self) Builtin() Builtin { return s.builtin }

// BuildID returns the id of the running executable. Different executables have
// different ids.
func (s Self) BuildID() string { return s.buildID }
