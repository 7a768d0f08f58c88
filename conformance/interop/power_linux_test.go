package interop_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed-695719ce/nczarr/conformance/killpoint"
)

// outages lists, by kind of store, the calls at which the power fails in a regular run,
// in thousandths of the calls of a copy. 1000 is the end of the copy.
var outages = map[string][]int{"file": {960, 1000}, "zip": {1000}}

// mountings lists the mount options, which are used in turn: the defaults of ext4, and
// options with weaker guarantees. With commit=3600, the kernel commits its journal only
// if a program requests it.
var mountings = []string{"loop,commit=3600", "loop,commit=3600,noauto_da_alloc,data=writeback"}

// TestPowerFailure replaces a dataset on a file system in an image, kills the program
// at a call, and copies the image. The copy lacks the data that the kernel had not
// written yet, as after a power failure. On the mounted copy, either the old or the new
// dataset must be complete. Each image is copied twice: once immediately, and once
// after another process has made the file system commit its journal, so that names and
// sizes are on disk while data may not be.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	need(t, "numcodecs")
	src := sources(t)
	for _, kind := range []string{"file", "zip"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, kind, src)
			tally := map[string]int{}
			points := d.points(t, outages[kind])
			for i, at := range points {
				d.fail(t, at, mountings[i%len(mountings)], tally)
			}
			t.Logf("%d calls, %d power failures: %v", d.calls, len(points), tally)
		})
	}
}

// disk is an arena on its own file system.
type disk struct {
	*arena
	dir   string // directory of the images
	mount string
}

func newDisk(t *testing.T, kind, src string) *disk {
	t.Helper()
	d := &disk{dir: t.TempDir(), mount: t.TempDir()}
	base := filepath.Join(d.dir, "base")
	writeFile(t, base, "")
	if err := os.Truncate(base, 32<<20); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-m", "0", base).CombinedOutput()
	if err != nil {
		t.Skipf("cannot create a file system image: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = unix.Unmount(d.mount, unix.MNT_DETACH) })
	if out, err := d.attach(t, "base", "loop"); err != nil {
		t.Skipf("cannot mount an image: %v: %s", err, out)
	}
	d.arena = newArena(t, kind, src)
	place := filepath.Join(d.mount, "place")
	copyTree(t, d.saved, place)
	d.place, d.dst = place, filepath.Join(place, d.name) // aside is not needed, because no other command runs
	_, d.before = d.look(t)
	f, err := os.Open(d.mount)
	if err == nil {
		err = unix.Syncfs(int(f.Fd())) // unmounting does not write a file system that is also mounted in another namespace
		_ = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	d.detach(t)
	return d
}

// attach mounts an image.
func (d *disk) attach(t *testing.T, image, options string) (string, error) {
	out, err := exec.CommandContext(t.Context(), "mount", "-t", "ext4", "-o", options, filepath.Join(d.dir, image), d.mount).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// detach unmounts the image. It retries while the file system is busy, because a child
// process of another test that has not yet executed its program may have a file of the
// image open.
func (d *disk) detach(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(killpoint.Patience); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Unmount(d.mount, 0)
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// take copies the current state of an image to a file that was never mounted, because
// the device of an unmounted file may exist for another moment with its caches.
func (d *disk) take(t *testing.T, from, to string) {
	t.Helper()
	from, to = filepath.Join(d.dir, from), filepath.Join(d.dir, to)
	if out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// fail kills a copy at a call and simulates a power failure at that moment.
func (d *disk) fail(t *testing.T, at int, mounting string, tally map[string]int) {
	t.Helper()
	disk, cut, committed := fmt.Sprint("disk", at), fmt.Sprint("cut", at), fmt.Sprint("committed", at)
	d.take(t, "base", disk)
	if out, err := d.attach(t, disk, mounting); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	var msg bytes.Buffer
	c := d.overwrite("new", d.dst, false)
	c.Stderr = &msg
	out, err := killpoint.Run(c, killpoint.Plan{At: at, Victim: killpoint.Both})
	if err != nil {
		t.Fatalf("%v: %s", err, msg.Bytes())
	}
	d.take(t, disk, cut)
	commit, err := os.Create(filepath.Join(d.mount, "another"))
	if err == nil {
		err = commit.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = commit.Close()
	d.take(t, disk, committed)
	d.detach(t)
	for _, image := range []string{cut, committed} {
		if out, err := d.attach(t, image, "loop"); err != nil {
			t.Fatalf("mount %s: %v: %s", image, err, out)
		}
		errorf := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%s, power failed at %d (%s), exit code %d, %s: "+format, append([]any{mounting, at, out.Point, out.Code, image}, args...)...)
		}
		tally[d.examine(t, ending{code: out.Code, stderr: msg.String(), point: out.Point}, errorf)]++
		d.detach(t)
	}
	for _, image := range []string{disk, cut, committed} {
		if err := os.Remove(filepath.Join(d.dir, image)); err != nil {
			t.Error(err)
		}
	}
}
