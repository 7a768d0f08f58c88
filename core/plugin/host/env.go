package host

import (
	"strconv"

	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
)

const envPath = handshake.EnvPath

// The kinds of things that plugins serve.
const (
	kindDriver = "driver"
	kindFilter = "filter"
)

// passedEnv names what every plugin process gets from the host's environment:
// time zone and language, the Go runtime's limits, where certificates are, and
// what Windows needs to open a socket. No secret is in them.
var passedEnv = [...]string{
	"TZ", "LANG", "LC_ALL", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT",
}

// environment gives the environment of a plugin process, without what
// go-plugin adds: the allowed variables and a private temporary directory.
func (h *Host) environment(dir string, set *grantSet, extra ...string) []string {
	names := append(passedEnv[:len(passedEnv):len(passedEnv)], h.opts.PassEnv...)
	names = append(names, set.env...)
	env := []string{"TMPDIR=" + dir, "TMP=" + dir, "TEMP=" + dir, handshake.EnvLifeline + "=stdin"}
	for _, n := range names {
		if v := h.opts.Getenv(n); v != "" {
			env = append(env, n+"="+v)
		}
	}
	if h.opts.MaxMemory > 0 && h.opts.Getenv("GOMEMLIMIT") == "" { // collect garbage before the ceiling is hit
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(h.opts.MaxMemory/10*9, 10))
	}
	return append(env, extra...)
}
