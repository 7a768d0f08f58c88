package driver

import (
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// GrantKind says what a grant opens.
type GrantKind string

// The kinds of grants, as they are written before the colon.
const (
	// GrantPath is the store's own place, OpenSpec.Path: "path:read" in mode
	// Read, "path:write", which includes reading, in the others. When nothing
	// is there yet, "path:write" is the directory in which it is to be made.
	GrantPath GrantKind = "path"
	// GrantDir is the directory that holds the store's place, for reading and
	// writing, in every mode but Read: "dir:write". Drivers which put a
	// temporary file beside the store need it.
	GrantDir GrantKind = "dir"
	// GrantRead is a file, or a directory with all below it, for reading.
	GrantRead GrantKind = "read"
	// GrantWrite is the same for reading, writing, making and removing.
	GrantWrite GrantKind = "write"
	// GrantTCP is connecting to one TCP port of any host.
	GrantTCP GrantKind = "tcp"
	// GrantNetwork is connecting to any TCP port; it is written alone.
	GrantNetwork GrantKind = "network"
	// GrantEnv is a variable of the host's environment, or with a final star
	// all those whose names begin so.
	GrantEnv GrantKind = "env"
)

// Grant is one thing that a driver needs from its sandbox. As text:
//
//	path:read        see GrantPath; only for drivers of local paths
//	path:write
//	dir:write        see GrantDir
//	read:PATH        PATH is absolute, or begins with ~/ (the user's home) or
//	write:PATH       with $NAME (a path in a variable); one that does not
//	                 exist, or a variable that is not set, grants nothing
//	tcp:443          a port
//	tcp:endpoint     the port of OpenSpec.Endpoint, or that of its scheme
//	tcp:$NAME        the port of the URL in a variable
//	network          any port
//	env:NAME         a variable
//	env:AWS_*        all variables whose names begin so
//
// Any tcp grant, and network, come with what resolving names needs: datagram
// sockets. The resolver's files are to be granted by name (read:/etc/hosts).
// Nothing grants listening on a network.
type Grant struct {
	Kind GrantKind
	Arg  string // what comes after the colon; empty for GrantNetwork
}

// String gives the grant as text.
func (g Grant) String() string {
	if g.Kind == GrantNetwork {
		return string(g.Kind)
	}
	return string(g.Kind) + ":" + g.Arg
}

// ParseGrant reads the text of a grant. One that has no meaning is
// ncerr.ErrInvalid.
func ParseGrant(text string) (Grant, error) {
	kind, arg, _ := strings.Cut(text, ":")
	g := Grant{Kind: GrantKind(kind), Arg: arg}
	ok := false
	switch g.Kind {
	case GrantNetwork:
		ok = text == kind
	case GrantPath:
		ok = arg == "read" || arg == "write"
	case GrantDir:
		ok = arg == "write"
	case GrantRead, GrantWrite:
		ok = strings.HasPrefix(arg, "/") || strings.HasPrefix(arg, "~/") || len(arg) > 1 && arg[0] == '$'
	case GrantTCP:
		port, err := strconv.ParseUint(arg, 10, 16)
		ok = arg == "endpoint" || len(arg) > 1 && arg[0] == '$' || err == nil && port > 0
	case GrantEnv:
		name := strings.TrimSuffix(arg, "*")
		ok = name != "" && !strings.ContainsAny(name, "*=\x00")
	}
	if !ok || strings.ContainsRune(arg, 0) {
		return Grant{}, ncerr.Errorf(ncerr.ErrInvalid, "read grant", text, "not one of path:read, path:write, dir:write, read:PATH, write:PATH, tcp:PORT, network, env:NAME")
	}
	return g, nil
}

// Granter is implemented by an [Opener] whose stores need different things.
type Granter interface {
	// Grants gives what the store of spec needs, out of what
	// Description.Grants lists for all of them: a store with an endpoint of
	// its own needs no other port.
	//
	// Implementations must: look at spec only, without any I/O, as the host
	// calls it in its own process, before it starts that of the driver; give
	// the same for the same spec. Stores whose grants are the same, once
	// variables and paths are looked up, share a process.
	Grants(spec OpenSpec) []string
}
