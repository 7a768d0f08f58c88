package ncurl

import (
	"net/url"
	"slices"
	"strings"
)

// maskMark replaces strings that may be secret.
const maskMark = "***"

// Masked returns a location in a form that is safe to print, even if it does not parse.
// It masks user information, the query and the values of unknown fragment keys. It may
// also mask parts that are not secret.
func Masked(text string) string { return maskText(text) }

// maskValue returns the value of a fragment key if the key is known and the value
// contains no user information, and maskMark otherwise.
func maskValue(key, value string) string {
	if value == "" || slices.Contains(Keys(), legacyKey(key)) && !hasUserinfo(value) {
		return value
	}
	return maskMark
}

// hasUserinfo reports whether text looks like a URL with user information.
func hasUserinfo(text string) bool {
	_, rest, ok := strings.Cut(text, "//")
	return ok && strings.Contains(rest, "@")
}

// maskQuery masks a raw query completely, because signatures and tokens may have any
// name.
func maskQuery(raw string) string {
	if raw == "" {
		return ""
	}
	return maskMark
}

// maskParams masks values in a raw fragment or prefix group.
func maskParams(raw string) string {
	items := strings.Split(raw, "&")
	for i, item := range items {
		key, value, ok := strings.Cut(item, "=")
		name, err1 := url.PathUnescape(key)
		plain, err2 := url.PathUnescape(value)
		switch {
		case err1 != nil || strings.Contains(name, "="):
			items[i] = maskMark
		case ok && value != "" && (err2 != nil || maskValue(name, plain) != plain):
			items[i] = key + "=" + maskMark
		}
	}
	return strings.Join(items, "&")
}

// maskText masks possible secrets in text, which need not be valid: a possible user name
// and password before an "@", the query, and values in the prefix groups and the
// fragment. It may mask more than the secrets.
func maskText(text string) string {
	groups, rest := maskPrefix(text)
	if begin, at := authorityAt(rest), strings.LastIndexByte(rest, '@'); begin > 0 && begin <= at && maybeUserinfo(rest[begin:at]) {
		return groups + rest[:begin] + maskMark + "@" + maskTail(rest[at+1:])
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

// authorityAt returns the offset of the authority of a URL, even if the slashes before it
// are missing, repeated or replaced by backslashes. It returns 0 if text is not a URL.
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

// maybeUserinfo reports whether text, the part between the scheme and "@", may be a user
// name and password rather than part of a path.
func maybeUserinfo(text string) bool {
	return strings.Contains(text, ":") || !strings.ContainsAny(text, "/?#")
}

// maskPrefix splits leading [key=value] groups off text and masks their values.
func maskPrefix(text string) (groups, rest string) {
	var b strings.Builder
	for strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			if strings.Contains(text, "=") { // the group is not closed
				return b.String() + maskParams(text), ""
			}
			break
		}
		b.WriteString("[" + maskParams(text[1:end]) + "]")
		text = text[end+1:]
	}
	return b.String(), text
}
