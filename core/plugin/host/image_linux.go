package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// imageFD is the descriptor of the executable copy in the child. Lower descriptors are
// reserved for the data plane.
const imageFD = 10

// imagePath is the path of the executable copy in the child.
const imagePath = "/proc/self/fd/10"

// selfImage is the path of the running program.
const selfImage = "/proc/self/exe"

// readImage copies the executable at path into sealed memory and computes its checksum.
// The host executes the sealed copy, so later changes to the file have no effect.
func readImage(path string) (img image, sum string, err error) {
	src, err := openExecutable(path)
	if err != nil {
		return img, "", err
	}
	defer func() { _ = src.Close() }()
	fd, err := unix.MemfdCreate("nczarr-plugin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // the kernel is older than MFD_EXEC
		fd, err = unix.MemfdCreate("nczarr-plugin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return img, "", ncerr.New(ncerr.ErrIO, "copy plugin", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(src, imageMax+1))
	if err == nil && n > imageMax {
		err = ncerr.Errorf(ncerr.ErrLimit, "", "", "the executable is larger than %d bytes", int64(imageMax))
	}
	if err == nil {
		_, err = unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = file.Close()
		return img, "", ncerr.Wrap("copy plugin", path, err)
	}
	return image{path: path, argv0: path, file: file}, hex.EncodeToString(hash.Sum(nil)), nil
}

// useImageFile makes cmd execute f. The descriptor stays open in the child, because an
// interpreter needs it to read a script.
func useImageFile(cmd *exec.Cmd, f *os.File) {
	files := make([]*os.File, imageFD-3+1)
	copy(files, cmd.ExtraFiles)
	files[imageFD-3] = f
	cmd.ExtraFiles = files
	cmd.Path = imagePath
}
