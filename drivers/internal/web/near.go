package web

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// near says how near to this machine an address is.
type near int

const (
	public near = iota
	private
	linkLocal
	loopback
)

// shared holds the addresses that providers give to their customers, RFC 6598.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// nearOf classifies an address. The unspecified one connects to this machine.
func nearOf(a netip.Addr) near {
	switch a = a.Unmap(); {
	case a.IsLoopback() || a.IsUnspecified():
		return loopback
	case a.IsLinkLocalUnicast():
		return linkLocal
	case a.IsPrivate() || shared.Contains(a):
		return private
	}
	return public
}

// nearOfHost classifies a host as it is named: other names than those of this
// machine are public.
func nearOfHost(host string) near {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return loopback
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return nearOf(a)
	}
	return public
}

type nearKey struct{}

// mostNear gives how near to this machine the server of req may be: any, but as
// near as the server that redirected to it at most. Whoever asks a public
// server does not ask for what only this machine or its network can reach.
func mostNear(req *http.Request) near {
	if req.Response == nil || req.Response.Request == nil {
		return loopback
	}
	from := req.Response.Request
	if n, ok := from.Context().Value(nearKey{}).(near); ok {
		return n
	}
	return nearOfHost(from.URL.Hostname())
}

// guard gives the context of req with what mayConnect needs. A proxy connects
// to servers itself: there only the name of the server tells.
func (t *Transport) guard(req *http.Request) (context.Context, error) {
	most := mostNear(req)
	if proxy, err := t.base.Proxy(req); err == nil && proxy == nil {
		return context.WithValue(req.Context(), nearKey{}, most), nil
	}
	if host := req.URL.Hostname(); nearOfHost(host) > most {
		return nil, tooNear(host)
	}
	return req.Context(), nil
}

// mayConnect refuses a connection to an address that is nearer than allowed.
func mayConnect(ctx context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if most, ok := ctx.Value(nearKey{}).(near); ok && (err != nil || nearOf(at.Addr()) > most) {
		return tooNear(address)
	}
	return nil
}

func tooNear(host string) error {
	return ncerr.Errorf(ncerr.ErrPermission, "", "",
		"the server redirects to %q, which is refused: an address of this machine or its network, as that of the server is not", host)
}
