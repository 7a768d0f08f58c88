package sandbox

import "encoding/json"

// Policy describes what a plugin process may do in addition to computing, using its
// open descriptors, and listening on Unix sockets in its private directory. The zero
// value grants nothing and sets no limits. The host sends the policy to the process as
// JSON.
type Policy struct {
	// Private is the process's private directory, for its socket and temporary files.
	Private string `json:"private,omitempty"`
	// Read and Write list files and directory trees that the process may read, or read
	// and write. Paths that do not exist are ignored.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Exec lists files and directories of programs and libraries, for reading and
	// executing.
	Exec []string `json:"exec,omitempty"`
	// Network permits TCP connections and datagrams. If Ports is not empty, it lists
	// the TCP ports to which the process may connect.
	Network bool     `json:"network,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	// Memory limits private writable memory in bytes. 0 means no limit.
	Memory int64 `json:"memory,omitempty"`
	// NoFiles prevents the process from writing to files, even in its private
	// directory. The process can still create empty files there.
	NoFiles bool `json:"no_files,omitempty"`
	// KeepFDs lists inherited descriptors that stay open, in addition to the first
	// three.
	KeepFDs []int `json:"keep,omitempty"`
	// Listening is a descriptor through which the process hands over supervision of its
	// listen and execve calls to the host, or 0. It requires MayExec.
	Listening int `json:"listening,omitempty"`
	// MayExec is set for a process that executes its program after the policy is
	// applied.
	MayExec bool `json:"may_exec,omitempty"`
	// AllowList permits only the system calls that filters in static programs need.
	AllowList bool `json:"allow_list,omitempty"`
	// Kernel describes the kernel features that the process uses.
	Kernel Support `json:"kernel"`
}

// Encode returns the policy as JSON.
func (p *Policy) Encode() string {
	text, err := json.Marshal(p)
	if err != nil { // unreachable: a Policy has only strings, numbers and booleans
		panic("sandbox: " + err.Error())
	}
	return string(text)
}

// Support describes what the kernel supports.
type Support struct {
	// Landlock is the ABI version of Landlock, or 0 without Landlock.
	Landlock int `json:"landlock"`
	// Scoped reports whether threads of one process can signal each other while signals
	// to other processes are blocked.
	Scoped bool `json:"scoped"`
	// Seccomp reports whether system calls can be filtered.
	Seccomp bool `json:"seccomp"`
	// Notify reports whether another process can supervise system calls. Inspect
	// reports whether the supervisor can also inspect the descriptors passed to the calls.
	Notify  bool `json:"notify"`
	Inspect bool `json:"inspect"`
}

// Landlock ABI versions that introduced features.
const (
	abiFiles    = 1
	abiRefer    = 2
	abiTruncate = 3
	abiTCP      = 4
	abiScope    = 6
	abiUnix     = 9
	abiUDP      = 10
	abiNewest   = 11
)

// usable reports whether Landlock can enforce p. Version 1 forbids moving files between
// directories, which drivers that write must do.
func (s Support) usable(p *Policy) bool {
	return s.Landlock >= abiRefer || s.Landlock >= abiFiles && len(p.Write) == 0
}

// Confines reports whether Landlock confines files under this policy.
func (p *Policy) Confines() bool { return p.Kernel.usable(p) }

// Missing describes what a process with this policy can do without a grant because this
// kernel lacks features. selfContained is set for processes of this program, which can
// no longer create Unix sockets once they listen.
func (s Support) Missing(p *Policy, selfContained bool) []string {
	var out []string
	add := func(missing bool, text string) {
		if missing {
			out = append(out, text)
		}
	}
	add(!s.Seccomp, "system calls are not filtered (no seccomp)")
	add(s.Seccomp && !s.Notify && !selfContained, "the process can listen on any sockets and outlive its host (no seccomp notification)")
	add(s.Seccomp && s.Notify && !s.Inspect && !selfContained, "the process can listen on one socket of any kind (no pidfd_getfd)")
	if !s.usable(p) {
		return append(out, "files are not confined (no Landlock)")
	}
	add(s.Landlock < abiTruncate && len(p.Read)+len(p.Exec) > 0, "readable files can be truncated (Landlock before version 3)")
	add(s.Landlock < abiTCP && len(p.Ports) > 0, "ports are not confined (Landlock before version 4)")
	add(s.Landlock < abiScope && p.Network, "abstract Unix sockets can be reached (Landlock before version 6)")
	add(s.Landlock < abiUnix && p.Network && !selfContained, "Unix sockets of the user can be reached (Landlock before version 9)")
	return out
}

// Open describes what a process with this policy can do without a grant even if the
// sandbox is complete. The tests of core/plugin/host demonstrate each entry.
func (s Support) Open(p *Policy, selfContained bool) []string {
	out := []string{"the process can stat files whose path is known, but not read them"}
	if p.Network && s.Landlock < abiUDP {
		out = append(out, "the process can send datagrams to any address and receive datagrams")
	}
	if len(p.Write) > 0 {
		out = append(out, "the process can change the mode and the times of files granted for reading")
	}
	if !selfContained {
		out = append(out, "the process can bind abstract socket names, to which no process can connect, and exceed its memory limit with read-only memory")
	}
	return out
}
