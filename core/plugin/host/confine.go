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

// Sandbox says what happens when a process cannot be confined to its grants.
type Sandbox string

// The sandboxes.
const (
	// SandboxAuto confines as far as the system can, and warns once of what
	// it cannot.
	SandboxAuto Sandbox = "auto"
	// SandboxRequire refuses to start a process that could do more than it
	// is granted.
	SandboxRequire Sandbox = "require"
	// SandboxOff confines nothing.
	SandboxOff Sandbox = "off"
)

// ParseSandbox reads "auto", "require" or "off"; empty is SandboxAuto.
func ParseSandbox(s string) (Sandbox, error) {
	switch m := Sandbox(s); m {
	case "":
		return SandboxAuto, nil
	case SandboxAuto, SandboxRequire, SandboxOff:
		return m, nil
	}
	return "", ncerr.Errorf(ncerr.ErrInvalid, "read sandbox", s, "want auto, require or off")
}

// SandboxInfo is what confines a process.
type SandboxInfo struct {
	// Landlock is the version of the kernel's Landlock, 0 for none.
	Landlock int `json:"landlock"`
	// Seccomp says that system calls are filtered.
	Seccomp bool `json:"seccomp"`
	// AllowList reports that only the system calls that a filter needs are
	// allowed. Otherwise the calls that a plugin must not make are refused.
	AllowList bool `json:"allow_list"`
	// Memory is the ceiling on the process's memory in bytes, 0 for none.
	Memory int64 `json:"memory,omitempty"`
	// Missing says in words what is not enforced; empty when all is.
	Missing []string `json:"missing,omitempty"`
	// Open describes what the sandbox leaves open on every system.
	Open []string `json:"open,omitempty"`
}

// LevelAlert is the level at which a host logs that plugins of others run
// without a sandbox. A program that is asked to be quiet shows it all the same.
const LevelAlert = slog.LevelError + 4

// kernel is what the running kernel offers, asked for once.
var kernel = sync.OnceValue(sandbox.Probe)

// cell is the sandbox of one process.
type confinement struct {
	policy *sandbox.Policy // nil when nothing is confined
	info   SandboxInfo
}

// cell makes the sandbox of a process, or refuses when it is required and has
// holes. dir is its private directory.
func (h *Host) confine(s *supervisor, img image, dir string) (confinement, error) {
	c := h.plan(s)
	if len(c.info.Missing) > 0 {
		if h.opts.Sandbox == SandboxRequire {
			return c, missingError(c.info.Missing)
		}
		if h.opts.Sandbox != SandboxOff {
			h.warnOnce(strings.Join(c.info.Missing, "; "), s.free(c))
		}
	}
	if c.policy == nil {
		return c, nil
	}
	p := *c.policy
	p.Private, p.MayExec = dir, !s.program.builtin
	if !s.program.builtin {
		if p.NoFiles && img.interpreted() {
			p.NoFiles = false // an interpreter may want to keep something there
		}
		p.Exec = append(p.Exec, img.libraries()...)
	}
	c.policy = &p
	return c, nil
}

// holes makes the error of a sandbox that is required and lacks something.
func missingError(missing []string) error {
	return pluginErrorf("the sandbox is required, and has holes here: %s", strings.Join(missing, "; "))
}

// plan gives what can be confined of a process.
func (h *Host) plan(s *supervisor) confinement {
	switch {
	case s.program.attachment != nil:
		return confinement{info: SandboxInfo{Missing: []string{"it is run by its author, and attached to"}}}
	case h.opts.Sandbox == SandboxOff:
		return confinement{info: SandboxInfo{Missing: []string{"the sandbox is off"}}}
	case runtime.GOOS != "linux":
		return confinement{info: SandboxInfo{Missing: []string{"there is no sandbox on " + runtime.GOOS}}}
	case !s.program.builtin && !h.opts.Self.Valid():
		return confinement{info: SandboxInfo{Missing: []string{"plugins are not confined by a program that did not call plugin.Main"}}}
	}
	p := s.set.policy
	p.Kernel, p.Memory = h.opts.kernel(), max(0, h.opts.MaxMemory)
	p.Kernel.Notify = p.Kernel.Notify && !h.noNotify.Load()
	p.Kernel.Look = p.Kernel.Look && !h.noInspect.Load()
	p.AllowList = p.Kernel.Seccomp && s.set.serves == kindFilter+"s" && (s.program.isStatic() || h.opts.allowList)
	return confinement{policy: &p, info: SandboxInfo{
		Landlock: p.Kernel.Landlock, Seccomp: p.Kernel.Seccomp, AllowList: p.AllowList, Memory: p.Memory, Missing: p.Kernel.Missing(&p, s.program.builtin),
		Open: p.Kernel.Open(&p, s.program.builtin),
	}}
}

// free reports whether a plugin of others runs without Landlock or without a
// filter of system calls.
func (s *supervisor) free(c confinement) bool {
	return !s.program.builtin && (c.policy == nil || !c.policy.Kernel.Seccomp || !c.policy.Confines())
}

// warnOnce warns of each lack once. That others' programs run free is logged
// at LevelAlert, and to slog's default logger where the host has none.
func (h *Host) warnOnce(what string, free bool) {
	h.mu.Lock()
	known := slices.Contains(h.warned, what) && (!free || h.alerted)
	if !known {
		h.warned = append(h.warned, what)
		h.alerted = h.alerted || free
	}
	h.mu.Unlock()
	switch {
	case known:
	case free:
		h.opts.alert.Log(h.ctx, LevelAlert, "plugins of others are not wholly confined", "missing", what)
	default:
		h.opts.Logger.Warn("plugins are not wholly confined", "missing", what)
	}
}

// enter gives the image to start, and the environment that tells it about its
// sandbox, for a process with that many descriptors from 3 on.
func (c *confinement) enter(img image, files int) (image, []string) {
	if c.policy == nil {
		return img, nil
	}
	p := *c.policy
	for fd := range files {
		p.Keep = append(p.Keep, 3+fd)
	}
	if !p.MayExec {
		return img, []string{handshake.EnvSandbox + "=" + p.Encode()}
	}
	p.Keep = append(p.Keep, imageFD)
	img.launcher = selfImage
	return img, []string{handshake.EnvSandbox + "=" + p.Encode(), handshake.EnvExec + "=" + imagePath}
}

// systemFiles are what programs that are not static need: libraries,
// interpreters, their data, and devices without a memory.
var systemFiles = [...]string{
	"/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
	"/etc/localtime", "/dev/null", "/dev/urandom",
}

// libraries gives what the program needs to run: nothing when it is static.
func (img *image) libraries() []string {
	if img.static {
		return nil
	}
	out := slices.Clone(systemFiles[:])
	if line, ok := bytes.CutPrefix(img.head, []byte("#!")); ok {
		// The kernel's blanks: with others it would take another path than we do.
		if fields := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' }); len(fields) > 0 && filepath.IsAbs(fields[0]) {
			out = append(out, fields[0])
		}
	}
	return out
}

// interpreted reports whether the program is a script.
func (img *image) interpreted() bool { return bytes.HasPrefix(img.head, []byte("#!")) }

// isStatic reports whether the plugin is known to be a program that needs no
// other file, as a built-in one no longer does when it is confined.
func (p *program) isStatic() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.builtin || p.img != nil && p.img.static
}

// examine gives the first line of an executable, and whether it is one that
// needs no other file.
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
