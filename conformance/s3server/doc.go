// Package s3server gives tests a real S3 server: versitygw on a directory of
// the test, on loopback. It is built once, outside the tree, by install.sh.
//
//	srv := s3server.Start(t)
//	url := srv.Endpoint + "/" + srv.Bucket + "/data#mode=nczarr,s3"
//
// The server checks signatures, conditions and checksums. It keeps objects as
// files: an object whose key is a prefix of another key is refused (409), and
// a path segment has at most 255 bytes. For what no server offers (cut bodies,
// lost answers, wrong headers) tests have servers of their own.
//
// Only tests import this package.
package s3server
