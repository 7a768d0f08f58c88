package ncurl

import (
	"net/url"
	"slices"
	"strings"
)

// hidden replaces text that may be secret.
const hidden = "***"

// Masked returns a location in a form that is safe to print, whether or not it
// parses: without user information, its query, and the values of unknown
// fragment keys. It may hide more than is secret.
func Masked(text string) string { return maskText(text) }

// maskValue gives the value of a fragment key, or a mark unless key is one
// whose value is no secret and value has no user information.
func maskValue(key, value string) string {
	if value == "" || slices.Contains(Keys(), legacyKey(key)) && !hasUserinfo(value) {
		return value
	}
	return hidden
}

// hasUserinfo reports whether text looks like a URL with user information.
func hasUserinfo(text string) bool {
	_, rest, ok := strings.Cut(text, "//")
	return ok && strings.Contains(rest, "@")
}

// maskQuery hides a raw query: what its parts mean is the server's affair, and
// signatures and tokens have any name.
func maskQuery(raw string) string {
	if raw == "" {
		return ""
	}
	return hidden
}

// maskParams masks values in a raw fragment or group.
func maskParams(raw string) string {
	items := strings.Split(raw, "&")
	for i, item := range items {
		key, value, ok := strings.Cut(item, "=")
		name, err1 := url.PathUnescape(key)
		plain, err2 := url.PathUnescape(value)
		switch {
		case err1 != nil || strings.Contains(name, "="):
			items[i] = hidden
		case ok && value != "" && (err2 != nil || maskValue(name, plain) != plain):
			items[i] = key + "=" + hidden
		}
	}
	return strings.Join(items, "&")
}

// maskText masks what may be secret in text that need not parse: anything
// before an "@" that could be a user name and password, the query, and values
// in the prefix groups and the fragment. It may hide too much.
func maskText(text string) string {
	groups, rest := maskPrefix(text)
	if begin, at := authorityAt(rest), strings.LastIndexByte(rest, '@'); begin > 0 && begin <= at && maybeUserinfo(rest[begin:at]) {
		return groups + rest[:begin] + hidden + "@" + maskTail(rest[at+1:])
	}
	return groups + maskTail(rest)
}

// maskTail masks the query and the fragment of text.
func maskTail(text string) string {
	head, frag, hasFrag := strings.Cut(text, "#")
	out, query, hasQuery := strings.Cut(head, "?")
	if hasQuery {
		out += "?" + maskQuery(query)
	}
	if hasFrag {
		out += "#" + maskParams(frag)
	}
	return out
}

// authorityAt gives where the authority of a URL begins, or would begin if
// slashes were not missing, doubled or backslashes; 0 when text is no URL.
func authorityAt(text string) int {
	begin := strings.Index(text, "//")
	if i := strings.IndexByte(text, ':'); i > 1 && (begin < 0 || i < begin) && !strings.ContainsAny(text[:i], `/\?#@`) {
		begin = i + 1
	}
	if begin < 0 {
		return 0
	}
	return len(text) - len(strings.TrimLeft(text[begin:], `/\`))
}

// maybeUserinfo reports whether text, which stands between the scheme and "@",
// may be a user name and password rather than a part of a path.
func maybeUserinfo(text string) bool {
	return strings.Contains(text, ":") || !strings.ContainsAny(text, "/?#")
}

// maskPrefix cuts leading [key=value] groups off text and masks their values.
func maskPrefix(text string) (groups, rest string) {
	var b strings.Builder
	for strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			if strings.Contains(text, "=") { // a group that was never closed
				return b.String() + maskParams(text), ""
			}
			break
		}
		b.WriteString("[" + maskParams(text[1:end]) + "]")
		text = text[end+1:]
	}
	return b.String(), text
}
