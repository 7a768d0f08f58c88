package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// fileID identifies an open file.
type fileID struct{ dev, ino uint64 }

// heldBy returns the sockets, pipes and shared memory that the processes pids have open or
// mapped, with their link targets. It excludes those that this process also has open or
// mapped.
func heldBy(pids []int) map[fileID]string {
	out := map[fileID]string{}
	for _, pid := range pids {
		eachHeld(filepath.Join("/proc", strconv.Itoa(pid)), func(id fileID, _, to string) { out[id] = to })
	}
	eachHeld("/proc/self", func(id fileID, _, _ string) { delete(out, id) })
	return out
}

// holders describes each process of this machine that has one of the files in had open or
// mapped.
func holders(had map[fileID]string) []string {
	if len(had) == 0 {
		return nil
	}
	var out []string
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range procs {
		eachHeld(proc, func(id fileID, link, to string) {
			if had[id] != "" {
				out = append(out, link+" "+to)
			}
		})
	}
	return out
}

// eachHeld calls f for each socket, pipe and memfd that a process has open or mapped.
// The process may end during the call.
func eachHeld(proc string, f func(id fileID, link, to string)) {
	links, _ := filepath.Glob(proc + "/fd/*")
	maps, _ := filepath.Glob(proc + "/map_files/*")
	for _, link := range append(links, maps...) {
		to, _ := os.Readlink(link)
		if !strings.HasPrefix(to, "socket:") && !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "/memfd:") {
			continue
		}
		if info, err := os.Stat(link); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				f(fileID{st.Dev, st.Ino}, link, to)
			}
		}
	}
}
