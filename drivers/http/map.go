package http

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/internal/web"
)

// Map is a dataset on a web server.
type Map struct {
	driver.Base
	base      *url.URL // URL of the dataset, with a trailing slash
	o         options
	client    *http.Client
	transport *web.Transport
	keys      credentials
	documents []string     // OpenSpec.Documents
	unsized   atomic.Int64 // buffered bytes of responses without a length
}

var _ driver.Map = (*Map)(nil)

// Capabilities implements driver.Map.
func (m *Map) Capabilities() driver.Capabilities {
	return driver.Capabilities{Ranges: true, IfMatch: true, Latency: driver.Remote}
}

// Put implements driver.Map. It always fails.
func (m *Map) Put(context.Context, string, driver.Body, *driver.PutOptions) (driver.Info, error) {
	return driver.Info{}, ncerr.ErrReadOnly
}

// Delete implements driver.Map. It always fails.
func (m *Map) Delete(context.Context, string, *driver.DeleteOptions) error { return ncerr.ErrReadOnly }

// Close implements driver.Map.
func (m *Map) Close(context.Context) error {
	m.transport.CloseIdleConnections()
	return nil
}

// request returns a request for an object.
func (m *Map) request(ctx context.Context, method, key string) (*http.Request, error) {
	u := *m.base
	u.Path += key
	u.RawPath = m.base.EscapedPath() + escapeKey(key)
	req, err := http.NewRequestWithContext(ctx, method, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = &u, u.Host
	req.Header.Set("User-Agent", m.o.UserAgent)
	req.Header.Set("Accept-Encoding", "identity")
	m.keys.authorize(req)
	return req, nil
}

// escapeKey percent-encodes a key as part of a path. It encodes every character that a
// server might treat specially, including "+", which S3 reads as a space.
func escapeKey(key string) string {
	var b strings.Builder
	for i, segment := range strings.Split(key, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(strings.ReplaceAll(url.QueryEscape(segment), "+", "%20"))
	}
	return b.String()
}

// errDirectory marks a redirect that only adds a slash: the path is a directory and not
// an object.
var errDirectory = errors.New("redirected to a directory")

// redirect checks a redirect. It replaces the credentials with the ones for the new host.
func (m *Map) redirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	switch {
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return ncerr.Errorf(ncerr.ErrUnsupported, "", "", "the server redirects to a URL that is neither http nor https")
	case req.URL.Path == last.Path+"/" && strings.EqualFold(req.URL.Hostname(), last.Hostname()):
		return errDirectory
	case last.Scheme == "https" && req.URL.Scheme == "http":
		return ncerr.Errorf(ncerr.ErrPermission, "", "", "refused a redirect from https to http on %q", req.URL.Host)
	case len(via) > m.o.Redirects:
		return ncerr.Errorf(ncerr.ErrIO, "", "", "the server sent more than %d redirects", m.o.Redirects)
	}
	req.Header.Del("Authorization")
	req.Header.Del("Referer") // the Referer header would reveal the query, which may contain a secret
	m.keys.authorize(req)
	return nil
}

// send sends a request and returns the response. The caller closes the body.
func (m *Map) send(req *http.Request) (*http.Response, error) {
	resp, err := m.client.Do(req)
	if err == nil {
		return resp, nil
	}
	if resp != nil { // the redirect was refused and its body is already closed
		_ = resp.Body.Close()
	}
	if errors.Is(err, errDirectory) {
		return nil, ncerr.ErrNotFound
	}
	return nil, web.RequestError(req.Context(), err)
}

// isDocument reports whether key is the key of a metadata document.
func (m *Map) isDocument(key string) bool { return slices.Contains(m.documents, path.Base(key)) }
