package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// plugins gives the plugin processes of this arena: their temporary directory
// is in ours.
func (a *arena) plugins() []int {
	return withEnv(func(env []byte) bool { return bytes.Contains(env, []byte("\x00TMPDIR="+a.tmp+"/")) })
}

// processes gives all processes of this arena.
func (a *arena) processes() []int {
	return withEnv(func(env []byte) bool {
		return bytes.Contains(env, []byte("\x00TMPDIR="+a.tmp+"/")) || bytes.Contains(env, []byte("\x00TMPDIR="+a.tmp+"\x00"))
	})
}

// withEnv gives the processes whose environment is such; each variable in it
// is between zeros.
func withEnv(such func(env []byte) bool) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, _ := os.ReadFile("/proc/" + e.Name() + "/environ"); such(append([]byte{0}, env...)) {
			out = append(out, pid)
		}
	}
	return out
}

// outlived gives the processes that do not end.
func (a *arena) outlived() []int {
	deadline := time.Now().Add(time.Minute)
	for {
		left := a.processes()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// fileID tells an open file from all others.
type fileID struct{ dev, ino uint64 }

// heldBy gives what processes have open that nobody else may have after their
// end: sockets, pipes, shared memory, but for what they inherited from us.
func heldBy(pids []int) map[fileID]string {
	out := opened(pids)
	for id := range opened([]int{os.Getpid()}) {
		delete(out, id)
	}
	return out
}

func opened(pids []int) map[fileID]string {
	out := map[fileID]string{}
	for _, pid := range pids {
		links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, link := range links {
			to, _ := os.Readlink(link) // it may be closed by now
			if strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "/memfd:") {
				if info, err := os.Stat(link); err == nil {
					out[idOf(info)] = to
				}
			}
		}
	}
	return out
}

func idOf(info os.FileInfo) fileID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{st.Dev, st.Ino}
}

// stillHeld gives those of the files that some process still has, open or
// mapped. The kernel takes a moment to let go of what a dead process had.
func stillHeld(held map[fileID]string) []string {
	deadline := time.Now().Add(time.Minute)
	for {
		var left []string
		entries, _ := filepath.Glob("/proc/[0-9]*")
		for _, proc := range entries {
			left = append(append(left, open(proc, held)...), mapped(proc, held)...)
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// open gives the descriptors of a process for what is in held.
func open(proc string, held map[fileID]string) []string {
	var out []string
	links, _ := filepath.Glob(proc + "/fd/*")
	for _, link := range links {
		to, _ := os.Readlink(link)
		if !strings.Contains(to, ":") {
			continue // a plain file
		}
		if info, err := os.Stat(link); err == nil && held[idOf(info)] != "" {
			out = append(out, link+" "+to)
		}
	}
	return out
}

// mapped gives the mappings of shared memory of a process for what is in held.
func mapped(proc string, held map[fileID]string) []string {
	var out []string
	text, _ := os.ReadFile(proc + "/maps")
	for line := range strings.Lines(string(text)) {
		field := strings.Fields(line)
		if len(field) < 6 || !strings.HasPrefix(field[5], "/memfd:") {
			continue
		}
		var major, minor uint32
		_, err := fmt.Sscanf(field[3], "%x:%x", &major, &minor)
		ino, errIno := strconv.ParseUint(field[4], 10, 64)
		if err == nil && errIno == nil && held[fileID{unix.Mkdev(major, minor), ino}] != "" {
			out = append(out, proc+" maps "+field[5])
		}
	}
	return out
}
