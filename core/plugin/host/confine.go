package host

import (
	"bytes"
	"debug/elf"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/seed-695719ce/nczarr/core/ncerr"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/handshake"
	"github.com/seed-695719ce/nczarr/core/plugin/internal/sandbox"
)

// Sandbox selects what happens when a process cannot be confined to its grants.
type Sandbox string

// Values of Sandbox.
const (
	// SandboxAuto confines processes as far as the system permits, and logs a warning
	// once about the restrictions that the system cannot enforce.
	SandboxAuto Sandbox = "auto"
	// SandboxRequire refuses to start a process that cannot be confined to its grants.
	SandboxRequire Sandbox = "require"
	// SandboxOff disables the sandbox.
	SandboxOff Sandbox = "off"
)

// ParseSandbox parses "auto", "require" or "off". The empty string is SandboxAuto.
func ParseSandbox(s string) (Sandbox, error) {
	switch m := Sandbox(s); m {
	case "":
		return SandboxAuto, nil
	case SandboxAuto, SandboxRequire, SandboxOff:
		return m, nil
	}
	return "", ncerr.Errorf(ncerr.ErrInvalid, "parse sandbox", s, "must be auto, require or off")
}

// SandboxInfo describes the sandbox of a process.
type SandboxInfo struct {
	// Landlock is the ABI version of Landlock, or 0 without Landlock.
	Landlock int `json:"landlock"`
	// Seccomp reports whether system calls are filtered.
	Seccomp bool `json:"seccomp"`
	// AllowList reports whether only the system calls that a filter needs are allowed.
	// Otherwise only the calls that a plugin must not make are refused.
	AllowList bool `json:"allow_list"`
	// Memory is the limit on the process's memory in bytes, or 0 without a limit.
	Memory int64 `json:"memory,omitempty"`
	// Missing describes the restrictions that the system cannot enforce. It is empty if
	// the sandbox is complete.
	Missing []string `json:"missing,omitempty"`
	// Open describes what the process can do without a grant even if the sandbox is
	// complete.
	Open []string `json:"open,omitempty"`
}

// LevelAlert is the level at which a host logs that third-party plugins run without a
// sandbox. Programs show such records even in quiet mode.
const LevelAlert = slog.LevelError + 4

// kernel returns the sandbox features of the running kernel, which it probes only once.
var kernel = sync.OnceValue(sandbox.Probe)

// confinement is the sandbox of one process.
type confinement struct {
	policy *sandbox.Policy // nil if the process is not confined
	info   SandboxInfo
}

// confine returns the sandbox of a process with the private directory dir. It fails if
// a sandbox is required and the system cannot enforce all of it.
func (h *Host) confine(s *supervisor, img image, dir string) (confinement, error) {
	c := h.plan(s)
	if len(c.info.Missing) > 0 {
		if h.opts.Sandbox == SandboxRequire {
			return c, missingError(c.info.Missing)
		}
		if h.opts.Sandbox != SandboxOff {
			h.warnOnce(strings.Join(c.info.Missing, "; "), s.isUnconfined(c))
		}
	}
	if c.policy == nil {
		return c, nil
	}
	p := *c.policy
	p.Private, p.MayExec = dir, !s.program.builtin
	if !s.program.builtin {
		if p.NoFiles && img.interpreted() {
			p.NoFiles = false // an interpreter may need to write temporary files
		}
		p.Exec = append(p.Exec, img.libraries()...)
	}
	c.policy = &p
	return c, nil
}

// missingError returns the error for a required sandbox that is incomplete.
func missingError(missing []string) error {
	return pluginErrorf("the sandbox is required but incomplete: %s", strings.Join(missing, "; "))
}

// plan returns the confinement that the system can enforce for a process.
func (h *Host) plan(s *supervisor) confinement {
	switch {
	case s.program.attachment != nil:
		return confinement{info: SandboxInfo{Missing: []string{"the host did not start the plugin but attached to it"}}}
	case h.opts.Sandbox == SandboxOff:
		return confinement{info: SandboxInfo{Missing: []string{"the sandbox is off"}}}
	case runtime.GOOS != "linux":
		return confinement{info: SandboxInfo{Missing: []string{runtime.GOOS + " has no sandbox"}}}
	case !s.program.builtin && !h.opts.Self.Valid():
		return confinement{info: SandboxInfo{Missing: []string{"the program did not call plugin.Main, which confines plugins"}}}
	}
	p := s.set.policy
	p.Kernel, p.Memory = h.opts.kernel(), max(0, h.opts.MaxMemory)
	p.Kernel.Notify = p.Kernel.Notify && !h.noNotify.Load()
	p.Kernel.Inspect = p.Kernel.Inspect && !h.noInspect.Load()
	p.AllowList = p.Kernel.Seccomp && s.set.serves == kindFilter+"s" && (s.program.isStatic() || h.opts.allowList)
	return confinement{policy: &p, info: SandboxInfo{
		Landlock: p.Kernel.Landlock, Seccomp: p.Kernel.Seccomp, AllowList: p.AllowList, Memory: p.Memory, Missing: p.Kernel.Missing(&p, s.program.builtin),
		Open: p.Kernel.Open(&p, s.program.builtin),
	}}
}

// isUnconfined reports whether a third-party plugin runs without Landlock or without a
// filter of system calls.
func (s *supervisor) isUnconfined(c confinement) bool {
	return !s.program.builtin && (c.policy == nil || !c.policy.Kernel.Seccomp || !c.policy.Confines())
}

// warnOnce logs a warning once per text. If unconfined is set, third-party plugins run
// unconfined, and warnOnce logs at LevelAlert, to slog's default logger if the host has
// no logger.
func (h *Host) warnOnce(what string, unconfined bool) {
	h.mu.Lock()
	known := slices.Contains(h.warned, what) && (!unconfined || h.alerted)
	if !known {
		h.warned = append(h.warned, what)
		h.alerted = h.alerted || unconfined
	}
	h.mu.Unlock()
	switch {
	case known:
	case unconfined:
		h.opts.alert.Log(h.ctx, LevelAlert, "third-party plugins are not fully confined", "missing", what)
	default:
		h.opts.Logger.Warn("plugins are not fully confined", "missing", what)
	}
}

// enter returns the image to start and the environment variables that describe the
// sandbox. files is the number of descriptors, starting at 3, that the process
// inherits.
func (c *confinement) enter(img image, files int) (image, []string) {
	if c.policy == nil {
		return img, nil
	}
	p := *c.policy
	for fd := range files {
		p.KeepFDs = append(p.KeepFDs, 3+fd)
	}
	if !p.MayExec {
		return img, []string{handshake.EnvSandbox + "=" + p.Encode()}
	}
	p.KeepFDs = append(p.KeepFDs, imageFD)
	img.launcher = selfImage
	return img, []string{handshake.EnvSandbox + "=" + p.Encode(), handshake.EnvExec + "=" + imagePath}
}

// systemFiles lists what dynamically linked programs need: libraries, interpreters and
// their data, and stateless devices.
var systemFiles = [...]string{
	"/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/localtime", "/dev/null", "/dev/urandom",
}

// libraries returns the files that the program needs to run. It returns nil for a
// static program.
func (img *image) libraries() []string {
	if img.static {
		return nil
	}
	out := slices.Clone(systemFiles[:])
	if line, ok := bytes.CutPrefix(img.head, []byte("#!")); ok {
		// The kernel splits at spaces and tabs only. Splitting at other characters
		// would yield a path that differs from the kernel's.
		if fields := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' }); len(fields) > 0 && filepath.IsAbs(fields[0]) {
			out = append(out, fields[0])
		}
	}
	return out
}

// interpreted reports whether the program is a script.
func (img *image) interpreted() bool { return bytes.HasPrefix(img.head, []byte("#!")) }

// isStatic reports whether the plugin is a static program. It returns true for a
// built-in plugin, which has loaded its libraries before it is confined.
func (p *program) isStatic() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.builtin || p.img != nil && p.img.static
}

// examine returns the first line of an executable, truncated to 256 bytes, and reports
// whether the executable is a static program.
func examine(img image) (head []byte, static bool) {
	var r io.ReaderAt = img.file
	if img.file == nil {
		f, err := os.Open(img.path)
		if err != nil {
			return nil, false
		}
		defer func() { _ = f.Close() }()
		r = f
	}
	buf := make([]byte, 256)
	n, _ := r.ReadAt(buf, 0)
	head, _, _ = bytes.Cut(buf[:n], []byte("\n"))
	file, err := elf.NewFile(r)
	if err != nil {
		return head, false
	}
	return head, !slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}
