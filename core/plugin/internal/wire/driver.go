package wire

import (
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/pb"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
)

// protocolErrorf returns the error for a response that violates the protocol.
func protocolErrorf(format string, args ...any) error {
	return ncerr.Errorf(ncerr.ErrPlugin, "", "", "the plugin violated the protocol: "+format, args...)
}

// DriverToWire returns the message for d.
func DriverToWire(d driver.Description) *pb.DriverDescription {
	m := &pb.DriverDescription{
		Name: Text(d.Name), Summary: Text(d.Summary), Siblings: d.Siblings,
		Locality: Text(string(d.Locality)), Nested: d.Nested, Servers: d.Servers,
	}
	for _, s := range d.Schemes {
		m.Schemes = append(m.Schemes, Text(s))
	}
	for _, o := range d.Options {
		m.Options = append(m.Options, &pb.OptionDescription{
			Name: Text(o.Name), Type: Text(o.Type), DefaultValue: Text(o.Default), Doc: Text(o.Doc), Secret: o.Secret, From: Text(o.From),
		})
	}
	for _, g := range d.Grants {
		m.Grants = append(m.Grants, Text(g))
	}
	return m
}

// DriverFromWire is the inverse of DriverToWire.
func DriverFromWire(m *pb.DriverDescription) driver.Description {
	d := driver.Description{
		Name: Text(m.GetName()), Summary: Text(m.GetSummary()), Siblings: m.GetSiblings(),
		Locality: driver.Locality(Text(m.GetLocality())), Nested: m.GetNested(), Servers: m.GetServers(),
	}
	for _, s := range m.GetSchemes() {
		d.Schemes = append(d.Schemes, Text(s))
	}
	for _, o := range m.GetOptions() {
		d.Options = append(d.Options, driver.Option{
			Name: Text(o.GetName()), Type: Text(o.GetType()), Default: Text(o.GetDefaultValue()), Doc: Text(o.GetDoc()), Secret: o.GetSecret(), From: Text(o.GetFrom()),
		})
	}
	for _, g := range m.GetGrants() {
		d.Grants = append(d.Grants, Text(g))
	}
	return d
}

// OpenToWire returns the request to open or remove the store of spec with the named
// driver.
func OpenToWire(name string, spec driver.OpenSpec) *pb.OpenRequest {
	m := &pb.OpenRequest{
		Driver: Text(name), Path: []byte(spec.Path), Endpoint: Text(spec.Endpoint),
		Options: spec.Options, Mode: pb.Mode(spec.Mode),
	}
	for _, name := range spec.Documents {
		m.Documents = append(m.Documents, []byte(name))
	}
	return m
}

// OpenFromWire is the inverse of OpenToWire. It fails with ncerr.ErrUnsupported if the
// mode is unknown.
func OpenFromWire(m *pb.OpenRequest) (name string, spec driver.OpenSpec, err error) {
	if m.GetMode() < 0 || m.GetMode() > pb.Mode(driver.CreateExclusive) {
		return "", spec, ncerr.Errorf(ncerr.ErrUnsupported, "open", string(m.GetPath()), "unknown mode %d", m.GetMode())
	}
	spec = driver.OpenSpec{
		Path: string(m.GetPath()), Endpoint: m.GetEndpoint(), Options: m.GetOptions(), Mode: driver.Mode(m.GetMode()),
	}
	for _, name := range m.GetDocuments() {
		spec.Documents = append(spec.Documents, string(name))
	}
	return m.GetDriver(), spec, nil
}

// CapabilitiesToWire returns the message for c.
func CapabilitiesToWire(c driver.Capabilities) *pb.Capabilities {
	return &pb.Capabilities{
		Ranges: c.Ranges, List: c.List, Write: c.Write, Delete: c.Delete, IfAbsent: c.IfAbsent, IfMatch: c.IfMatch,
		RecursiveList: c.RecursiveList, OrderedList: c.OrderedList, PrefixExclusive: c.PrefixExclusive,
		Durable: pb.Durability(c.Durable), MaxKey: uint32(min(max(0, c.MaxKey), 1<<30)), Latency: pb.Latency(c.Latency), MaxObject: max(0, c.MaxObject),
	}
}

// CapabilitiesFromWire is the inverse of CapabilitiesToWire. An unknown durability
// becomes OnFlush, and an unknown latency becomes Remote.
func CapabilitiesFromWire(m *pb.Capabilities) driver.Capabilities {
	c := driver.Capabilities{
		Ranges: m.GetRanges(), List: m.GetList(), Write: m.GetWrite(), Delete: m.GetDelete(),
		IfAbsent: m.GetIfAbsent(), IfMatch: m.GetIfMatch(), RecursiveList: m.GetRecursiveList(),
		OrderedList: m.GetOrderedList(), PrefixExclusive: m.GetPrefixExclusive(),
		Durable: driver.OnFlush, MaxKey: int(min(m.GetMaxKey(), 1<<30)), Latency: driver.Remote,
		MaxObject: max(0, m.GetMaxObject()),
	}
	if m.GetDurable() == pb.Durability_DURABILITY_ON_PUT {
		c.Durable = driver.OnPut
	}
	if m.GetLatency() == pb.Latency_LATENCY_LOCAL {
		c.Latency = driver.Local
	}
	return c
}

// InfoToWire returns the message for i.
func InfoToWire(i driver.Info) *pb.Info {
	m := &pb.Info{Size: i.Size, Version: []byte(i.Version), NoRanges: i.NoRanges}
	if !i.ModTime.IsZero() {
		m.ModTimeNanos, m.HasModTime = i.ModTime.UnixNano(), true
	}
	return m
}

// InfoFromWire is the inverse of InfoToWire. It fails with ncerr.ErrPlugin if the size
// is negative, except that unknownSize permits -1.
func InfoFromWire(m *pb.Info, unknownSize bool) (driver.Info, error) {
	if m == nil {
		return driver.Info{}, protocolErrorf("the info of an object is missing")
	}
	i := driver.Info{Size: m.GetSize(), Version: string(m.GetVersion()), NoRanges: m.GetNoRanges()}
	if i.Size < 0 && !(unknownSize && i.Size == -1) {
		return driver.Info{}, protocolErrorf("an object has the invalid size %d", i.Size)
	}
	if m.GetHasModTime() {
		i.ModTime = time.Unix(0, m.GetModTimeNanos()).UTC()
	}
	return i, nil
}

// GetToWire returns the message for one read.
func GetToWire(key string, o driver.GetOptions) *pb.GetSpec {
	m := &pb.GetSpec{Key: []byte(key), IfMatch: []byte(o.IfMatch), Limit: max(0, o.Limit)}
	if o.Range != nil {
		m.Range = &pb.Range{Offset: o.Range.Offset, Length: o.Range.Length}
	}
	return m
}

// GetFromWire is the inverse of GetToWire. It fails with ncerr.ErrRange if the range is
// invalid.
func GetFromWire(m *pb.GetSpec) (key string, o driver.GetOptions, err error) {
	key = string(m.GetKey())
	o = driver.GetOptions{IfMatch: string(m.GetIfMatch()), Limit: max(0, m.GetLimit())}
	if r := m.GetRange(); r != nil {
		if r.GetLength() < -1 || r.GetOffset() < 0 && r.GetLength() != -1 {
			return key, o, ncerr.Errorf(ncerr.ErrRange, "get", key, "invalid range: offset %d, length %d", r.GetOffset(), r.GetLength())
		}
		o.Range = &driver.Range{Offset: r.GetOffset(), Length: r.GetLength()}
	}
	return key, o, nil
}

// HeadFromWire returns the info of an object and the length of a read. It fails with
// ncerr.ErrPlugin if the length is not that of the requested range, or exceeds the
// requested limit.
func HeadFromWire(m *pb.GetHead, o driver.GetOptions) (driver.Info, int64, error) {
	if m == nil {
		return driver.Info{}, 0, protocolErrorf("received data without a header")
	}
	info, err := InfoFromWire(m.GetInfo(), false)
	if err != nil {
		return info, 0, err
	}
	want := info.Size
	if o.Range != nil {
		if _, want, err = o.Range.Resolve(info.Size); err != nil {
			return info, 0, protocolErrorf("received data for a range outside the object of %d bytes", info.Size)
		}
	}
	if m.GetLength() != want {
		return info, 0, protocolErrorf("the response announces %d bytes, not %d", m.GetLength(), want)
	}
	if o.Limit > 0 && want > o.Limit {
		return info, 0, protocolErrorf("the response announces %d bytes, more than the limit of %d", want, o.Limit)
	}
	return info, want, nil
}

// EntryToWire returns the message for e.
func EntryToWire(e driver.Entry) *pb.Entry {
	return &pb.Entry{Key: []byte(e.Key), Prefix: e.Prefix, Info: InfoToWire(e.Info)}
}

// EntryFromWire is the inverse of EntryToWire.
func EntryFromWire(m *pb.Entry) (driver.Entry, error) {
	e := driver.Entry{Key: string(m.GetKey()), Prefix: m.GetPrefix(), Info: driver.Info{Size: -1}}
	if e.Key == "" {
		return e, protocolErrorf("a listing contains an entry without a key")
	}
	if m.GetInfo() == nil {
		return e, nil
	}
	var err error
	e.Info, err = InfoFromWire(m.GetInfo(), true)
	return e, err
}

// Inline returns the bytes of a level 0 payload, or nil for a nil payload. It fails
// with ncerr.ErrPlugin if the payload is a region or has more than limit bytes.
func Inline(p *pb.Payload, limit int) ([]byte, error) {
	if p == nil {
		return nil, nil
	}
	if p.GetRegion() != nil {
		return nil, protocolErrorf("regions are not allowed at level 0")
	}
	if n := len(p.GetInline()); n > limit {
		return nil, protocolErrorf("a part has %d bytes, more than the limit of %d", n, limit)
	}
	return p.GetInline(), nil
}

// Bytes returns a level 0 payload that contains b without a copy.
func Bytes(b []byte) *pb.Payload {
	return &pb.Payload{Content: &pb.Payload_Inline{Inline: b}}
}
