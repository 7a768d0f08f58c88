package sandbox

import "encoding/json"

// Policy is what a plugin process may do beyond computing, reading and
// writing the descriptors that it has, and listening on Unix sockets in its
// private directory. The zero value grants nothing and limits nothing. It
// travels as JSON from the host to the process.
type Policy struct {
	// Private is the process's own directory, for its socket and temporary
	// files.
	Private string `json:"private,omitempty"`
	// Read and Write are files or directories with all below them. Paths that
	// do not exist are passed over.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Exec are files and directories of programs and libraries, for reading
	// and executing.
	Exec []string `json:"exec,omitempty"`
	// Network allows TCP connections and datagrams; Ports, when not empty,
	// are the only ports that may be connected to.
	Network bool     `json:"network,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	// Memory is the ceiling on private writable memory in bytes, 0 for none.
	Memory int64 `json:"memory,omitempty"`
	// NoFiles forbids a process to write to files at all, its private
	// directory included; empty files can still be made there.
	NoFiles bool `json:"no_files,omitempty"`
	// Keep are descriptors that stay open besides the first three.
	Keep []int `json:"keep,omitempty"`
	// Listening is a descriptor through which the process hands its host
	// supervision of its calls to listen and to execute programs, or 0. It
	// requires MayExec.
	Listening int `json:"listening,omitempty"`
	// MayExec is set for a process that executes its program after the policy
	// is in force.
	MayExec bool `json:"may_exec,omitempty"`
	// AllowList makes every system call absent except those that a filter in a
	// static program needs.
	AllowList bool `json:"allow_list,omitempty"`
	// Kernel is what the host found; the process applies exactly that.
	Kernel Support `json:"kernel"`
}

// Encode gives the policy as JSON.
func (p *Policy) Encode() string {
	text, err := json.Marshal(p)
	if err != nil { // strings and numbers only
		panic("sandbox: " + err.Error())
	}
	return string(text)
}

// Support is what the kernel offers.
type Support struct {
	// Landlock is the version of its interface; 0 is none.
	Landlock int `json:"landlock"`
	// Scoped says that signals between threads of one process work although
	// signals to others are confined.
	Scoped bool `json:"scoped"`
	// Seccomp says that system calls can be filtered.
	Seccomp bool `json:"seccomp"`
	// Notify reports that another process can supervise them, and Look that it
	// can look at what their descriptors are.
	Notify bool `json:"notify"`
	Look   bool `json:"look"`
}

// The versions of Landlock's interface in which something new came.
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

// usable reports whether Landlock can carry p: the first version forbids all
// moves between directories, which a driver that writes cannot live with.
func (s Support) usable(p *Policy) bool {
	return s.Landlock >= abiRefer || s.Landlock >= abiFiles && len(p.Write) == 0
}

// Confines reports whether Landlock confines files with this policy.
func (p *Policy) Confines() bool { return p.Kernel.usable(p) }

// Missing names what a process with this policy could do on this kernel
// although it is not granted. SelfContained says that the process, being
// ours, gives up Unix sockets once it has its own.
func (s Support) Missing(p *Policy, selfContained bool) []string {
	var out []string
	add := func(missing bool, text string) {
		if missing {
			out = append(out, text)
		}
	}
	add(!s.Seccomp, "system calls are not filtered (no seccomp)")
	add(s.Seccomp && !s.Notify && !selfContained, "any sockets can be listened on, and the process can outlive its host (no seccomp notification)")
	add(s.Seccomp && s.Notify && !s.Look && !selfContained, "one socket of any kind can be listened on (no pidfd_getfd)")
	if !s.usable(p) {
		return append(out, "files are not confined (no Landlock)")
	}
	add(s.Landlock < abiTruncate && len(p.Read)+len(p.Exec) > 0, "files that may be read can be emptied (Landlock before version 3)")
	add(s.Landlock < abiTCP && len(p.Ports) > 0, "ports are not confined (Landlock before version 4)")
	add(s.Landlock < abiScope && p.Network, "abstract Unix sockets can be reached (Landlock before version 6)")
	add(s.Landlock < abiUnix && p.Network && !selfContained, "Unix sockets of the user can be reached (Landlock before version 9)")
	return out
}

// Open describes what a process with this policy can do on every kernel without
// a grant. The tests of core/plugin/host have a successful attack for each.
func (s Support) Open(p *Policy, selfContained bool) []string {
	out := []string{"it can look at files whose path it can guess, but not into them"}
	if p.Network && s.Landlock < abiUDP {
		out = append(out, "it can send datagrams to any address, and receive them")
	}
	if len(p.Write) > 0 {
		out = append(out, "it can change the mode and the times of files that it is granted to read")
	}
	if !selfContained {
		out = append(out, "it can take names of abstract sockets, without being reached there, and hide memory from its ceiling")
	}
	return out
}
