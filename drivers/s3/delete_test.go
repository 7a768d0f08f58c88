package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	"github.com/seed-695719ce/nczarr/drivers/s3"
)

// TestNamesOutsideXML checks that Remove deletes all objects of a store. Remove must use
// separate requests for objects whose names XML cannot represent.
func TestNamesOutsideXML(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var deleted []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch r.Method {
		case http.MethodGet:
			page{Keys: []string{"p/a%0Bb", "p/c+d", "p/e%0Df", "p/%EF%BF%BE", "p/%FF"}, Encoding: "url"}.write(w)
		case http.MethodPost:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			deleted = append(deleted, string(body))
			fmt.Fprint(w, "<DeleteResult></DeleteResult>")
		case http.MethodDelete:
			deleted = append(deleted, r.URL.Path)
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(srv.Close)
	spec := specOn(srv.URL, "bucket", nil)
	spec.Path = "bucket/p"
	if err := s3.New().Remove(t.Context(), spec); err != nil {
		t.Error(err)
	}
	if len(deleted) != 4 || !strings.Contains(deleted[0], "<Key>p/c d</Key>") || strings.Count(deleted[0], "<Key>") != 2 {
		t.Fatalf("want one batch and three single deletions, got %q", deleted)
	}
	if want := []string{"/bucket/p/a\x0bb", "/bucket/p/\ufffe", "/bucket/p/\xff"}; !slices.Equal(deleted[1:], want) {
		t.Errorf("want %q deleted, got %q", want, deleted[1:])
	}
}

// TestWronglyListedNames checks that Remove fails if the server lists objects under
// wrong names.
func TestWronglyListedNames(t *testing.T) {
	t.Parallel()
	srv := s3server.Start(t)
	m, spec := open(t, srv, nil)
	_, prefix, _ := strings.Cut(spec.Path, "/")
	key := prefix + "/b\x01c" // versitygw does not encode names, and XML cannot represent this one
	if _, err := srv.Client().PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &srv.Bucket, Key: &key, Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Put(t.Context(), "k", driver.Bytes("content"), &driver.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s3.New().Remove(t.Context(), spec); ncerr.KindOf(err) != ncerr.ErrS3 || !strings.Contains(err.Error(), "cannot list") {
		t.Errorf("want ErrS3, got %v", err)
	}
}
