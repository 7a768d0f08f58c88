package s3

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxDocument is the maximum size in bytes of a response that is read into memory before
// it is parsed. A page of a listing has at most 1000 keys of 1024 bytes, and encoding a
// byte takes up to three characters.
const maxDocument = 16 << 20

// bounded limits the size of responses that are documents, and checks that they are of
// the expected kind: the SDK treats a response without XML as an empty listing, and any
// response as a successful deletion. The content of an object has the length announced
// in its header and a separate limit.
type bounded struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	content := req.Method == http.MethodGet && !req.URL.Query().Has("list-type")
	switch {
	case resp.StatusCode/100 != 2:
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument, checked: true}
	case !content && req.Method != http.MethodHead:
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument, root: rootOf(req)}
	case foreign(resp.Header):
		_ = resp.Body.Close() // the rest of the body is not needed
		return nil, answerError("the response has no ETag")
	}
	return resp, nil
}

// foreign reports whether the header of an object response comes from a server that
// does not speak S3, such as a proxy that sends its own page.
func foreign(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-") || strings.HasPrefix(name, "X-Goog-") {
			return false
		}
	}
	return h.Get("ETag") == "" || strings.HasPrefix(h.Get("Content-Type"), "text/html")
}

// rootOf returns the name of the root element of the response to a request, or "" if
// the response has no content.
//
// Source: Amazon S3 API Reference, "Response Syntax" of each operation.
func rootOf(req *http.Request) string {
	q := req.URL.Query()
	switch {
	case req.Method == http.MethodGet && q.Has("list-type"):
		return "ListBucketResult"
	case req.Method != http.MethodPost:
		return ""
	case q.Has("delete"):
		return "DeleteResult"
	case q.Has("uploads"):
		return "InitiateMultipartUploadResult"
	case q.Has("uploadId"):
		return "CompleteMultipartUploadResult"
	}
	return ""
}

// document is the body of a response that bounded checks.
type document struct {
	io.ReadCloser
	left    int
	checked bool         // no check of the root element is needed, or it has succeeded
	root    string       // the required root element; "" if the body must be empty
	head    bytes.Buffer // bytes that the check has read
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	if !d.checked {
		if err := d.checkRoot(); err != nil {
			return 0, err
		}
		d.checked = true
	}
	if d.head.Len() > 0 {
		return d.head.Read(p)
	}
	if d.left == 0 {
		return 0, fmt.Errorf("the response exceeds %d bytes", maxDocument)
	}
	n, err := d.ReadCloser.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}

// checkRoot reads up to the first element and fails unless the element is the expected
// root or an Error. Servers may send an Error with status 200.
func (d *document) checkRoot() error {
	body := io.LimitReader(d.ReadCloser, int64(d.left))
	for dec := xml.NewDecoder(io.TeeReader(body, &d.head)); ; {
		token, err := dec.RawToken()
		d.left = maxDocument - d.head.Len()
		var wrong *xml.SyntaxError
		switch start, ok := token.(xml.StartElement); {
		case ok && (start.Name.Local == d.root || start.Name.Local == "Error"):
			return nil
		case errors.Is(err, io.EOF) && d.root == "" && len(bytes.TrimSpace(d.head.Bytes())) == 0:
			return nil
		case (ok || errors.Is(err, io.EOF) || errors.As(err, &wrong)) && d.root == "":
			return errors.New("the response body is not empty")
		case ok, errors.Is(err, io.EOF), errors.As(err, &wrong):
			return fmt.Errorf("the response is not a %s document", d.root)
		case err != nil:
			return err
		}
	}
}
