package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// stagePrefix begins the names of what is in the making.
const stagePrefix = ".nczctl-"

// stageOwner tells this process from all others of this machine, now and
// later: the run of the system, the number, and when the process was started.
func stageOwner() string {
	return bootID() + "." + strconv.Itoa(os.Getpid()) + "." + startOf(os.Getpid())
}

// bootID gives some digits of the number of this run of the system.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it nothing is ever swept
	return string(id[:min(8, len(id))])
}

// startOf gives when a process was started, in the kernel's count; empty when
// there is none.
func startOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may have spaces in it
	if fields := strings.Fields(string(rest)); len(fields) > 19 {
		return fields[19]
	}
	return ""
}

// sweepStaged removes what runs of nczctl that were killed have left in a
// directory on their way to the place named base.
func sweepStaged(dir, base string) {
	entries, _ := os.ReadDir(dir) // who cannot read it cannot clean it
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), stagePrefix)
		owner, to, _ := strings.Cut(rest, "-")
		part := strings.Split(owner, ".")
		if !ok || to != base || len(part) != 4 || part[0] == "" || part[0] != bootID() {
			continue
		}
		pid, err := strconv.Atoi(part[1])
		if err != nil || pid <= 0 || startOf(pid) == part[2] {
			continue
		}
		_ = os.RemoveAll(filepath.Join(dir, e.Name())) // what cannot be removed stays for the next
	}
}
