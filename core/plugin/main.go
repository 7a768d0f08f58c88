package plugin

import (
	"fmt"
	"os"
	"strings"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/server"
)

// Self is the right to execute the running program as a plugin. Only [Main]
// gives one; the zero Self is refused everywhere.
type Self struct {
	builtin Builtin
	buildID string
}

// Main must be the first call of main or TestMain in a program that serves
// its built-in drivers and filters from processes of its own.
//
// In a process that a host started for that purpose, as the environment tells
// (never the arguments), Main serves the part of b that is wanted and exits.
// When the host starts a plugin of others, it starts this program too: Main
// then puts the sandbox in force and executes the plugin in its place. In any
// other process it returns at once what core/plugin/host needs to start such
// processes. Whatever main does before Main happens in both.
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
			cfg.Started = func() { seal(policy) }
		}
		serve(cfg)
	}
	return Self{builtin: b, buildID: handshake.BuildID()}
}

// roleConfig is what a process of that role serves.
func roleConfig(b Builtin, role string) (server.Config, error) {
	name, isDriver := strings.CutPrefix(role, "driver:")
	switch {
	case isDriver:
		o, err := b.Driver(name)
		if err != nil {
			return server.Config{}, err
		}
		return config([]Option{Name(name), Driver(o)}), nil
	case role == "filters":
		opts := []Option{Name("filters")}
		for _, p := range b.Providers {
			opts = append(opts, Filter(p))
		}
		return config(opts), nil
	}
	return server.Config{}, fmt.Errorf("unknown role %q", role)
}

// Valid reports whether s comes from [Main] and this process may execute
// itself: a process that was itself started in that way may not.
func (s Self) Valid() bool { return s.buildID != "" && os.Getenv(handshake.EnvDepth) == "" }

// Builtin gives what was passed to [Main].
func (s Self) Builtin() Builtin { return s.builtin }

// BuildID identifies the running image; a process of another one has another.
func (s Self) BuildID() string { return s.buildID }
