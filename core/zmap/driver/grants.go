package driver

import (
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// GrantKind is the kind of a grant.
type GrantKind string

// The kinds of grants, as written before the colon.
const (
	// GrantPath allows access to the location of the store, OpenSpec.Path: "path:read"
	// in mode Read and "path:write", which includes reading, in other modes. If the
	// store does not exist yet, "path:write" applies to the directory in which it is
	// created.
	GrantPath GrantKind = "path"
	// GrantDir allows reading and writing of the directory that contains the store, in
	// every mode except Read: "dir:write". Drivers need it if they create a temporary
	// file next to the store.
	GrantDir GrantKind = "dir"
	// GrantRead allows reading of a file, or of a directory with everything below it.
	GrantRead GrantKind = "read"
	// GrantWrite is like GrantRead, and also allows writing, creating and removing.
	GrantWrite GrantKind = "write"
	// GrantTCP allows connections to one TCP port of any host.
	GrantTCP GrantKind = "tcp"
	// GrantNetwork allows connections to any TCP port. It has no argument.
	GrantNetwork GrantKind = "network"
	// GrantEnv allows access to a variable of the host's environment. With a trailing
	// star it includes all variables whose names begin with the given prefix.
	GrantEnv GrantKind = "env"
)

// Grant is one permission that a driver needs from its sandbox. Its text form is one of:
//
//	path:read        see GrantPath; only for drivers of local paths
//	path:write
//	dir:write        see GrantDir
//	read:PATH        PATH is absolute, or starts with ~/ (the user's home) or
//	write:PATH       with $NAME (a path in a variable); a path that does not
//	                 exist, or a variable that is not set, grants nothing
//	tcp:443          a port
//	tcp:endpoint     the port of OpenSpec.Endpoint, or the default of its scheme
//	tcp:$NAME        the port of the URL in a variable
//	network          any port
//	env:NAME         a variable
//	env:AWS_*        all variables that start with AWS_
//
// Each tcp grant, and network, includes datagram sockets, which name resolution needs.
// The resolver's files must be granted by name (read:/etc/hosts). No grant allows
// listening on a network.
type Grant struct {
	Kind GrantKind
	Arg  string // the argument after the colon; empty for GrantNetwork
}

// String returns the text form of the grant.
func (g Grant) String() string {
	if g.Kind == GrantNetwork {
		return string(g.Kind)
	}
	return string(g.Kind) + ":" + g.Arg
}

// ParseGrant parses the text form of a grant. It fails with ncerr.ErrInvalid if text is
// invalid.
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
		return Grant{}, ncerr.Errorf(ncerr.ErrInvalid, "parse grant", text, "the grant is not one of path:read, path:write, dir:write, read:PATH, write:PATH, tcp:PORT, network, env:NAME")
	}
	return g, nil
}

// Granter is implemented by an [Opener] whose stores need different grants.
type Granter interface {
	// Grants returns the grants that the store of spec needs, a subset of those in
	// Description.Grants. For example, a store with its own endpoint needs no other port.
	//
	// Grants must depend on spec only and perform no I/O, because the host calls Grants
	// in the host's process, before it starts the driver's process. Grants must return
	// the same grants for the same spec. Stores with the same grants, after variables and
	// paths are resolved, share a process.
	Grants(spec OpenSpec) []string
}
