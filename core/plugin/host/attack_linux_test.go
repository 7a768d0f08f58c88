package host_test

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

func mapSegment(fd, size int, writable bool) ([]byte, error) {
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	return unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
}

// wantAttacks is the expected result of attack. Only punching a hole in the writable
// segment succeeds.
const wantAttacks = `truncate 3: operation not permitted
grow 3: operation not permitted
seal 3: operation not permitted
punch 3: operation not permitted
truncate 5: operation not permitted
grow 5: operation not permitted
seal 5: operation not permitted
punch 5: <nil>
write request: operation not permitted
map request: operation not permitted
protect request: permission denied
reopen request: operation not permitted
`

// attack tries operations on shared memory that a plugin must not be able to perform,
// and returns the results, one per line.
func attack(request []byte) string {
	var b strings.Builder
	say := func(what string, err error) { fmt.Fprintf(&b, "%s: %v\n", what, err) }
	const size = 256 << 20
	for _, fd := range []int{3, 5} {
		say(fmt.Sprint("truncate ", fd), unix.Ftruncate(fd, 0))
		say(fmt.Sprint("grow ", fd), unix.Ftruncate(fd, 2*size))
		_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		say(fmt.Sprint("seal ", fd), err)
		say(fmt.Sprint("punch ", fd), unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size))
	}
	_, err := unix.Pwrite(3, []byte("x"), 0)
	say("write request", err)
	_, err = unix.Mmap(3, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	say("map request", err)
	say("protect request", unix.Mprotect(request[:4096], unix.PROT_READ|unix.PROT_WRITE))
	again, err := unix.Open("/proc/self/fd/3", unix.O_RDWR, 0)
	if err == nil {
		_, err = unix.Pwrite(again, []byte("x"), 0)
		_ = unix.Close(again)
	}
	say("reopen request", err)
	return b.String()
}
