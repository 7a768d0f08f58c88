//go:build !unix

package host

import "os"

// makeOwn makes a private directory in parent. It has no lock: there are no
// sockets in the file system here.
func makeOwn(parent string) (string, *os.File, error) {
	dir, err := os.MkdirTemp(parent, dirPrefix)
	return dir, nil, err
}

func sweep(string) {}
