package s3

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxDocument is the most, in bytes, that is read of an answer which is kept in
// memory before it is understood: a page of a listing has at most 1000 keys of
// 1024 bytes, each of which takes up to three letters.
const maxDocument = 16 << 20

// bounded bounds the answers that are documents, and makes sure that they are
// the ones that were asked for: the SDK takes an answer without XML for an
// empty listing, or for the good end of a deletion. The content of an object
// has the length that its head announces, and a limit of its own.
type bounded struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	root := rootOf(req)
	switch ok := resp.StatusCode/100 == 2; {
	case ok && root != "":
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument, root: root}
	case !ok || req.Method != http.MethodGet:
		resp.Body = &document{ReadCloser: resp.Body, left: maxDocument}
	}
	return resp, nil
}

// rootOf gives the name of the document that answers a request, "" when it is
// not answered by one.
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
	root string       // the document that it must be; "" when that is seen already, or any will do
	head bytes.Buffer // what was read to see it
}

// Read implements io.Reader.
func (d *document) Read(p []byte) (int, error) {
	if d.root != "" {
		if err := d.look(); err != nil {
			return 0, err
		}
		d.root = ""
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
		case ok, errors.Is(err, io.EOF), errors.As(err, &wrong):
			return fmt.Errorf("it is no %s", d.root)
		case err != nil:
			return err
		}
	}
}
