package remote_test

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var (
	contents  = regexp.MustCompile(`(?s)<Contents>.*?</Contents>`)
	prefixes  = regexp.MustCompile(`(?s)<CommonPrefixes>.*?</CommonPrefixes>`)
	truncated = regexp.MustCompile(`<IsTruncated>[a-z]*</IsTruncated>`)
	nextToken = regexp.MustCompile(`(?s)<NextContinuationToken>.*?</NextContinuationToken>`)
)

// onPage returns a fault that changes a page of a listing.
func onPage(name string, change func(r *http.Request, page string) string) fault {
	return fault{name: name, applies: listing, do: func(w http.ResponseWriter, r *http.Request, send func() answer) {
		a := send()
		if a.status == http.StatusOK {
			a.body = []byte(change(r, string(a.body)))
			a.header.Del("Content-Length")
		}
		a.write(w)
	}}
}

// listFaults returns the faults of listings.
func listFaults() []fault {
	old := &remembered{pages: map[string]answer{}}
	return []fault{
		onPage("token stays", func(r *http.Request, page string) string {
			token := "<NextContinuationToken>" + r.URL.Query().Get("continuation-token") + "</NextContinuationToken>"
			return truncated.ReplaceAllLiteralString(nextToken.ReplaceAllLiteralString(page, ""), "<IsTruncated>true</IsTruncated>"+token)
		}),
		onPage("entries twice", func(_ *http.Request, page string) string {
			page = prefixes.ReplaceAllString(page, "$0$0")
			return contents.ReplaceAllString(page, "$0$0")
		}),
		onPage("entries backwards", func(_ *http.Request, page string) string {
			all := slices.Concat(contents.FindAllString(page, -1), prefixes.FindAllString(page, -1))
			slices.Reverse(all)
			page = prefixes.ReplaceAllLiteralString(contents.ReplaceAllLiteralString(page, ""), "")
			return strings.Replace(page, "</ListBucketResult>", strings.Join(all, "")+"</ListBucketResult>", 1)
		}),
		{name: "first page again", applies: listing, do: old.firstAgain, lie: true}, // in a resumed listing the page looks like any other
		{name: "stale listing", applies: listing, do: old.stale, lie: true},
	}
}

// remembered stores responses to listings for later use.
type remembered struct {
	mu    sync.Mutex
	pages map[string]answer
}

// maxRemembered limits the memory of a long run.
const maxRemembered = 1000

// before returns the stored response to a listing, or now if none is stored.
func (m *remembered) before(question string, now answer) answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.pages[question]; ok {
		return answer{a.status, maps.Clone(a.header), a.body}
	}
	return now
}

func (m *remembered) keep(question string, a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.pages[question]; a.status == http.StatusOK && (ok || len(m.pages) < maxRemembered) {
		m.pages[question] = answer{a.status, maps.Clone(a.header), a.body}
	}
}

// stale sends an old version of a page.
func (m *remembered) stale(w http.ResponseWriter, r *http.Request, send func() answer) {
	now := send()
	a := m.before(r.URL.RawQuery, now)
	m.keep(r.URL.RawQuery, now)
	a.write(w)
}

// firstAgain sends the first page of a listing instead of a later one.
func (m *remembered) firstAgain(w http.ResponseWriter, r *http.Request, send func() answer) {
	q, a := r.URL.Query(), send()
	question := "first " + q.Get("prefix") + " " + q.Get("delimiter")
	if q.Has("continuation-token") {
		a = m.before(question, a)
	} else {
		m.keep(question, a)
	}
	a.write(w)
}
