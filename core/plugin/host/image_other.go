//go:build !linux

package host

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// readImage computes the checksum of the executable at path. On this platform the host
// executes the file later by its path, so anyone who can replace the file can bypass
// the check. Plugin directories must belong to the user.
func readImage(path string) (img image, sum string, err error) {
	src, err := openExecutable(path)
	if err != nil {
		return img, "", err
	}
	defer func() { _ = src.Close() }()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(src, imageMax+1))
	switch {
	case err != nil:
		return img, "", ncerr.Errorf(ncerr.ErrPlugin, "read plugin", path, "after %d bytes: %w", n, err)
	case n > imageMax:
		return img, "", ncerr.Errorf(ncerr.ErrPlugin, "read plugin", path, "the file has more than the limit of %d bytes", int64(imageMax))
	}
	return image{path: path, argv0: path}, hex.EncodeToString(hash.Sum(nil)), nil
}

// These constants are unused, because this platform has no sandbox and no launcher.
const (
	imageFD              = 0
	imagePath, selfImage = "", ""
)

// useImageFile does nothing, because this platform does not execute a copy.
func useImageFile(*exec.Cmd, *os.File) {}
