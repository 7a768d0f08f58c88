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

// maxDocument is the most, in bytes, that is read of an answer which is kept in
// memory before it is understood: a page of a listing has at most 1000 keys of
// 1024 bytes, each of which takes up to three letters.
const maxDocument = 16 << 20

// bounded bounds the answers that are documents, and makes sure that they are
// the ones that were asked for: the SDK takes an answer without XML for an
// empty listing, and any for the good end of a deletion. The content of an
// object has the length that its head announces, and a limit of its own.
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
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument, any: true}
	case !content && req.Method != http.MethodHead:
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument, root: rootOf(req)}
	case foreign(resp.Header):
		_ = resp.Body.Close() // nobody wants to know what it says
		return nil, answerError("it answered without an ETag, as no S3 server does")
	}
	return resp, nil
}

// foreign reports whether the head of an answer with an object is that of
// another server, such as a proxy with a page of its own.
func foreign(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Amz-") || strings.HasPrefix(name, "X-Goog-") {
			return false
		}
	}
	return h.Get("ETag") == "" || strings.HasPrefix(h.Get("Content-Type"), "text/html")
}

// rootOf gives the name of the document that answers a request, "" when the
// answer has no content.
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

// document is the body of such an answer.
type document struct {
	io.ReadCloser
	left int
	any  bool         // any document will do, or what it is has been seen already
	root string       // the document that it must be; "" when there must be none
	head bytes.Buffer // what was read to see it
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	if !d.any {
		if err := d.look(); err != nil {
			return 0, err
		}
		d.any = true
	}
	if d.head.Len() > 0 {
		return d.head.Read(p)
	}
	if d.left == 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxDocument)
	}
	n, err := d.ReadCloser.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}

// look reads as far as the first element. An Error may come with status 200,
// too.
func (d *document) look() error {
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
			return errors.New("it has content, which the answer of an S3 server to this has not")
		case ok, errors.Is(err, io.EOF), errors.As(err, &wrong):
			return fmt.Errorf("it is no %s", d.root)
		case err != nil:
			return err
		}
	}
}
