package web

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// scope describes how local an address is; greater values are closer to this machine.
type scope int

const (
	public scope = iota
	private
	linkLocal
	loopback
)

// shared holds the addresses that providers share among their customers, RFC 6598.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// scopeOf returns the scope of an address. The unspecified address connects to this
// machine.
func scopeOf(a netip.Addr) scope {
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

// scopeOfHost returns the scope of a host name or address. Names other than those of
// this machine are public.
func scopeOfHost(host string) scope {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return loopback
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return scopeOf(a)
	}
	return public
}

type scopeKey struct{}

// maxScope returns the most local scope allowed for the server of req. After a redirect
// it returns the scope of the server that sent the redirect. Without a redirect, every
// scope is allowed. A public server can thus not redirect the client to addresses that
// only this machine or its network can reach.
func maxScope(req *http.Request) scope {
	if req.Response == nil || req.Response.Request == nil {
		return loopback
	}
	from := req.Response.Request
	if n, ok := from.Context().Value(scopeKey{}).(scope); ok {
		return n
	}
	return scopeOfHost(from.URL.Hostname())
}

// guard returns the context of req, with the value that mayConnect needs. With a proxy,
// guard checks the host name itself, because the proxy connects to the server.
func (t *Transport) guard(req *http.Request) (context.Context, error) {
	most := maxScope(req)
	if proxy, err := t.base.Proxy(req); err == nil && proxy == nil {
		return context.WithValue(req.Context(), scopeKey{}, most), nil
	}
	if host := req.URL.Hostname(); scopeOfHost(host) > most {
		return nil, refused(host)
	}
	return req.Context(), nil
}

// mayConnect refuses a connection to an address that is more local than allowed.
func mayConnect(ctx context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if most, ok := ctx.Value(scopeKey{}).(scope); ok && (err != nil || scopeOf(at.Addr()) > most) {
		return refused(address)
	}
	return nil
}

func refused(host string) error {
	return ncerr.Errorf(ncerr.ErrPermission, "", "",
		"refused a redirect to %q: the address is more local (loopback, link-local or private) than that of the redirecting server", host)
}
