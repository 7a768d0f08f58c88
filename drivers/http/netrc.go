package http

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// maxNetrc is the maximum size of a netrc file in bytes.
const maxNetrc = 1 << 20

// login is a user name and a password.
type login struct{ user, password string }

// credentials holds the logins of servers. Each login belongs to one scheme, host and
// port.
type credentials struct {
	own    *login // login from the options
	origin string // origin that receives own
	hosts  map[string]login
	proxy  bool // whether a proxy is configured; it receives http requests unencrypted
}

// readCredentials reads the login from the options and the logins from the netrc file.
// A netrc file specified in the options or in NETRC must exist; the default file may be
// missing. A file that other users can access is rejected if it is specified or has a
// login for base, and ignored otherwise.
func readCredentials(base *url.URL, o options) (credentials, error) {
	c := credentials{proxy: o.Proxy != ""}
	if o.Anonymous {
		return c, nil
	}
	if o.User != "" || o.Password != "" {
		at, err := url.Parse(o.Origin)
		if err != nil || at.Host == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.RawQuery != "" || !c.private(at) {
			return c, ncerr.Errorf(ncerr.ErrInvalid, "", "", "user and password require origin, the server that receives them: https://HOST[:PORT], or http on this machine")
		}
		c.own, c.origin = &login{o.User, o.Password}, originOf(at)
	}
	name := o.Netrc
	if name == "" {
		name = os.Getenv("NETRC")
	}
	explicit := name != ""
	if !explicit {
		home := os.Getenv("HOME")
		if home == "" {
			return c, nil
		}
		name = filepath.Join(home, ".netrc")
	}
	text, open, err := readNetrc(name)
	if err != nil {
		if !explicit { // the default file is missing or unreadable
			return c, nil
		}
		return c, ncerr.New(ncerr.ErrInvalid, "read", name, err)
	}
	c.hosts = parseNetrc(text)
	if open {
		if c.find(base) != nil || explicit {
			return c, ncerr.Errorf(ncerr.ErrPermission, "read", name, "other users can access this password file; make it private (chmod 600)")
		}
		c.hosts = nil
	}
	return c, nil
}

// readNetrc returns the content of a netrc file, and whether other users may read or write
// it.
func readNetrc(name string) (text string, open bool, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", false, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxNetrc {
		return "", false, ncerr.Errorf(ncerr.ErrLimit, "", "", "the netrc file is not a regular file of at most %d bytes", maxNetrc)
	}
	data, err := os.ReadFile(name)
	return string(data), runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0, err
}

// originOf returns the scheme, host and port of a URL.
func originOf(u *url.URL) string {
	return strings.ToLower(u.Scheme) + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u))
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	}
	return "80"
}

// private reports whether the connection to a server is safe from eavesdropping: the
// server speaks TLS, or runs on this machine and is reached without a proxy.
func (c credentials) private(u *url.URL) bool {
	switch strings.ToLower(u.Scheme) {
	case "https":
		return true
	case "http":
		host := strings.ToLower(u.Hostname())
		addr, err := netip.ParseAddr(host)
		return !c.proxy && (host == "localhost" || err == nil && addr.Unmap().IsLoopback())
	}
	return false
}

// find returns the login for a server, or nil. A machine of a netrc file without a port
// means port 443.
func (c credentials) find(u *url.URL) *login {
	if !c.private(u) {
		return nil
	}
	if c.own != nil && originOf(u) == c.origin {
		return c.own
	}
	host, port := strings.ToLower(u.Hostname()), portOf(u)
	names := []string{net.JoinHostPort(host, port)}
	if port == "443" {
		names = append(names, host)
	}
	for _, name := range names {
		if l, ok := c.hosts[name]; ok {
			return &l
		}
	}
	return nil
}

// authorize adds the login for the server of the request.
func (c credentials) authorize(req *http.Request) {
	if l := c.find(req.URL); l != nil {
		req.SetBasicAuth(l.user, l.password)
	}
}

// parseNetrc parses a netrc file and returns the logins by lower-case host or
// host:port. The first login of a host takes precedence. parseNetrc skips unknown words
// and the entry "default", which would send a login to the server of any URL.
//
// Source: the netrc format as ftp(1) and curl read it.
func parseNetrc(text string) map[string]login {
	hosts := make(map[string]login)
	var host string
	var current *login
	keep := func() {
		if current != nil {
			if _, twice := hosts[host]; !twice {
				hosts[host] = *current
			}
		}
		current = nil
	}
	t := netrcTokens{text: text}
	for {
		word, ok := t.next()
		if !ok {
			break
		}
		switch word {
		case "machine":
			keep()
			if host = strings.ToLower(t.value()); host != "" {
				current = &login{}
			}
		case "default":
			keep()
		case "macdef":
			t.skipMacro()
		case "login", "password", "account":
			value := t.value()
			if current != nil && word == "login" {
				current.user = value
			} else if current != nil && word == "password" {
				current.password = value
			}
		}
	}
	keep()
	return hosts
}

// netrcTokens splits a netrc file into words.
type netrcTokens struct{ text string }

const blank = " \t\r\n\f"

// next returns the next keyword. It skips comments, which begin with #.
func (t *netrcTokens) next() (string, bool) {
	for {
		t.text = strings.TrimLeft(t.text, blank)
		if !strings.HasPrefix(t.text, "#") {
			break
		}
		_, t.text, _ = strings.Cut(t.text, "\n")
	}
	if t.text == "" {
		return "", false
	}
	return t.value(), true
}

// value returns the next word, which ends at white space or is enclosed in double
// quotes with backslash escapes.
func (t *netrcTokens) value() string {
	t.text = strings.TrimLeft(t.text, blank)
	if strings.HasPrefix(t.text, `"`) {
		return t.quoted()
	}
	end := strings.IndexAny(t.text, blank)
	if end < 0 {
		end = len(t.text)
	}
	word := t.text[:end]
	t.text = t.text[end:]
	return word
}

func (t *netrcTokens) quoted() string {
	var b strings.Builder
	for i := 1; i < len(t.text); i++ {
		switch c := t.text[i]; {
		case c == '"':
			t.text = t.text[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(t.text):
			i++
			b.WriteByte(t.text[i])
		default:
			b.WriteByte(c)
		}
	}
	t.text = ""
	return b.String()
}

// skipMacro skips a macro definition, which ends at an empty line.
func (t *netrcTokens) skipMacro() {
	for t.text != "" {
		var line string
		line, t.text, _ = strings.Cut(t.text, "\n")
		if strings.Trim(line, blank) == "" {
			return
		}
	}
}
