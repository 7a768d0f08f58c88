package web

import (
	"context"
	"net"
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

// special holds prefixes with a scope that package netip does not know.
//
// Source: RFC 6598 (shared by the customers of a provider), RFC 6890 (protocol
// assignments, this network), RFC 2544 (benchmarks), RFC 3879 (site-local), RFC 8215 (local
// translation to IPv4).
var special = []struct {
	prefix netip.Prefix
	scope  scope
}{
	{netip.MustParsePrefix("0.0.0.0/8"), loopback},
	{netip.MustParsePrefix("100.64.0.0/10"), private},
	{netip.MustParsePrefix("192.0.0.0/24"), private},
	{netip.MustParsePrefix("198.18.0.0/15"), private},
	{netip.MustParsePrefix("fec0::/10"), private},
	{netip.MustParsePrefix("64:ff9b:1::/48"), private},
}

// nat64 is the prefix of IPv6 addresses that a gateway translates to the IPv4 address in
// their last four bytes, RFC 6052.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// scopeOf returns the scope of an address. The unspecified address connects to this
// machine.
func scopeOf(a netip.Addr) scope {
	a = a.Unmap()
	if b := a.As16(); nat64.Contains(a.WithZone("")) {
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case a.IsLoopback() || a.IsUnspecified():
		return loopback
	case a.IsLinkLocalUnicast():
		return linkLocal
	case a.IsPrivate():
		return private
	}
	for _, s := range special {
		if s.prefix.Contains(a.WithZone("")) {
			return s.scope
		}
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

// Reach limits the addresses to which a [Transport] connects.
type Reach string

// The limits.
const (
	ReachAny    Reach = ""       // all addresses
	ReachPublic Reach = "public" // no loopback, link-local or private addresses
	ReachSame   Reach = "same"   // no address more local than the first one reached
)

// Valid reports whether r is one of the constants.
func (r Reach) Valid() bool { return r == ReachAny || r == ReachPublic || r == ReachSame }

// limit is the most local scope that a request may reach.
type limit struct {
	most     scope
	redirect bool // the limit is that of a redirect
}

type limitKey struct{}

// notReached is the value of Transport.first before the first connection.
const notReached = -1

// limit returns the limit of a request.
func (t *Transport) limit(req *http.Request) limit {
	l := limit{maxScope(req), true}
	own := loopback
	switch first := t.first.Load(); {
	case t.o.Reach == ReachPublic:
		own = public
	case t.o.Reach == ReachSame && first != notReached:
		own = scope(first)
	}
	if own < l.most || l.most == loopback {
		return limit{own, false}
	}
	return l
}

// guard returns the context of req with its limit. With a proxy, guard checks the host
// name itself, because the proxy connects to the server.
func (t *Transport) guard(req *http.Request) (context.Context, error) {
	l := t.limit(req)
	if proxy, err := t.base.Proxy(req); err == nil && proxy == nil {
		return context.WithValue(req.Context(), limitKey{}, l), nil
	}
	if host := req.URL.Hostname(); l.most < loopback && (scopeOfHost(host) > l.most || isNumeric(host)) {
		return nil, l.refuse(host)
	}
	return req.Context(), nil
}

// isNumeric reports whether host is not an address, but ends in a number. Some programs read
// such a name as an address, such as 127.1, 0x7f000001 or 2130706433.
//
// Source: inet_aton(3); URL Standard, "ends in a number checker".
func isNumeric(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// mayConnect refuses a connection to an address that is more local than allowed.
func mayConnect(ctx context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if l, ok := ctx.Value(limitKey{}).(limit); ok && (err != nil || scopeOf(at.Addr()) > l.most) {
		return l.refuse(address)
	}
	return nil
}

// reached records that a request uses a connection to an address. It fails if the address
// is more local than allowed, which mayConnect cannot prevent if the connection was opened
// for another request.
func (t *Transport) reached(ctx context.Context, remote net.Addr) error {
	at, ok := remote.(*net.TCPAddr)
	l, direct := ctx.Value(limitKey{}).(limit)
	if !ok || !direct {
		return nil
	}
	got := scopeOf(at.AddrPort().Addr())
	if t.o.Reach == ReachSame && !t.first.CompareAndSwap(notReached, int32(got)) {
		l.most = min(l.most, scope(t.first.Load()))
	}
	if got > l.most {
		return l.refuse(at.String())
	}
	return nil
}

// refuse returns the error for a host that is more local than allowed.
func (l limit) refuse(host string) error {
	if l.redirect {
		return ncerr.Errorf(ncerr.ErrPermission, "", "",
			"refused a redirect to %q: the address is more local (loopback, link-local or private) than that of the redirecting server", host)
	}
	return ncerr.Errorf(ncerr.ErrPermission, "", "",
		"refused to connect to %q: the address is loopback, link-local or private, and the driver option reach excludes it (see --allow-local)", host)
}
