package ncurl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// The schemes. The DAP schemes are recognized only to report a specific error.
const (
	schemePath  = "" // a plain path
	schemeFile  = "file"
	schemeMem   = "mem"
	schemeS3    = "s3"
	schemeGS3   = "gs3"
	schemeHTTP  = "http"
	schemeHTTPS = "https"
	schemeDODS  = "dods"
	schemeDAP4  = "dap4"
)

func schemes() []string {
	return []string{schemeFile, schemeS3, schemeGS3, schemeHTTP, schemeHTTPS, schemeMem}
}

// schemeList returns the schemes listed in messages. They exclude mem, which only
// tests use.
func schemeList() []string { return schemes()[:len(schemes())-1] }

// parts is a location split at its separators. Only the params are decoded.
type parts struct {
	scheme    string // lower case; empty for a plain path
	authority string // the part between "//" and the path
	slashes   bool   // "//" follows the scheme
	path      string // path; for file and mem, everything after the scheme
	query     string
	hasQuery  bool
	prefix    []Param // params of the [k=v] groups
	fragment  []Param
	// doubtful holds the params after a "#" in a plain path that look like a fragment but
	// have unknown keys. If doubtful is not empty, path includes the "#".
	doubtful []Param
}

// ErrLogin is the cause of an error about a URL that contains user information.
var ErrLogin = errors.New("a URL must not contain a user name or password")

// split splits text at its separators. Its errors contain no part of an authority.
func split(text string) (parts, error) {
	if strings.TrimSpace(text) == "" {
		return parts{}, errors.New("the location is empty")
	}
	if strings.ContainsRune(text, 0) {
		return parts{}, errors.New("the location contains a NUL character")
	}
	prefix, rest := cutPrefix(text)
	scheme, after, ok := cutScheme(rest)
	if !ok {
		if badScheme(rest) != "" {
			return parts{}, errors.New("the text before \"://\" is not a scheme; write ./NAME for a path with this name")
		}
		if after := strings.TrimPrefix(rest, ":"); strings.HasPrefix(after, "//") && hasLogin(strings.TrimLeft(after, "/")) {
			return parts{}, fmt.Errorf("%w; write .//NAME for a path with this name", ErrLogin)
		}
		return splitPath(text), nil
	}
	p := parts{scheme: scheme}
	local := scheme == schemeFile || scheme == schemeMem
	if local && hasLogin(after) {
		return p, fmt.Errorf(`%w; write "@" in a name as %%40`, ErrLogin)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return p, errors.New("a URL cannot contain a control character; write it percent-encoded")
	}
	var err error
	if p.prefix, err = parsePrefix(prefix); err != nil {
		return p, err
	}
	after, frag, _ := strings.Cut(after, "#")
	if p.fragment, err = parseParams(frag); err != nil {
		return p, err
	}
	after, p.query, p.hasQuery = strings.Cut(after, "?")
	p.path, p.slashes = strings.CutPrefix(after, "//")
	if local {
		return p, nil
	}
	if i := strings.IndexByte(p.path, '/'); i >= 0 {
		p.authority, p.path = p.path[:i], p.path[i:]
	} else {
		p.authority, p.path = p.path, ""
	}
	return p, checkAuthority(&p)
}

// hasLogin reports whether after, the part after "file:" or "mem:", contains user
// information. This is a part before an "@" after exactly two slashes, or
// "user:password@" in the first segment.
func hasLogin(after string) bool {
	rest := strings.TrimLeft(after, `/\`)
	if len(after)-len(rest) == 2 && !hasDrive(rest) {
		at := strings.LastIndexByte(rest, '@')
		return at >= 0 && maybeUserinfo(rest[:at])
	}
	first, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(first, '@')
	return at >= 0 && strings.Contains(first[:at], ":")
}

// checkAuthority rejects a missing or unsafe authority.
func checkAuthority(p *parts) error {
	if !p.slashes {
		return fmt.Errorf("%q must be followed by %q", p.scheme+":", "//")
	}
	if strings.Contains(p.authority, "@") {
		return fmt.Errorf("%w; name a profile (aws.profile=NAME) or use .netrc", ErrLogin)
	}
	if p.authority == "" {
		return fmt.Errorf("the host or bucket between %q and the path is missing", p.scheme+"://")
	}
	return nil
}

// splitPath splits a plain path. It accepts a fragment only if all keys are known,
// because "#" is valid in a file name.
func splitPath(text string) parts {
	if i := strings.LastIndexByte(text, '#'); i > 0 {
		params, err := parseParams(text[i+1:])
		switch {
		case err != nil || len(params) == 0:
		case allKnown(params):
			return parts{path: text[:i], fragment: params}
		case slices.ContainsFunc(params, func(f Param) bool { return f.Value != "" || allKnown([]Param{f}) }):
			return parts{path: text, doubtful: params}
		}
	}
	return parts{path: text}
}

// cutPrefix splits leading [..] groups off text. groups includes the brackets.
func cutPrefix(text string) (groups, rest string) {
	rest = text
	for strings.HasPrefix(rest, "[") {
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return "", text
		}
		rest = rest[end+1:]
	}
	return text[:len(text)-len(rest)], rest
}

// cutScheme splits a scheme off text. A single letter is a drive. An unknown word is
// a scheme only if "//" follows the colon, so that "run12:00.zarr" is a path.
func cutScheme(text string) (scheme, rest string, ok bool) {
	word, rest, found := strings.Cut(text, ":")
	if !found || len(word) < 2 {
		return "", text, false
	}
	for i, c := range []byte(word) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+.-", rune(c))) {
			return "", text, false
		}
	}
	scheme = strings.ToLower(word)
	switch scheme {
	case schemeFile, schemeMem, schemeS3, schemeGS3, schemeHTTP, schemeHTTPS, schemeDODS, schemeDAP4:
		return scheme, rest, true
	}
	return scheme, rest, strings.HasPrefix(rest, "//")
}

// Scheme returns the scheme that [Parse] recognizes in text, in lower case, or "" for a
// plain path. Parse may reject the scheme.
func Scheme(text string) string {
	_, rest := cutPrefix(text)
	if scheme, _, ok := cutScheme(rest); ok {
		return scheme
	}
	return badScheme(rest)
}

// badScheme returns the part before "://" if text does not begin with a scheme. It
// returns "" if that part may be the beginning of a path.
func badScheme(text string) string {
	if head, _, found := strings.Cut(text, "://"); found && !strings.ContainsAny(head, `/\`) {
		return head
	}
	return ""
}

// parsePrefix parses groups such as "[mode=zarr][log]".
func parsePrefix(groups string) ([]Param, error) {
	var out []Param
	for groups != "" {
		end := strings.IndexByte(groups, ']')
		params, err := parseParams(groups[1:end])
		if err != nil {
			return nil, err
		}
		out = append(out, params...)
		groups = groups[end+1:]
	}
	return out, nil
}

// parseParams parses "k=v&k2". It skips empty items. Its errors contain no values.
func parseParams(text string) ([]Param, error) {
	var out []Param
	for item := range strings.SplitSeq(text, "&") {
		if item == "" {
			continue
		}
		rawKey, rawValue, _ := strings.Cut(item, "=")
		key, err := url.PathUnescape(rawKey)
		if err != nil {
			return nil, errors.New("a fragment key has an invalid percent-escape")
		}
		if key == "" {
			return nil, errors.New("the fragment has a value without a key")
		}
		if strings.Contains(key, "=") { // the part after "=" may be a secret value
			return nil, errors.New(`a fragment key has an encoded "="; write KEY=VALUE without encoding`)
		}
		value, err := url.PathUnescape(rawValue)
		if err != nil {
			return nil, fmt.Errorf("the value of fragment key %q has an invalid percent-escape", key)
		}
		out = append(out, Param{key, value})
	}
	return out, nil
}

// Characters that escape does not encode, in addition to letters, digits and "-._~".
const (
	keepSegment = "!$&'()*+,;=:@"   // characters of one segment of a URL path
	keepPath    = keepSegment + "/" // characters of a whole path
	keepFile    = "!$&'()*+,;=:/"   // characters of the path of a file: URL; without "@", which would end a user name
	keepValue   = "!$'()*+,;:/?[]"  // characters of a fragment
)

// escape percent-encodes all bytes of s except unreserved characters and those in
// keep.
func escape(s, keep string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		lower := c | 0x20
		switch {
		case lower >= 'a' && lower <= 'z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0,
			strings.IndexByte(keep, c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// unescape percent-decodes a path.
func unescape(raw string) (string, error) {
	s, err := url.PathUnescape(raw)
	if err != nil {
		return "", errors.New(`the path has an invalid percent-escape; write "%" itself as "%25"`)
	}
	if strings.ContainsRune(s, 0) {
		return "", errors.New("the path contains a NUL character")
	}
	return s, nil
}

// server is a valid scheme, host and port.
type server struct {
	scheme string // http, https or the scheme of a driver
	host   string // lower case; an IPv6 address in brackets
	port   string // empty for the scheme's default
}

// String returns scheme://host[:port].
func (s server) String() string {
	if s.port == "" {
		return s.scheme + "://" + s.host
	}
	return s.scheme + "://" + s.host + ":" + s.port
}

// isLoopback reports whether the host is localhost or a loopback address.
func (s server) isLoopback() bool {
	addr, err := netip.ParseAddr(strings.Trim(s.host, "[]"))
	return s.host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// parseServer parses an authority without user information.
func parseServer(scheme, authority string) (server, error) {
	s := server{scheme: scheme}
	host := authority
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host = authority[:i]
		port, err := strconv.ParseUint(authority[i+1:], 10, 16)
		if err != nil || port == 0 {
			return s, errors.New("the port must be a number from 1 to 65535")
		}
		if (scheme != schemeHTTP || port != 80) && (scheme != schemeHTTPS || port != 443) {
			s.port = strconv.FormatUint(port, 10)
		}
	}
	s.host = strings.TrimSuffix(strings.ToLower(host), ".")
	if inner, ok := strings.CutPrefix(s.host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !addr.Is6() || addr.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return s, errors.New("the address in brackets is not an IPv6 address")
		}
		s.host = "[" + addr.String() + "]"
		return s, nil
	}
	return s, checkHostName(s.host)
}

func checkHostName(host string) error {
	if host == "" || len(host) > 253 {
		return errors.New("the host name is empty or longer than 253 characters")
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return errors.New("the host name has an empty label or a label longer than 63 characters")
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return errors.New("the host name has a character other than letters, digits, hyphen, underscore and dot; " +
					"write an international name in its xn-- form")
			}
		}
	}
	return nil
}

// bad returns an error of kind ErrBadURL that shows text with masked secrets.
func bad(text string, cause error) error {
	return ncerr.New(ncerr.ErrBadURL, "parse location", maskText(text), cause)
}
