// Package s3server runs a real S3 server for tests: versitygw on a directory of the
// test, on loopback. install.sh builds it once, outside the source tree.
//
//	srv := s3server.Start(t)
//	url := srv.Endpoint + "/" + srv.Bucket + "/data#mode=nczarr,s3"
//
// The server checks signatures, conditions and checksums. It keeps objects as files: it
// rejects an object whose key is a prefix of another key (409), and limits path
// segments to 255 bytes. Tests of faults (truncated bodies, lost responses, wrong
// headers) use their own servers.
//
// Only tests import this package.
package s3server
