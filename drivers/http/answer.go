package http

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// protocolError returns a retryable error for a response that violates the protocol or
// contradicts itself. A retry may reach a server or proxy in a better state.
func protocolError(format string, args ...any) error {
	e := ncerr.Errorf(ncerr.ErrIO, "", "", format, args...)
	e.Retryable = true
	return e
}

// check returns an error for every status except 200 and 206, and for an encoded body.
func check(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return checkEncoding(resp)
	case http.StatusNotFound, http.StatusGone:
		return ncerr.ErrNotFound
	}
	return web.StatusError(resp, time.Now())
}

// checkEncoding rejects a body with a content encoding, because its length, ranges and
// bytes differ from the object's.
func checkEncoding(resp *http.Response) error {
	enc := strings.TrimSpace(strings.Join(resp.Header.Values("Content-Encoding"), ","))
	if enc == "" || strings.EqualFold(enc, "identity") {
		return nil
	}
	return ncerr.Errorf(ncerr.ErrUnsupported, "", "",
		"the server sent Content-Encoding %q although the request accepts identity only; configure the server to send these files unencoded", enc)
}

// version returns the version of an object; see the package comment.
func version(h http.Header, size int64) string {
	if tag := h.Get("ETag"); len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		return tag
	}
	modified, err1 := http.ParseTime(h.Get("Last-Modified"))
	date, err2 := http.ParseTime(h.Get("Date"))
	if err1 != nil || err2 != nil || date.Sub(modified) < 2*time.Second {
		return ""
	}
	return "modified " + strconv.FormatInt(modified.Unix(), 10) + " size " + strconv.FormatInt(size, 10)
}

// info returns the Info for an object of a known size.
func info(h http.Header, size int64) driver.Info {
	i := driver.Info{Size: size, Version: version(h, size)}
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		i.ModTime = t
	}
	return i
}

// contentRange parses a Content-Range header and returns the first and last position
// and the total size. A size of "*" is returned as -1. For "bytes */SIZE", first and
// last are -1.
//
// Source: RFC 9110, 14.4.
func contentRange(text string) (first, last, size int64, ok bool) {
	unit, rest, found := strings.Cut(strings.TrimSpace(text), " ")
	span, total, cut := strings.Cut(rest, "/")
	if !found || !cut || !strings.EqualFold(unit, "bytes") {
		return 0, 0, 0, false
	}
	size = -1
	if total != "*" {
		if size, ok = number(total); !ok {
			return 0, 0, 0, false
		}
	}
	if span == "*" {
		return -1, -1, size, size >= 0
	}
	if span == "0--1" && size == 0 { // how net/http describes the end of an empty file
		return 0, -1, 0, true
	}
	a, b, found := strings.Cut(span, "-")
	first, ok1 := number(a)
	last, ok2 := number(b)
	if !found || !ok1 || !ok2 || last < first || size >= 0 && last >= size {
		return 0, 0, 0, false
	}
	return first, last, size, true
}

// number parses a decimal number without a sign, at most 2^63-1.
func number(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// isHTML reports whether the Content-Type of a response denotes an HTML page.
func isHTML(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// htmlPage reports whether content begins like an HTML page.
func htmlPage(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	head = bytes.ToLower(head[:min(len(head), 16)])
	for _, begin := range []string{"<!doctype html", "<html", "<!--", "<?xml", "<head", "<body"} {
		if bytes.HasPrefix(head, []byte(begin)) {
			return true
		}
	}
	return false
}

// errPage returns the error for an HTML page in place of an object.
func errPage() error {
	return ncerr.Errorf(ncerr.ErrNotZarr, "", "",
		"the server answered 200 with an HTML page instead of the object; if it does so for every missing path, configure it to answer 404")
}
