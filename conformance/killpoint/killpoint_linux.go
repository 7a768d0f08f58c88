package killpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Victim selects the processes that get the signal.
type Victim string

// The victims.
const (
	Root   Victim = "root"   // the program itself
	Caller Victim = "caller" // the process that makes the call
	Both   Victim = "both"
)

// Plan describes what to do to a program.
type Plan struct {
	// At is the number of the call, from 1, before which the signal is sent. The calls
	// of all processes of the program are counted together. If At is 0, calls are only
	// counted.
	At int
	// Victim defaults to Root. For a program without child processes, Root and Caller
	// are the same.
	Victim Victim
	// Signal defaults to SIGKILL.
	Signal syscall.Signal
}

// Outcome is the result of a run.
type Outcome struct {
	// Code is the exit code of the program, or -1 if a signal ended it.
	Code int `json:"code"`
	// Calls is the number of calls counted until all processes ended.
	Calls int `json:"calls"`
	// Point describes the call of Plan.At; it is empty if the program made fewer calls.
	Point string `json:"point,omitempty"`
}

// Patience is how long processes may outlive the program. After that [Run] fails, the
// program's standard error lists the processes, and the kernel kills them.
const Patience = 5 * time.Minute

// planVar is the environment variable that holds the task of the tracing process, as
// JSON. launchVar is the environment variable that the tracing process sets in its
// child, which calls launch.
const (
	planVar   = "NCZARR_KILLPOINT"
	launchVar = "NCZARR_KILLPOINT_LAUNCH"
)

// task describes the work of the tracing process.
type task struct {
	Plan   Plan     `json:"plan"`
	Path   string   `json:"path"` // path of the program
	Args   []string `json:"args"`
	Report string   `json:"report"` // file for the outcome
}

// counted maps the numbers of the counted system calls to their names.
var counted = map[uint32]string{
	unix.SYS_OPENAT: "openat", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_WRITEV: "writev",
	unix.SYS_PWRITEV: "pwritev", unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_FALLOCATE: "fallocate",
	unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_SYNCFS: "syncfs",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_LINKAT: "linkat", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_FCHMODAT: "fchmodat", unix.SYS_FCHOWNAT: "fchownat",
	unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHOWN: "fchown", unix.SYS_FSETXATTR: "fsetxattr", unix.SYS_UTIMENSAT: "utimensat",
}

// Main must be the first call in the TestMain function of tests that use [Run]. It does
// not return in a process that Run started.
func Main() {
	text, launched := os.Getenv(planVar), os.Getenv(launchVar) != ""
	if text == "" {
		return
	}
	var do task
	err := json.Unmarshal([]byte(text), &do)
	if err == nil && launched {
		err = launch(do)
	}
	var out Outcome
	if err == nil {
		out, err = trace(do)
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(out)
	}
	if err == nil {
		err = os.WriteFile(do.Report, data, 0o600)
	}
	fatal(err)
}

// fatal ends the process with exit code 0 if err is nil. Otherwise it prints err and
// ends the process with exit code 125.
func fatal(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "killpoint:", err)
	os.Exit(125)
}

// Run runs a program and sends the signal according to plan. The command cmd must not
// have been started. A second process of the test binary traces the program, because
// tracing affects all children of the tracing process. Run returns after all processes
// of the program have ended.
func Run(cmd *exec.Cmd, plan Plan) (Outcome, error) {
	if cmd.Err != nil {
		return Outcome{}, cmd.Err
	}
	dir, err := os.MkdirTemp("", "killpoint")
	if err != nil {
		return Outcome{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the directory is temporary
	self, err := os.Executable()
	if err != nil {
		return Outcome{}, err
	}
	if plan.Signal == 0 {
		plan.Signal = unix.SIGKILL
	}
	do := task{Plan: plan, Path: cmd.Path, Args: cmd.Args, Report: filepath.Join(dir, "outcome")}
	text, err := json.Marshal(do)
	if err != nil {
		return Outcome{}, err
	}
	cmd.Path, cmd.Args, cmd.Env = self, []string{self}, append(cmd.Environ(), planVar+"="+string(text))
	if err := cmd.Run(); err != nil {
		return Outcome{}, fmt.Errorf("trace %s: %w", do.Path, err)
	}
	data, err := os.ReadFile(do.Report)
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	err = json.Unmarshal(data, &out)
	return out, err
}

// launch installs the seccomp filter and executes the program. The filter selects the
// calls at which the kernel stops the program for the tracer, so that other calls run
// at full speed.
func launch(do task) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	prog := filter()
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]} // the program is short
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return fmt.Errorf("install the filter: %w", errno)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, planVar) })
	return fmt.Errorf("execute %s: %w", do.Path, unix.Exec(do.Path, do.Args, env))
}

// filter returns a seccomp program that traces the calls in counted. It traces openat
// only with O_CREAT or O_TRUNC.
func filter() []unix.SockFilter {
	const number, thirdArg = 0, 32 // offsets in struct seccomp_data
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	load := func(off uint32) unix.SockFilter { return stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, off) }
	trace, allow := stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_TRACE), stmt(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW)
	prog := []unix.SockFilter{
		load(number),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 4},
		load(thirdArg),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.O_CREAT | unix.O_TRUNC, Jf: 1},
		trace,
		allow,
	}
	for _, nr := range slices.Sorted(maps.Keys(counted)) {
		if nr != unix.SYS_OPENAT {
			prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1}, trace)
		}
	}
	return append(prog, allow)
}

// tracer follows the processes of one program. All its methods run on the tracing
// thread.
type tracer struct {
	plan    Plan
	out     Outcome
	root    int
	started bool         // the process has executed the program
	known   map[int]bool // threads whose first stop has been handled
}

// trace follows a program until all its processes have ended.
func trace(do task) (Outcome, error) {
	runtime.LockOSThread() // only the thread that started tracing may resume the program
	self, err := os.Executable()
	if err != nil {
		return Outcome{}, err
	}
	cmd := exec.Command(self)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), launchVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return Outcome{}, err
	}
	t := &tracer{plan: do.Plan, root: cmd.Process.Pid, known: map[int]bool{cmd.Process.Pid: true}}
	var status unix.WaitStatus
	if _, err := wait(t.root, &status); err != nil || !status.Stopped() {
		return Outcome{}, fmt.Errorf("wait for the program: status %#x: %w", status, err)
	}
	const options = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
		unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(t.root, options); err != nil {
		return Outcome{}, fmt.Errorf("trace the program: %w", err)
	}
	t.resume(t.root, 0)
	err = t.follow()
	return t.out, err
}

// follow handles stops until no process is left.
func (t *tracer) follow() error {
	var end *time.Timer
	for {
		var status unix.WaitStatus
		tid, err := wait(-1, &status)
		switch {
		case errors.Is(err, unix.ECHILD):
			if end != nil {
				end.Stop()
			}
			return nil
		case err != nil:
			return fmt.Errorf("wait for a process: %w", err)
		case status.Stopped():
			t.stopped(tid, status)
		case tid == t.root:
			t.out.Code = status.ExitStatus() // -1 for a signal
			end = time.AfterFunc(Patience, func() { fatal(fmt.Errorf("processes outlive the program by %v: %q", Patience, children())) })
		}
	}
}

// stopped resumes a thread. If the thread is at the point of the plan, stopped sends
// the signal first.
func (t *tracer) stopped(tid int, status unix.WaitStatus) {
	signal := status.StopSignal()
	if signal != unix.SIGTRAP {
		if signal == unix.SIGSTOP && !t.known[tid] { // every new thread starts with a SIGSTOP
			t.known[tid] = true
			signal = 0
		}
		t.resume(tid, signal)
		return
	}
	switch int(status) >> 16 {
	case unix.PTRACE_EVENT_EXEC:
		t.known[tid] = true
		t.started = t.started || tid == t.root
	case unix.PTRACE_EVENT_SECCOMP:
		if point := describe(tid); t.started && point != "" {
			t.out.Calls++
			if t.out.Calls == t.plan.At {
				t.out.Point = point
				t.sendSignal(tid)
			}
		}
	case unix.PTRACE_EVENT_CLONE, unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK:
	default: // a SIGTRAP of the program itself
		t.resume(tid, signal)
		return
	}
	t.resume(tid, 0)
}

// sendSignal sends the signal. A thread that is stopped before its call does not make the
// call if its process is killed.
func (t *tracer) sendSignal(tid int) {
	var pids []int
	if t.plan.Victim != Caller {
		pids = append(pids, t.root)
	}
	if pid := processOf(tid); t.plan.Victim != Root && pid != t.root || len(pids) == 0 {
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, t.plan.Signal) // the process may have ended
	}
}

// resume resumes a thread. It has no effect if the thread was killed in the meantime.
func (t *tracer) resume(tid int, signal syscall.Signal) { _ = unix.PtraceCont(tid, int(signal)) }

// wait waits for the thread pid, or for any thread if pid is -1.
func wait(pid int, status *unix.WaitStatus) (int, error) {
	for {
		tid, err := unix.Wait4(pid, status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return tid, err
		}
	}
}

// describe returns a description of the call before which a thread is stopped. It
// returns "" for a call that does not change a file.
func describe(tid int) string {
	proc := "/proc/" + strconv.Itoa(tid)
	text, err := os.ReadFile(proc + "/syscall")
	if err != nil {
		return ""
	}
	field := strings.Fields(string(text))
	nr, err := strconv.ParseUint(field[0], 10, 32)
	if err != nil {
		return ""
	}
	name := counted[uint32(nr)]
	if (nr == unix.SYS_WRITE || nr == unix.SYS_WRITEV) && len(field) > 1 {
		fd, err := strconv.ParseUint(strings.TrimPrefix(field[1], "0x"), 16, 64)
		if err != nil {
			return ""
		}
		file, err := os.Readlink(proc + "/fd/" + strconv.FormatUint(fd, 10))
		if err != nil || !strings.HasPrefix(file, "/") || strings.HasPrefix(file, "/dev/") || strings.HasPrefix(file, "/memfd:") {
			return ""
		}
		name += " " + filepath.Base(file)
	}
	comm, _ := os.ReadFile(proc + "/comm") // only for the report
	return name + " by " + strings.TrimSpace(string(comm))
}

// processOf returns the process of a thread.
func processOf(tid int) int {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	_, rest, _ := bytes.Cut(status, []byte("\nTgid:"))
	field, _, _ := bytes.Cut(rest, []byte("\n"))
	if pid, err := strconv.Atoi(string(bytes.TrimSpace(field))); err == nil {
		return pid
	}
	return tid
}

// children describes the traced processes that still exist.
func children() []string {
	self := strconv.Itoa(os.Getpid())
	var out []string
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil || !bytes.Contains(status, []byte("\nTracerPid:\t"+self+"\n")) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		out = append(out, e.Name()+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
	}
	return out
}
