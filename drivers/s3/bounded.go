package s3

import (
	"fmt"
	"io"
	"net/http"
)

// maxDocument is the most, in bytes, that is read of an answer which is kept in
// memory before it is understood: a page of a listing has at most 1000 keys of
// 1024 bytes, each of which takes up to three letters.
const maxDocument = 16 << 20

// bounded bounds the answers that are documents. The content of an object has
// the length that its head announces, and a limit of its own.
type bounded struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if object := req.Method == http.MethodGet && !req.URL.Query().Has("list-type"); !object || resp.StatusCode/100 != 2 {
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument}
	}
	return resp, nil
}

// document is the body of such an answer.
type document struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxDocument)
	}
	n, err := d.ReadCloser.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}
