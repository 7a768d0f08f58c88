package host

import (
	"os"
	"runtime"
	"syscall"

	"github.com/seed-695719ce/nczarr/core/ncerr"
)

// imageMax is the largest executable that may be started, 512 MiB.
const imageMax = 512 << 20

// openExecutable opens the file at path. It must be a regular file that is executable and
// not writable by everybody.
func openExecutable(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK, because opening a named pipe could block
	if err != nil {
		return nil, ncerr.New(ncerr.ErrPlugin, "open plugin", path, err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "the file is not a regular file")
	case runtime.GOOS == "windows":
	case st.Mode()&0o111 == 0:
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "the file is not executable")
	case st.Mode()&0o002 != 0:
		err = ncerr.Errorf(ncerr.ErrPlugin, "", "", "the file is writable by everybody; remove that permission (chmod o-w)")
	}
	if err != nil {
		_ = f.Close()
		return nil, ncerr.New(ncerr.ErrPlugin, "open plugin", path, err)
	}
	return f, nil
}
