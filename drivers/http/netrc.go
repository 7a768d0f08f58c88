package http

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// maxNetrc is the largest netrc file that is read, in bytes.
const maxNetrc = 1 << 20

// login is a user name and a password.
type login struct{ user, password string }

// credentials are the logins of hosts.
type credentials struct {
	own   *login // for home only
	home  string // scheme://host[:port] of the dataset
	hosts map[string]login
	rest  *login // netrc's default
}

// readCredentials takes the login of the options, and those of the netrc file.
// A file that was named must be there, another one may be missing.
func readCredentials(base *url.URL, o options) (credentials, error) {
	c := credentials{home: origin(base)}
	if o.User != "" || o.Password != "" {
		c.own = &login{o.User, o.Password}
	}
	name := o.Netrc
	if name == "" {
		name = os.Getenv("NETRC")
	}
	asked := name != ""
	if !asked {
		home := os.Getenv("HOME")
		if home == "" {
			return c, nil
		}
		name = filepath.Join(home, ".netrc")
	}
	text, err := readNetrc(name)
	if err != nil {
		if !asked { // out of reach for this process, or not there: there is none
			return c, nil
		}
		return c, ncerr.New(ncerr.ErrInvalid, "read", name, err)
	}
	c.hosts, c.rest = parseNetrc(text)
	return c, nil
}

func readNetrc(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxNetrc {
		return "", ncerr.Errorf(ncerr.ErrLimit, "", "", "this is no file of at most %d bytes", maxNetrc)
	}
	text, err := os.ReadFile(name)
	return string(text), err
}

func origin(u *url.URL) string { return u.Scheme + "://" + strings.ToLower(u.Host) }

// authorize adds what is known for the request's host.
func (c credentials) authorize(req *http.Request) {
	if c.own != nil && origin(req.URL) == c.home {
		req.SetBasicAuth(c.own.user, c.own.password)
		return
	}
	if l, ok := c.hosts[strings.ToLower(req.URL.Hostname())]; ok {
		req.SetBasicAuth(l.user, l.password)
	} else if c.rest != nil && origin(req.URL) == c.home {
		req.SetBasicAuth(c.rest.user, c.rest.password)
	}
}

// parseNetrc parses a netrc file: the logins by lower-case host, the first of
// each host, and that of "default". What it does not know it skips.
//
// Source: the netrc format as ftp(1) and curl read it.
func parseNetrc(text string) (hosts map[string]login, rest *login) {
	hosts = make(map[string]login)
	var host string
	var now *login
	keep := func() {
		switch {
		case now == nil:
		case host == "" && rest == nil:
			rest = now
		case host != "":
			if _, twice := hosts[host]; !twice {
				hosts[host] = *now
			}
		}
		now = nil
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
				now = &login{}
			}
		case "default":
			keep()
			host, now = "", &login{}
		case "macdef":
			t.skipMacro()
		case "login", "password", "account":
			value := t.value()
			if now != nil && word == "login" {
				now.user = value
			} else if now != nil && word == "password" {
				now.password = value
			}
		}
	}
	keep()
	return hosts, rest
}

// netrcTokens cuts a netrc file into words.
type netrcTokens struct{ text string }

const blank = " \t\r\n\f"

// next gives the next keyword; one that begins with # starts a comment.
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

// value gives the next word: up to white space, or in double quotes with
// backslash escapes.
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

// skipMacro skips a macro: all lines up to an empty one.
func (t *netrcTokens) skipMacro() {
	for t.text != "" {
		var line string
		line, t.text, _ = strings.Cut(t.text, "\n")
		if strings.Trim(line, blank) == "" {
			return
		}
	}
}
