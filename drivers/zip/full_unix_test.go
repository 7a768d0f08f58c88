//go:build unix

package zip_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/zmap/driver"
	zipdriver "github.com/seed-695719ce/nczarr/drivers/zip"
)

// fullEnv makes the test binary run writeTooMuch.
const fullEnv = "NCZARR_TEST_ZIP_FULL"

// writeTooMuch limits the file size of this process and flushes an archive that exceeds
// the limit. The flush fails as on a full disk.
func writeTooMuch(spec string) {
	path, options, _ := strings.Cut(spec, "|")
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 200_000, Max: 200_000}
	ctx := context.Background()
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
	var m driver.Map
	if err == nil {
		m, err = zipdriver.New().Open(ctx, driver.OpenSpec{Path: path, Mode: driver.Update, Options: []byte(options)})
	}
	if err != nil {
		fmt.Println("setup:", err)
		os.Exit(1)
	}
	_, err = m.Put(ctx, "much", driver.Bytes(strings.Repeat("x", 3_000_000)), &driver.PutOptions{})
	if err == nil {
		err = m.Flush(ctx)
	}
	b, _, again := m.Get(ctx, "a", &driver.GetOptions{}, driver.Heap)
	fmt.Printf("%s: %v\n%q %v %v\n", ncerr.KindOf(err).Name(), err, b, again, m.Close(ctx))
	os.Exit(0)
}

// TestFullDisk checks that a failed flush is reported, that the old archive is intact
// and still readable through the same Map, and that no temporary file remains.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", `{"spill": 0}`} {
		path := saved(t, stdZip(t, "", entry{name: "a", content: "1"}))
		before := fileContent(t, path)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), fullEnv+"="+path+"|"+options)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "ErrIO: ") || !strings.Contains(string(out), "file too large") || !strings.HasSuffix(string(out), "\"1\" <nil> <nil>\n") {
			t.Errorf("options %s: want ErrIO and a readable archive, got %v, %s", options, err, out)
		}
		if !bytes.Equal(before, fileContent(t, path)) {
			t.Error("the old archive was changed")
		}
		wantOnlyZips(t, filepath.Dir(path))
	}
}
