package host

import (
	"strconv"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

const envPath = handshake.EnvPath

// Kinds of plugins.
const (
	kindDriver = "driver"
	kindFilter = "filter"
)

// passedEnv lists the variables that every plugin process receives from the host's
// environment: time zone and language, limits of the Go runtime, locations of
// certificates, and the variable that Windows needs to open a socket. They contain no
// secrets.
var passedEnv = [...]string{
	"TZ", "LANG", "LC_ALL", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT",
}

// environment returns the environment of a plugin process: the permitted variables, the
// private temporary directory dir, and extra. go-plugin adds its own variables.
func (h *Host) environment(dir string, set *grantSet, extra ...string) []string {
	names := append(passedEnv[:len(passedEnv):len(passedEnv)], h.opts.PassEnv...)
	names = append(names, set.env...)
	env := []string{"TMPDIR=" + dir, "TMP=" + dir, "TEMP=" + dir, handshake.EnvLifeline + "=stdin"}
	for _, n := range names {
		if v := h.opts.Getenv(n); v != "" {
			env = append(env, n+"="+v)
		}
	}
	if h.opts.MaxMemory > 0 && h.opts.Getenv("GOMEMLIMIT") == "" { // collect garbage before the memory limit is reached
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(h.opts.MaxMemory/10*9, 10))
	}
	return append(env, extra...)
}
