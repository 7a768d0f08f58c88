package web

import "net/netip"

// SetFirst sets the address that t reached first.
func SetFirst(t *Transport, addr string) { t.first.Store(int32(scopeOf(netip.MustParseAddr(addr)))) }
