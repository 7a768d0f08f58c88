// Package testdns resolves host names in tests without a network.
package testdns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
)

// Install makes the host names in names resolve to the given IPv4 addresses, in all
// resolvers of this process. Other names do not exist. Call it in TestMain, before any name
// is resolved.
func Install(names map[string]string) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serve(server, names)
		return client, nil
	}}
}

// serve answers the queries on one connection, in the form of DNS over TCP.
//
// Source: RFC 1035, 4.1 and 4.2.2.
func serve(conn net.Conn, names map[string]string) {
	defer func() { _ = conn.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return // the resolver has closed the connection
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		reply := answer(query, names)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

const (
	headerSize = 12
	noName     = 3 // response code
)

// answer returns the reply to a query with one question.
func answer(query []byte, names map[string]string) []byte {
	var labels []string
	at := headerSize
	for query[at] != 0 {
		n := int(query[at])
		labels = append(labels, string(query[at+1:at+1+n]))
		at += 1 + n
	}
	end := at + 5 // the empty label, type and class
	addr, known := names[strings.ToLower(strings.Join(labels, "."))]
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[headerSize:end]...)
	switch kind := binary.BigEndian.Uint16(query[at+1:]); {
	case !known:
		reply[3] |= noName
	case kind == 1:
		reply[7] = 1 // one answer: name, type A, class, time to live, length, address
		reply = append(reply, 0xc0, headerSize, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		ip := netip.MustParseAddr(addr).As4()
		reply = append(reply, ip[:]...)
	}
	return reply
}
