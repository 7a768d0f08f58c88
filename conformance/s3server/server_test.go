package s3server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/seed-695719ce/nczarr/conformance/s3server"
)

// TestServer stores and reads an object in both addressing styles, and checks that a
// wrong secret key is rejected.
func TestServer(t *testing.T) {
	t.Parallel()
	s := s3server.Start(t)
	if host, _, err := net.SplitHostPort(strings.TrimPrefix(s.Endpoint, "http://")); err != nil || host != "127.0.0.1" {
		t.Errorf("want an endpoint on loopback, got %q", s.Endpoint)
	}
	key := aws.String("a/k")
	_, err := s.Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &s.Bucket, Key: key, Body: strings.NewReader("content")})
	if err != nil {
		t.Fatal(err)
	}
	proxy := s.Proxy()
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	virtual := s3.New(s3.Options{
		Region: s.Region, BaseEndpoint: aws.String("http://" + s3server.VirtualDomain),
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(at)}},
	})
	for name, c := range map[string]*s3.Client{"path": s.Client(), "virtual": virtual} {
		out, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &s.Bucket, Key: key})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := io.ReadAll(out.Body)
		if err != nil || string(got) != "content" {
			t.Errorf("%s: want %q, got %q, %v", name, "content", got, err)
		}
	}
	wrong := s3.New(s3.Options{
		Region: s.Region, BaseEndpoint: aws.String(s.Endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, "not-the-secret", ""),
	})
	_, err = wrong.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &s.Bucket, Key: key})
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != "SignatureDoesNotMatch" {
		t.Errorf("want SignatureDoesNotMatch, got %v", err)
	}
}
