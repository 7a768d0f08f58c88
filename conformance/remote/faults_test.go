package remote_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// faults returns the temporary faults that apply to every server. They do not change
// signed headers.
func faults() []fault {
	list := []fault{
		{name: "500", applies: always, do: refuse(500)},
		{name: "500 later", applies: always, do: refuse(500, "Retry-After", "1")},
		{name: "502", applies: always, do: refuse(502)},
		{name: "503 slow down", applies: always, do: refuse(503, "Retry-After", "1")},
		{name: "429", applies: always, do: refuse(429, "Retry-After", "0")},
		{name: "reset before", applies: always, do: func(http.ResponseWriter, *http.Request, func() answer) { reset() }},
		{name: "no answer", applies: always, do: func(_ http.ResponseWriter, r *http.Request, _ func() answer) { <-r.Context().Done() }},
		{name: "slow first byte", applies: always, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			time.Sleep(200 * time.Millisecond)
			a.write(w)
		}},
		{name: "cut body", applies: gets, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			cut(w, send(), func(n int) int { return n / 2 })
			reset()
		}},
		{name: "stalled body", applies: gets, do: func(w http.ResponseWriter, r *http.Request, send func() answer) {
			if cut(w, send(), func(n int) int { return n - 1 }) {
				<-r.Context().Done()
			}
		}},
		{name: "no length", applies: gets, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			a.header.Del("Content-Length")
			w.Header().Set("Transfer-Encoding", "chunked")
			a.write(w)
		}},
	}
	return append(list, wrongHeads()...)
}

// writeFaults returns the faults that lose the response to a write.
func writeFaults() []fault {
	return []fault{
		{name: "answer lost", applies: changes, do: func(_ http.ResponseWriter, _ *http.Request, send func() answer) { send(); reset() }},
		{name: "error after the write", applies: changes, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) { send(); w.WriteHeader(500) }},
	}
}

// cut sends the header of a response and a part of its body, and reports whether the
// body has a remainder.
func cut(w http.ResponseWriter, a answer, part func(n int) int) bool {
	n := len(a.body)
	a.header.Set("Content-Length", strconv.Itoa(n))
	a.body = a.body[:max(part(n), 0)]
	a.write(w)
	w.(http.Flusher).Flush()
	return n > 0
}

// wrongHeads returns the faults that send a header that does not match the request or
// the body.
func wrongHeads() []fault {
	return []fault{
		{name: "wrong ETag", lie: true, applies: func(r *http.Request) bool { return !listing(r) }, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			if tag := a.header.Get("ETag"); tag != "" {
				a.header.Set("ETag", strings.TrimSuffix(tag, `"`)+`00"`)
			}
			a.write(w)
		}},
		{name: "wrong Content-Range", applies: ranged, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			if first, last, size, ok := a.contentRange(); ok {
				a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first+1, last+1, size+1))
			}
			a.write(w)
		}},
		{name: "shorter range", applies: ranged, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			if first, last, size, ok := a.contentRange(); ok && len(a.body) > 1 {
				a.shorten()
				a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last-1, size))
			}
			a.write(w)
		}},
		{name: "wrong length", lie: true, applies: wholes, do: func(w http.ResponseWriter, _ *http.Request, send func() answer) {
			a := send()
			// Without a checksum the fault is undetectable. With one it is detected, but
			// possibly after memory of the wrong length was allocated.
			if sum := a.header.Get("X-Amz-Checksum-Crc32c"); a.status == http.StatusOK && sum != "" && !strings.Contains(sum, "-") {
				a.shorten()
			}
			a.write(w)
		}},
	}
}

func (a *answer) contentRange() (first, last, size int64, ok bool) {
	n, _ := fmt.Sscanf(a.header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size)
	return first, last, size, n == 3
}

// shorten removes the last byte and adjusts the length.
func (a *answer) shorten() {
	a.body = a.body[:max(len(a.body)-1, 0)]
	a.header.Set("Content-Length", strconv.Itoa(len(a.body)))
}

// wholeForRange returns a fault that responds to a range request with the whole object, which
// whole returns.
func wholeForRange(whole func(r *http.Request) (answer, error)) fault {
	return fault{name: "whole for a range", applies: ranged, do: func(w http.ResponseWriter, r *http.Request, send func() answer) {
		a := send()
		if a.status != http.StatusPartialContent {
			a.write(w)
			return
		}
		all, err := whole(r)
		if err != nil {
			reset()
		}
		all.write(w)
	}}
}
