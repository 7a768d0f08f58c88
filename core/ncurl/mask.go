package ncurl

import (
	"net/url"
	"strings"
)

// hidden stands where a secret was.
const hidden = "***"

// isSecret reports whether a key's value must not be shown.
func isSecret(key string) bool {
	k := strings.ToLower(key)
	for _, part := range []string{
		"secret", "token", "passw", "credential", "signature", "apikey", "api_key", "api-key",
		"access_key", "accesskey", "access-key", "auth", "private",
	} {
		if strings.Contains(k, part) {
			return true
		}
	}
	return k == "sig" || k == "key" || k == "pwd"
}

// maskValue gives value, or a mark when key says that it is secret or value
// looks like a URL with user information.
func maskValue(key, value string) string {
	if value != "" && isSecret(key) || hasUserinfo(value) {
		return hidden
	}
	return value
}

// hasUserinfo reports whether text looks like a URL with user information.
func hasUserinfo(text string) bool {
	_, rest, ok := strings.Cut(text, "//")
	return ok && strings.Contains(rest, "@")
}

// maskQuery masks the secret values of a raw query or fragment.
func maskQuery(raw string) string {
	items := strings.Split(raw, "&")
	for i, item := range items {
		key, value, ok := strings.Cut(item, "=")
		name, err1 := url.PathUnescape(key)
		plain, err2 := url.PathUnescape(value)
		if ok && value != "" && (err1 != nil || err2 != nil || maskValue(name, plain) != plain) {
			items[i] = key + "=" + hidden
		}
	}
	return strings.Join(items, "&")
}

// maskText masks what may be secret in text that need not parse: anything
// before an "@" that could be a user name and password, secret values in
// prefix parameters, the query and the fragment. It may hide too much.
func maskText(text string) string {
	head, frag, hasFrag := strings.Cut(text, "#")
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		if cut := strings.Index(text, "//"); cut >= 0 && cut < at && maybeUserinfo(text[cut+2:at]) {
			return maskPrefix(text[:cut]) + "//" + hidden + text[at:][:1] + maskQueryTail(text[at+1:])
		}
	}
	base, query, hasQuery := strings.Cut(head, "?")
	out := maskPrefix(base)
	if hasQuery {
		out += "?" + maskQuery(query)
	}
	if hasFrag {
		out += "#" + maskQuery(frag)
	}
	return out
}

// maybeUserinfo reports whether text, which stands between "//" and "@", may
// be a user name and password rather than a part of a path.
func maybeUserinfo(text string) bool {
	return strings.Contains(text, ":") || !strings.ContainsAny(text, "/?#")
}

// maskQueryTail masks the query and fragment of text that follows an "@".
func maskQueryTail(text string) string {
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		return text[:i+1] + maskQuery(strings.ReplaceAll(text[i+1:], "#", "&"))
	}
	return text
}

// maskPrefix masks secret values in leading [key=value] groups.
func maskPrefix(text string) string {
	var b strings.Builder
	for strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			break
		}
		b.WriteString("[" + maskQuery(text[1:end]) + "]")
		text = text[end+1:]
	}
	if key, _, ok := strings.Cut(text, "="); ok && strings.HasPrefix(text, "[") && isSecret(key[1:]) {
		return b.String() + key + "=" + hidden // a group that was never closed
	}
	return b.String() + text
}
